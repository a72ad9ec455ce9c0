set -e
echo 'a document' >/var/www/html/document
nginx
while [ ! -s /run/nginx.pid ]; do sleep 0.02; done
ask() {
    exec 3<>/dev/tcp/127.0.0.1/80
    printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
    grep --text -E '^(HTTP|Server|Content-|a document)' <&3
    exec 3>&-
}
ask /document
ask /none
for process in /proc/[0-9]*; do
    if tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q '^nginx: worker'; then stat -c %U "$process"; fi
done | sort -u
nginx -s quit
while [ -e /run/nginx.pid ]; do sleep 0.02; done
cut -d' ' -f1,6- /var/log/nginx/access.log

declare -A map=([a]=1 [b]=2)
for key in "${!map[@]}"; do echo "$key ${map[$key]}"; done | sort
diff <(seq 3) <(seq 2 4)
coproc cat
echo through a coprocess >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
echo "$line"
trap 'echo trapped' USR1
kill -USR1 $$
seq 100000 | sort -R | sort -n | md5sum
getent passwd | md5sum
locale -a | sort
dpkg --list | wc -l
dpkg --verify coreutils | grep -v /usr/share
perl -e 'print "perl $]\n"; $SIG{CHLD} = sub { wait; print "child $?\n" }; unless (fork) { exit 3 } select(undef, undef, undef, 0.2)'
stat -c '%A %U %G %n' /usr/bin/su /var/mail /tmp /var/lib/redis /var/lib/postgresql
echo "$BASH_VERSION $PWD $(id -u) $(tty)"

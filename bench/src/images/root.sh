# Makes a root file system of programs of the host: root.sh ROOT HULL PROGRAM…
# ROOT has /bench/hull, /bin/sh, the programs with what belongs to them, and all shared libraries that they need.
set -eu
root=$1 hull=$2
shift 2

# The links of a merged /usr, and where others are mounted.
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$name" ]; then
        mkdir -p "$root/usr/${name}"
        ln -s "usr/$name" "$root/$name"
    fi
done
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/etc" "$root/bench"

# A file; of a link, also the file that it leads to.
put() {
    directory=$(realpath "$(dirname "$1")")
    at=$root$directory/$(basename "$1")
    mkdir -p "$root$directory"
    if [ -L "$1" ]; then
        target=$(realpath "$1")
        ln -sfn "$target" "$at"
        mkdir -p "$root$(dirname "$target")"
        [ -e "$root$target" ] || cp -a "$target" "$root$target"
    elif [ ! -e "$at" ]; then
        cp -a "$1" "$at"
    fi
}

# The shared libraries of files.
libraries() {
    { ldd "$@" 2>/dev/null || true; } | grep -o '/[^ :]*\.so[^ :]*' | sort -u | while read -r library; do
        if [ -e "$library" ]; then put "$library"; fi
    done
}

# A directory with what its programs and modules need; without parts that nothing here reads.
tree() {
    mkdir -p "$root$1"
    (cd "$1" && tar --exclude=./jmods --exclude=./demo --exclude=./lib/src.zip --exclude=./test -cf - .) | tar -xf - -C "$root$1"
    libraries $(find "$1" -type f \( -name '*.so' -o -perm -100 \) -size +4k)
}

cp "$hull" "$root/bench/hull"
libraries "$hull"
for program in /bin/sh "$@"; do
    put "$program"
    libraries "$(realpath "$program")"
    case $program in
    */python3) tree "$(realpath "$("$program" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')")" ;;
    */java)
        tree "$(realpath "$(dirname "$(realpath "$program")")/..")"
        for settings in /etc/java-*; do
            if [ -d "$settings" ]; then tree "$settings"; fi
        done
        ;;
    */git) tree /usr/lib/git-core ;;
    esac
done

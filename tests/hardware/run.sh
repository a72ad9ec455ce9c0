#!/usr/bin/env bash
# Checks `hull` on ordinary hardware KVM without such a machine: boots a distribution kernel with
# kvm-amd under QEMU's own emulator, whose CPU offers AMD-V, and runs a smoke test of the given hull
# binary in it, or with --suite all programs of tests/abi. Prints what the machine prints; exit code 0
# if every test passed.
#
#     tests/hardware/run.sh [--suite] [PATH-OF-HULL [FILTER…]]     (default: target/release/hull)
# HULL_HARDWARE_COMMAND, with --suite, is a shell line to run there instead of the programs.
#
# HULL_HARDWARE_KERNEL names another package of a kernel than Debian's usual one.
# HULL_HARDWARE_CPUS: processors of the machine, 2 unless told.
#
# Needs the Debian packages qemu-system-x86, cpio, busybox-static, and fetches the package of the
# distribution's kernel into target/hardware once.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
suite=
if [ "${1:-}" = --suite ]; then
    suite=yes
    shift
fi
hull=${1:-$root/target/release/hull}
[ $# = 0 ] || shift
work=$root/target/hardware
minutes=${HULL_HARDWARE_MINUTES:-$([ -n "$suite" ] && echo 60 || echo 10)}

for tool in cc qemu-system-x86_64 cpio dpkg-deb busybox; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is missing; install qemu-system-x86 cpio dpkg busybox-static" >&2; exit 125; }
done
[ -x "$hull" ] || { echo "run.sh: $hull does not exist; build it first (cargo build --release)" >&2; exit 125; }

mkdir -p "$work"
if ! ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    package=${HULL_HARDWARE_KERNEL:-$package}
    (cd "$work" && apt-get -q download "$package")
    dpkg-deb -x "$work/$package"*.deb "$work/kernel"
    rm -f "$work/$package"*.deb
fi
kernel=$(ls "$work"/kernel/boot/vmlinuz-* | head -n 1)
version=${kernel##*/vmlinuz-}

# The machine's root: busybox, hull with its libraries, the modules of KVM, something to run.
own=$(mktemp -d "$work/run.XXXXXX")
trap 'rm -rf "$own"' EXIT
tree=$own/root log=$own/log
mkdir -m 755 "$tree"
mkdir -p "$tree"/{bin,dev,proc,sys,tmp,usr/bin,usr/lib,usr/sbin,etc,opt,modules}
cp "$(command -v busybox)" "$tree/bin/busybox"
cp "$(command -v busybox)" "$tree/usr/bin/busybox"
cp "$hull" "$tree/bin/hull"
copy_libraries() {
    { ldd "$1" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
        mkdir -p "$tree$(dirname "$library")"
        cp -nL "$library" "$tree$library"
    done
}
copy_libraries "$hull"
for program in sh bash ls sort sed grep; do
    path=$(command -v "$program")
    cp -L "$path" "$tree/usr/bin/$program"
    copy_libraries "$path"
done
for program in parallel parallel_memory parallel_ends; do
    cc -O1 -static -pthread -I "$here/../abi" -o "$tree/usr/bin/$program" "$here/../abi/threads/$program.c"
done
for module in irqbypass kvm ccp kvm-amd; do
    file=$(find "$work/kernel/lib/modules/$version" -name "$module.ko*" | head -n 1)
    [ -n "$file" ] && cp "$file" "$tree/modules/$module.ko"
done
cp "$here/init" "$tree/init"
command=${HULL_HARDWARE_COMMAND:-}
if [ -n "$suite" ]; then
    # The test's own executable finds sources and programs where they were built.
    HULL_TEST_ORACLE=0 cargo test --quiet --release --manifest-path "$root/Cargo.toml" -p hull-tests --test abi >/dev/null
    abi=$(cargo test --release --manifest-path "$root/Cargo.toml" -p hull-tests --test abi --no-run 2>&1 |
        sed -n 's/.*Executable.*(\(.*\))$/\1/p')
    case $abi in /*) ;; *) abi=$root/$abi ;; esac
    programs=$(dirname "$(dirname "$(dirname "$abi")")")/tmp/abi
    mkdir -p "$tree$root/tests" "$tree$(dirname "$programs")" "$tree/suite"
    cp -rp "$root/tests/abi" "$tree$root/tests/"
    cp -r "$programs" "$tree$programs"
    find "$tree$programs" -type f -exec touch {} +
    cp "$abi" "$tree/suite/abi"
    copy_libraries "$abi"
    for program in "$programs"/*/*; do copy_libraries "$program"; done
    for program in $(cd "$here" && cat suite-programs); do
        path=$(type -P "$program") || continue
        cp -nL "$path" "$tree/usr/bin/"
        copy_libraries "$path"
    done
    cp -L /etc/passwd /etc/group /etc/nsswitch.conf "$tree/etc/"
    # QEMU 7.2 tells the emulated machine's own kernel of a page fault of cpu/exceptions as if it were the kernel's: an oops.
    # On Linux 6.1, process/pidfd waits for ever natively, as PIDFD_THREAD is unknown there.
    command=${command:-/suite/abi --test-threads 1 --skip cpu/exceptions --skip process/pidfd $*}
    { echo '#!/bin/busybox sh'; echo "cd / && export HULL_BIN=/bin/hull HULL_TEST_SLOWNESS=20 && $command && echo 'hardware suite: all passed'"; } >"$tree/check"
else
    cp "$here/smoke" "$tree/check"
fi
chmod +x "$tree/init" "$tree/check"
(cd "$tree" && find . | cpio --quiet -o -H newc) | gzip -1 >"$own/initramfs.gz"

# One thread for all processors: with a thread each, QEMU 7.2 may keep the translation of a breakpoint by which Linux
# patches its code on another processor, which then raises it for ever.
status=0
timeout "$((minutes * 60))" qemu-system-x86_64 -accel tcg,thread=single -cpu max,la57=off -smp "${HULL_HARDWARE_CPUS:-2}" -m 3G -display none -monitor none -no-reboot \
    -serial stdio -kernel "$kernel" -initrd "$own/initramfs.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off" </dev/null | sed -u 's/\r$//' | tee "$log" || status=$?
[ "$status" = 0 ] || { echo "run.sh: the machine did not finish within $minutes minutes (or QEMU failed: $status)" >&2; exit 1; }
grep -q '^hardware [a-z]*: all passed$' "$log"

#!/usr/bin/env bash
# Checks `hull` on ordinary hardware KVM without such a machine: boots a distribution kernel with
# kvm-amd under QEMU's own emulator, whose CPU offers AMD-V, and runs a smoke test of the given hull
# binary in it. Prints what the machine prints; exit code 0 if all lines of the test passed.
#
#     tests/hardware/run.sh [PATH-OF-HULL]     (default: target/release/hull)
#
# Needs the Debian packages qemu-system-x86, cpio, busybox-static, and fetches the package of the
# distribution's kernel into target/hardware once.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
hull=${1:-$root/target/release/hull}
work=$root/target/hardware
minutes=${HULL_HARDWARE_MINUTES:-10}

for tool in cc qemu-system-x86_64 cpio dpkg-deb busybox; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is missing; install qemu-system-x86 cpio dpkg busybox-static" >&2; exit 125; }
done
[ -x "$hull" ] || { echo "run.sh: $hull does not exist; build it first (cargo build --release)" >&2; exit 125; }

mkdir -p "$work"
if ! ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    (cd "$work" && apt-get -q download "$package")
    dpkg-deb -x "$work/$package"*.deb "$work/kernel"
    rm -f "$work/$package"*.deb
fi
kernel=$(ls "$work"/kernel/boot/vmlinuz-* | head -n 1)
version=${kernel##*/vmlinuz-}

# The machine's root: busybox, hull with its libraries, the modules of KVM, something to run.
tree=$(mktemp -d "$work/root.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,dev,proc,sys,tmp,usr/bin,usr/lib,usr/sbin,etc,opt,modules}
cp "$(command -v busybox)" "$tree/bin/busybox"
cp "$(command -v busybox)" "$tree/usr/bin/busybox"
cp "$hull" "$tree/bin/hull"
copy_libraries() {
    ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
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
cp "$here/smoke" "$tree/smoke"
chmod +x "$tree/init" "$tree/smoke"
(cd "$tree" && find . | cpio --quiet -o -H newc) | gzip -1 >"$work/initramfs.gz"

rm -f "$work/log"
status=0
timeout "$((minutes * 60))" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 2G -display none -monitor none -no-reboot \
    -serial "file:$work/log" -kernel "$kernel" -initrd "$work/initramfs.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off" </dev/null || status=$?
tr -d '\r' <"$work/log"
[ "$status" = 0 ] || { echo "run.sh: the machine did not finish within $minutes minutes (or QEMU failed: $status)" >&2; exit 1; }
tr -d '\r' <"$work/log" | grep -q '^hardware smoke: all passed$'

# Runs a script of a system: chroot.sh ROOT SHARED USER SCRIPT. As the first process of namespaces of its own.
set -eu
root=$1 shared=$2 user=$3 script=$4
ip link set lo up
place=$root.mounted
mount -t tmpfs tmpfs "$place"
mkdir "$place/upper" "$place/work" "$place/at"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$place/upper,workdir=$place/work" "$place/at"
mkdir "$place/at/shared"
mount --bind "$shared" "$place/at/shared"
mount -t proc proc "$place/at/proc"
mount --rbind /dev "$place/at/dev"
cd /
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/tmp \
    chroot --userspec="$user" "$place/at" bash -c "$script"

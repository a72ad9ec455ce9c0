# Makes a Debian system from the mirrors of this machine, and archives of it: make.sh DIRECTORY
set -eu
cd "$1"
. /etc/os-release
sources=
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    if [ -z "$sources" ] && [ -s "$file" ]; then sources=$file; fi
done

# In memory where there is room for the system and its archive: dpkg synchronises each file.
room=$(df --output=avail --block-size=1M /dev/shm 2>/dev/null | tail -n 1)
if [ "${room:-0}" -gt 3000 ]; then TMPDIR=/dev/shm; else TMPDIR=$PWD; fi
export TMPDIR

# Nothing is lost that a program of the tests reads: without documentation, translations and the compiler of queries (100 MB).
# The Java runtime registers its manual pages, and fails if they have no directory.
mmdebstrap --quiet --mode=root --variant=minbase \
    --include=python3,python3-pip,postgresql,redis-server,nginx-light,nodejs,ecj \
    --essential-hook='mkdir -p "$1/usr/share/man/man1"' \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "5"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=*/libLLVM*' \
    "$VERSION_CODENAME" root.tar $sources

mkdir root root.mounted
tar --numeric-owner --xattrs --xattrs-include='*' -xpf root.tar -C root

# An archive of docker's format. In a mount namespace, because podman mounts its storage, and at a short path there,
# because podman refuses a run root of more than 50 characters.
mkdir podman
unshare --mount sh -eu -c '
    mount --bind podman /mnt
    podman() { command podman --root /mnt/root --runroot /mnt/run --tmpdir /mnt/tmp "$@"; }
    podman import --quiet root.tar debian:podman
    podman save --quiet --output docker.tar localhost/debian:podman'
rm -r podman root.tar

# An archive of OCI, whose configuration umoci wrote.
skopeo copy --quiet docker-archive:docker.tar oci:layout:debian
umoci config --image layout:debian --config.user postgres --config.workingdir /var/lib/postgresql --config.cmd id --config.cmd=-un
skopeo copy --quiet oci:layout:debian oci-archive:oci.tar:debian:umoci
rm -r layout

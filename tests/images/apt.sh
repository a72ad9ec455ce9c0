# Installs and removes a package of the repository /shared/repository.
set -e
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
echo 'deb [trusted=yes] copy:/shared/repository ./' >/etc/apt/sources.list
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >/tmp/log 2>&1
apt-get -q install --yes hull-greeting >>/tmp/log 2>&1
hull-greeting
dpkg --status hull-greeting | grep -E '^(Status|Version)'
grep -c hull-greeting /var/log/dpkg.log
stat -c '%A %U %n' /usr/bin/hull-greeting /var/lib/hull-greeting
apt-get -q purge --yes hull-greeting >>/tmp/log 2>&1
! test -e /usr/bin/hull-greeting
# Without a repository, over the terminal of dpkg.
dpkg --install /shared/repository/*.deb >>/tmp/log 2>&1
hull-greeting
grep -E '^(Setting up|Removing|configured)' /tmp/log

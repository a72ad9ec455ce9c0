# Attributes and content of all files of a system. The pod has its own /etc/hosts and the like, so /etc has been changed.
cd /
find bin sbin lib lib64 usr var etc home opt srv root media mnt boot \
    \( -path etc/hosts -o -path etc/hostname -o -path etc/resolv.conf -o -path etc \) -printf '' -o \
    -type d -printf '%p %y %m %U %G %n %T+\n' -o -printf '%p %y %m %U %G %n %s %l %T+\n' | sort
find usr var etc -type f ! -path etc/hosts ! -path etc/hostname ! -path etc/resolv.conf -print0 | sort -z | xargs -0 md5sum

// Requests of ioctl on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <termios.h>

static int number, on, off = 0;
static long size;
static char name[64] = "lo";
static struct termios terminal;
static struct { uint8_t length, bytes[16]; } id;
static struct winsize window;
static struct fsxattr attributes;
static struct { struct fiemap head; struct fiemap_extent extents[2]; } map;
static struct file_clone_range part;
static struct { struct file_dedupe_range head; struct file_dedupe_range_info to; } same;

int main(void) {
    objects_start();
    EACH(ioctl(fd, FIOCLEX));
    EACH(ioctl(fd, FIONCLEX));
    EACH((on = 1, ioctl(fd, FIONBIO, &on)) ?: fcntl(fd, F_GETFL));
    EACH(ioctl(fd, FIONBIO, BAD));
    EACH((on = 1, ioctl(fd, FIOASYNC, &on)));
    EACH(ioctl(fd, FIOASYNC, &off));
    EACH(ioctl(fd, FIOASYNC, BAD));
    EACH(ioctl(fd, FIONREAD, &number));
    EACH(ioctl(fd, FIONREAD, BAD));
    EACH_BUT(STORED | MEMORY, (number = 0, ioctl(fd, FIBMAP, &number)));
    EACH_BUT(STORED | MEMORY, ioctl(fd, FIBMAP, BAD));
    EACH_BUT(STORED, ioctl(fd, FIOQSIZE, &size));
    EACH(ioctl(fd, FIOQSIZE, BAD));
    EACH(ioctl(fd, FIGETBSZ, &number));
    EACH(ioctl(fd, FIGETBSZ, BAD));
    EACH_BUT(STORED, (memset(&map, 0, sizeof map), ioctl(fd, FS_IOC_FIEMAP, &map)));
    EACH_BUT(STORED, ioctl(fd, FS_IOC_FIEMAP, BAD));
    // Of file systems that can be frozen none is touched.
    EACH_BUT(STORED | DEVICE | NAMED | MEMORY, ioctl(fd, FIFREEZE, 0));
    EACH_BUT(STORED, ioctl(fd, FS_IOC_GETFLAGS, &number));
    EACH_BUT(STORED, ioctl(fd, FS_IOC_GETFLAGS, BAD));
    EACH_BUT(STORED, ioctl(fd, FS_IOC_FSGETXATTR, &attributes));
    EACH_BUT(STORED, ioctl(fd, FS_IOC_FSGETXATTR, BAD));
    EACH_BUT(STORED, ioctl(fd, FS_IOC_SETFLAGS, BAD));
    EACH_BUT(STORED | PROCESS, ioctl(fd, FS_IOC_GETVERSION, &number));
    EACH(ioctl(fd, 0x80111500 /* FS_IOC_GETFSUUID */, &id) == -1 && errno != ENOTTY ? -1 : 0);
    PART("clones");
    EACH(ioctl(fd, FICLONE, 999));
    // Whether the file system of pidfds has regular files depends on the version.
    EACH_BUT(PROCESS, ioctl(fd, FICLONE, fd));
    EACH(ioctl(fd, FICLONE, open("file", O_RDONLY)));
    EACH(ioctl(open("file", O_RDWR), FICLONE, fd));
    EACH(ioctl(open("dir", O_RDONLY), FICLONE, fd));
    EACH(ioctl(fd, FICLONE, open("/proc/self/status", O_RDONLY)));
    EACH(ioctl(fd, FICLONERANGE, BAD));
    EACH((part = (struct file_clone_range){999, 0, 0, 0}, ioctl(fd, FICLONERANGE, &part)));
    EACH_BUT(PROCESS, (part = (struct file_clone_range){fd, 0, 0, 0}, ioctl(fd, FICLONERANGE, &part)));
    EACH(ioctl(fd, FIDEDUPERANGE, BAD));
    EACH_BUT(PROCESS, (memset(&same, 0, sizeof same), ioctl(fd, FIDEDUPERANGE, &same)));
    PART("terminals");
    EACH(ioctl(fd, TCGETS, &terminal));
    EACH(ioctl(fd, TCGETS, BAD));
    EACH(ioctl(fd, TCSETS, BAD));
    EACH(ioctl(fd, TIOCGWINSZ, &window));
    EACH(ioctl(fd, TIOCSWINSZ, BAD));
    EACH_OK(ioctl(fd, TIOCGPGRP, &number));
    EACH(ioctl(fd, TIOCSPGRP, BAD));
    EACH(ioctl(fd, TIOCOUTQ, &number));
    EACH(ioctl(fd, TCFLSH, TCIFLUSH));
    EACH(ioctl(fd, TCFLSH, 77));
    EACH(ioctl(fd, TIOCNOTTY));
    EACH(tcgetpgrp(fd) > 0 ? 1 : -1);
    EACH(tcsetpgrp(fd, getpgrp()));
    // Not tcgetsid(3): after an EINVAL it asks for the session of the foreground group, which may be outside of the PID namespace.
    EACH_OK(ioctl(fd, TIOCGSID, &number));
    EACH(tcgetattr(fd, &terminal));
    EACH(isatty(fd) ? 1 : -1);
    PART("others");
    EACH(ioctl(fd, SIOCGSTAMP_OLD, BAD));
    EACH_OK(ioctl(fd, SIOCGIFINDEX, name));
    EACH(ioctl(fd, SIOCGIFINDEX, BAD));
    EACH(ioctl(fd, SIOCATMARK, &number));
    EACH_OK(ioctl(fd, SIOCGPGRP, &number));
    EACH(ioctl(fd, SIOCOUTQ, &number));
    EACH_BUT(DEVICE, ioctl(fd, BLKGETSIZE64, &size));
    EACH(ioctl(fd, 0xb701, 0) == -1 ? -1 : 0);
    EACH(ioctl(fd, 0xb703, 0));
    EACH(ioctl(fd, 0xff01, 0) == -1 ? -1 : 0);
    EACH(ioctl(fd, 0x80088a02 /* EPIOCGPARAMS */, &size));
    EACH(ioctl(fd, 0, 0));
    EACH(ioctl(fd, 0x12345678, BAD));
    EACH(ioctl(fd, -1, BAD));
    return 0;
}

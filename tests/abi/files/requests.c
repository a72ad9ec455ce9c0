// fcntl(2) and ioctl(2) requests about files that few programs make.
#include "check.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(void) {
    int fd = MUST(open("file", O_RDWR | O_CREAT, 0644));
    int source = MUST(open("file", O_RDONLY));
    int dir = MUST(open(".", O_RDONLY));
    int null = MUST(open("/dev/null", O_RDWR));
    int p[2];
    MUST(pipe(p));
    MUST(write(fd, "0123456789", 10));

    PART("write hints");
    uint64_t hint = 99;
    T(fcntl(fd, F_GET_RW_HINT, &hint));
    N(hint);
    hint = 3;
    T(fcntl(fd, F_SET_RW_HINT, &hint));
    hint = 0;
    T(fcntl(source, F_GET_RW_HINT, &hint));
    N(hint);
    hint = 6;
    T(fcntl(fd, F_SET_RW_HINT, &hint));
    T(fcntl(fd, F_GET_RW_HINT, BAD));

    PART("clones");
    T(ioctl(fd, FICLONE, source));
    T(ioctl(fd, FICLONE, -1));
    T(ioctl(source, FICLONE, fd));
    T(ioctl(dir, FICLONE, source));
    T(ioctl(fd, FICLONE, dir));

    PART("sizes");
    int value = 0;
    loff_t size = 0;
    T(ioctl(fd, FIGETBSZ, &value));
    N(value);
    T(ioctl(dir, FIGETBSZ, &value));
    T(ioctl(null, FIGETBSZ, &value));
    T(ioctl(fd, FIGETBSZ, BAD));
    T(ioctl(fd, FIOQSIZE, &size));
    N(size);
    T(ioctl(dir, FIOQSIZE, &size));
    T(ioctl(p[0], FIOQSIZE, &size));
    T(ioctl(null, FIOQSIZE, &size));
    T(lseek(fd, 3, SEEK_SET));
    T(ioctl(fd, FIONREAD, &value));
    N(value);
    T(ioctl(dir, FIONREAD, &value));
    T(ioctl(null, FIONREAD, &value));
    MUST(write(p[1], "abc", 3));
    T(ioctl(p[0], FIONREAD, &value));
    N(value);
    T(ioctl(p[1], FIONREAD, &value));

    PART("terminals");
    struct termios terminal;
    T(ioctl(fd, TCGETS, &terminal));
    T(ioctl(null, TCGETS, &terminal));
    T(ioctl(p[0], TCGETS, &terminal));
    T(isatty(fd));

    PART("flags of descriptors");
    T(ioctl(fd, FIOCLEX));
    T(fcntl(fd, F_GETFD));
    T(ioctl(fd, FIONCLEX));
    T(fcntl(fd, F_GETFD));
    value = 1;
    T(ioctl(p[0], FIONBIO, &value));
    YES(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    T(ioctl(fd, FIONBIO, BAD));
    T(ioctl(-1, FIOCLEX));
    T(ioctl(fd, 0x12345678, 0));

    PART("sizes of pipes");
    T(fcntl(p[1], F_SETPIPE_SZ, 1000));
    T(fcntl(p[1], F_SETPIPE_SZ, 65537));
    T(fcntl(p[1], F_GETPIPE_SZ));
    T(fcntl(fd, F_GETPIPE_SZ));
    T(fcntl(fd, F_SETPIPE_SZ, 4096));

    PART("seals");
    T(fcntl(fd, F_ADD_SEALS, 1));
    T(fcntl(source, F_ADD_SEALS, 1));
    T(fcntl(p[0], F_ADD_SEALS, 1));
    T(fcntl(p[1], F_ADD_SEALS, 1));
    T(fcntl(p[1], F_GET_SEALS));

    PART("handles");
    struct file_handle handle = {.handle_bytes = 0};
    int mount;
    T(name_to_handle_at(AT_FDCWD, "missing", &handle, &mount, 0));
    T(name_to_handle_at(AT_FDCWD, "", &handle, &mount, 0));
    T(name_to_handle_at(AT_FDCWD, BAD, &handle, &mount, 0));
    T(name_to_handle_at(-1, "file", &handle, &mount, 0));
    T(name_to_handle_at(AT_FDCWD, "file", &handle, &mount, 0x40));
    return 0;
}

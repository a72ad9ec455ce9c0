// Reads that do not wait, preadv2 with RWF_NOWAIT, of a file that was just read; and devices that can be watched.
#include "check.h"
#include <sys/epoll.h>
#include <sys/vfs.h>
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif
#define TMPFS 0x01021994

static ssize_t at(int fd, char *to, size_t size, off_t offset, int flags) {
    struct iovec io = {to, size};
    return preadv2(fd, &io, 1, offset, flags);
}

static void watched(const char *name, int flags) {
    int fd = MUST(open(name, flags)), ep = MUST(epoll_create1(0));
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLWRNORM, 0};
    int n = poll(&p, 1, 0);
    struct epoll_event e = {EPOLLIN | EPOLLOUT | EPOLLET, {0}};
    printf("%s: poll %d %#x, watch %s", name, n, p.revents, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) ? check_error(errno) : "ok");
    n = epoll_wait(ep, &e, 1, 0);
    printf(", %d %#x", n, n == 1 ? e.events : 0);
    n = epoll_wait(ep, &e, 1, 0);
    printf(", then %d\n", n);
    close(fd), close(ep);
}

int main(void) {
    PART("devices");
    static const char *const names[] = {"/dev/random", "/dev/urandom", "/dev/null", "/dev/zero", "/dev/full"};
    for (size_t i = 0; i < COUNT(names); i++) watched(names[i], O_RDWR);
    watched("/dev/random", O_RDONLY);
    PART("reads that do not wait");
    static char data[8192], got[8192];
    memset(data, 'd', sizeof data);
    int fd = MUST(open("cached", O_RDWR | O_CREAT, 0600));
    MUST(write(fd, data, 6000));
    MUST(pread(fd, got, sizeof got, 0));
    struct statfs fs;
    MUST(fstatfs(fd, &fs));
    // A tmpfs has no such reads.
    int knows = fs.f_type != TMPFS;
    int wanted[] = {100, 100, 5900, 0, 0}, offsets[] = {0, 5000, 100, 6000, 9000}, sizes[] = {100, 100, 8192, 100, 100};
    for (size_t i = 0; i < COUNT(wanted); i++) {
        ssize_t n = at(fd, got, (size_t)sizes[i], offsets[i], RWF_NOWAIT);
        int error = errno;
        printf("%zu: %s\n", i, knows ? (n == wanted[i] && (n <= 0 || got[n - 1] == 'd') ? "as expected" : n < 0 ? check_error(error) : "other bytes") : n == -1 && error == EOPNOTSUPP ? "as expected" : "other");
    }
    lseek(fd, 5990, SEEK_SET);
    ssize_t n = at(fd, got, 100, -1, RWF_NOWAIT);
    printf("own position: %s\n", (knows ? n == 10 && lseek(fd, 0, SEEK_CUR) == 6000 : n == -1 && lseek(fd, 0, SEEK_CUR) == 5990) ? "as expected" : "other");
    T(at(fd, got, 100, 0, 0x1000));
    T(at(fd, got, 0, 0, RWF_NOWAIT));
    close(fd);
    return 0;
}

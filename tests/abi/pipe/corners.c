// Pipes in the corners: owner and mode, sizes, packets, signals, locks, what a FIFO keeps.
#include "check.h"
#include <linux/sockios.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>

static char big[1 << 20];

static int events(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    poll(&p, 1, 0);
    return p.revents;
}
static int inside(int fd) {
    int value = -1;
    return ioctl(fd, FIONREAD, &value) ? -errno : value;
}
static void owner(const char *what, int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    printf("%s: uid %d gid %d mode %o links %d size %lld blocks of %ld\n", what, st.st_uid, st.st_gid, st.st_mode, (int)st.st_nlink, (long long)st.st_size, (long)st.st_blksize);
}

static volatile int signals;
static void count(int number) {
    (void)number;
    signals++;
}

static void owners(void) {
    PART("owner and mode");
    int p[2];
    MUST(pipe(p));
    owner("reading end", p[0]);
    T(fchmod(p[0], 0640));
    owner("reading end", p[0]);
    owner("writing end", p[1]);
    T(fchown(p[1], 5, 6));
    owner("reading end", p[0]);
    T(fchmod(p[1], 07777));
    owner("reading end", p[0]);
    T(fchown(p[0], -1, 8));
    owner("writing end", p[1]);
    struct timespec times[2] = {{100, 5}, {200, 6}};
    T(futimens(p[0], times));
    struct stat st;
    MUST(fstat(p[1], &st));
    N(st.st_atime), N(st.st_mtime), N(st.st_mtim.tv_nsec);
    T(ftruncate(p[1], 0));
    T(fsync(p[1]));
    T(fdatasync(p[1]));
    T(posix_fadvise(p[0], 0, 0, 0));
    T(fallocate(p[1], 0, 0, 10));
    T(lseek(p[0], 0, SEEK_SET));
    T(pread(p[0], big, 1, 0));
    T(pwrite(p[1], big, 1, 0));
    T(syncfs(p[1]));
    T(readahead(p[0], 0, 10));
    CHILD("another user", {
        MUST(setresuid(9, 9, 9));
        T(fchmod(p[0], 0600));
        T(fchown(p[0], 9, -1));
        int q[2];
        MUST(pipe(q));
        owner("own", q[0]);
        T(fchown(q[0], 9, -1));
        T(fchown(q[0], 10, -1));
        T(fchmod(q[0], 0444));
        T(fcntl(q[0], F_SETPIPE_SZ, 1 << 20));
        T(fcntl(q[0], F_SETPIPE_SZ, (1 << 20) + 1));
    });
    int e = MUST(eventfd(0, 0));
    T(fchmod(e, 0600));
    T(fchown(e, 0, 0));
    T(futimens(e, times));
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(fchmod(s, 0611));
    T(fchown(s, 3, 4));
    owner("socket", s);
    T(futimens(s, times));
    close(p[0]), close(p[1]), close(e), close(s);
}

static void sizes(void) {
    PART("sizes");
    int p[2];
    MUST(pipe2(p, O_NONBLOCK));
    T(fcntl(p[0], F_GETPIPE_SZ));
    static const long wanted[] = {0, 1, 4096, 4097, 8192, 10000, 65536, 1 << 20, (1 << 20) + 1, 1 << 21, 1 << 30, 1L << 31, -1};
    for (size_t i = 0; i < COUNT(wanted); i++) printf("%ld: %ld %s\n", wanted[i], (long)fcntl(p[1], F_SETPIPE_SZ, wanted[i]), (errno = 0, fcntl(p[1], F_SETPIPE_SZ, wanted[i])) < 0 ? check_error(errno) : "ok");
    T(fcntl(p[0], F_SETPIPE_SZ, 65536));
    T(write(p[1], big, 20000));
    T(fcntl(p[0], F_SETPIPE_SZ, 4096));
    T(fcntl(p[0], F_SETPIPE_SZ, 16384));
    T(fcntl(p[0], F_SETPIPE_SZ, 20480));
    T(read(p[0], big, 4096));
    T(fcntl(p[0], F_SETPIPE_SZ, 16384));
    T(fcntl(p[0], F_GETPIPE_SZ));
    T(write(p[1], big, 20000));
    N(inside(p[0]));
    T(read(p[0], big, 100000));
    T(fcntl(0, F_GETPIPE_SZ));
    T(fcntl(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), F_GETPIPE_SZ));
    PART("small writes");
    int n = 0;
    while (write(p[1], "x", 1) == 1) n++;
    N(n);
    T(write(p[1], big, 4096));
    T(read(p[0], big, 4095));
    N(events(p[1]));
    T(write(p[1], "x", 1));
    T(read(p[0], big, 1));
    N(events(p[1]));
    T(write(p[1], big, 5000));
    T(write(p[1], big, 4096));
    T(read(p[0], big, 100000));
    n = 0;
    while (write(p[1], big, 3000) == 3000) n++;
    N(n);
    N(inside(p[0]));
    T(write(p[1], big, 1000));
    T(write(p[1], big, 1097));
    close(p[0]), close(p[1]);
}

static void packets(void) {
    PART("packets");
    int p[2];
    MUST(pipe2(p, O_DIRECT | O_NONBLOCK));
    N(fcntl(p[0], F_GETFL) & O_DIRECT), N(fcntl(p[1], F_GETFL) & O_DIRECT);
    T(write(p[1], "one", 3));
    T(write(p[1], "two", 3));
    T(write(p[1], "", 0));
    N(inside(p[0]));
    T(read(p[0], big, 2));
    T(read(p[0], big, 10));
    T(read(p[0], big, 10));
    T(write(p[1], big, 5000));
    T(read(p[0], big, 10000));
    T(read(p[0], big, 10000));
    T(fcntl(p[1], F_SETFL, O_NONBLOCK));
    T(write(p[1], "ab", 2));
    T(write(p[1], "cd", 2));
    T(fcntl(p[1], F_SETFL, O_NONBLOCK | O_DIRECT));
    T(write(p[1], "ef", 2));
    T(read(p[0], big, 10));
    T(read(p[0], big, 10));
    int n = 0;
    while (write(p[1], "p", 1) == 1) n++;
    N(n);
    close(p[0]), close(p[1]);
}

static void told(void) {
    PART("O_ASYNC");
    int p[2];
    signal(SIGIO, count);
    MUST(pipe2(p, O_NONBLOCK));
    T(fcntl(p[0], F_SETOWN, getpid()));
    T(fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    signals = 0;
    MUST(write(p[1], "x", 1));
    N(signals);
    MUST(write(p[1], "x", 1));
    N(signals);
    MUST(read(p[0], big, 1));
    N(signals);
    close(p[1]);
    N(signals);
    close(p[0]);
}

static void locks(void) {
    PART("locks");
    int p[2], s[2], e = MUST(eventfd(0, 0));
    MUST(pipe(p));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    int fds[] = {p[0], p[1], s[0], e};
    static const char *const names[] = {"reading end", "writing end", "socket", "counter"};
    for (size_t i = 0; i < COUNT(fds); i++) {
        printf("%s\n", names[i]);
        T(flock(fds[i], LOCK_SH | LOCK_NB));
        T(flock(fds[i], LOCK_EX | LOCK_NB));
        CHILD("the same description", T(flock(fds[i], LOCK_EX | LOCK_NB)));
        T(flock(fds[i], LOCK_UN));
        struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        T(fcntl(fds[i], F_SETLK, &l));
        l.l_type = F_WRLCK;
        T(fcntl(fds[i], F_SETLK, &l));
        CHILD("another process", {
            struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            T(fcntl(fds[i], F_GETLK, &other));
            N(other.l_type);
            other.l_type = F_RDLCK;
            T(fcntl(fds[i], F_SETLK, &other));
        });
        l.l_type = F_UNLCK;
        T(fcntl(fds[i], F_SETLK, &l));
        T(fcntl(fds[i], F_SETLEASE, F_RDLCK));
        T(fcntl(fds[i], F_NOTIFY, DN_ACCESS));
    }
    T(flock(p[0], LOCK_EX | LOCK_NB));
    T(flock(p[1], LOCK_EX | LOCK_NB));
    close(p[0]);
    T(flock(p[1], LOCK_EX | LOCK_NB));
    close(p[1]), close(s[0]), close(s[1]), close(e);
}

static void fifos(void) {
    PART("FIFOs");
    T(mkfifo("f", 0666));
    T(mkfifo("f", 0666));
    struct stat st;
    MUST(stat("f", &st));
    printf("mode %o size %lld\n", st.st_mode, (long long)st.st_size);
    T(open("f", O_WRONLY | O_NONBLOCK));
    int r = OK(open("f", O_RDONLY | O_NONBLOCK));
    N(events(r));
    T(read(r, big, 1));
    int w = OK(open("f", O_WRONLY | O_NONBLOCK));
    T(write(w, "hello", 5));
    owner("open", r);
    T(fchmod(r, 0600));
    T(fchown(w, 7, 7));
    MUST(stat("f", &st));
    printf("mode %o uid %d\n", st.st_mode, st.st_uid);
    close(w);
    N(events(r));
    T(read(r, big, 10));
    T(read(r, big, 10));
    int both = OK(open("f", O_RDWR | O_NONBLOCK));
    N(events(both));
    N(events(r));
    T(read(both, big, 1));
    T(fcntl(both, F_SETPIPE_SZ, 8192));
    T(fcntl(r, F_GETPIPE_SZ));
    close(both);
    close(r);
    r = MUST(open("f", O_RDWR | O_NONBLOCK));
    T(fcntl(r, F_GETPIPE_SZ));
    T(lseek(r, 0, SEEK_CUR));
    T(truncate("f", 0));
    T(unlink("f"));
    owner("removed", r);
    close(r);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    owners();
    sizes();
    packets();
    told();
    locks();
    fifos();
    return 0;
}

// Owner, permissions and times of a standard stream, a pipe, and of a pipe and a socket of the program.
#include "../check.h"
#include <sys/socket.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

// Those of the standard output change with what is printed, and when that is read.
static bool with_times;

static void show(const char *what, int fd) {
    struct stat s;
    MUST(fstat(fd, &s));
    printf("%s: mode %o, own %d %d, given %d %d, times %lld %lld\n", what, s.st_mode & 07777, s.st_uid == geteuid(),
           s.st_gid == getegid(), s.st_uid == 1234, s.st_gid == 4321, with_times && s.st_atime == 1111 ? 1111LL : 0,
           with_times && s.st_mtime == 2222 ? 2222LL : 0);
}

static void changes(int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    T(fchmod(fd, 0640));
    show("fchmod", fd);
    T(chmod(path, 0666));
    show("chmod", fd);
    SYSCALL(SYS_fchmodat2, fd, "", 0604, AT_EMPTY_PATH);
    show("fchmodat2", fd);
    T(fchown(fd, geteuid(), getegid()));
    T(fchmod(fd, 06755));
    T(chown(path, -1, getegid()));
    show("chown to the same", fd);
    struct timespec times[2] = {{1111, 1}, {2222, 2}};
    T(futimens(fd, times));
    show("futimens", fd);
    T(futimens(fd, NULL));
    show("now", fd);
    T(utimensat(AT_FDCWD, path, times, 0));
    show("utimensat", fd);
    T(fchmod(fd, 0640));
    CHILD("another user", {
        if (geteuid() == 0) {
            T(fchown(fd, 1234, 4321));
            show("given away", fd);
            MUST(setgid(4321));
            MUST(setuid(1234));
            // What it was opened for and may do is its owner's business.
            T(fchmod(fd, 0606));
            T(chown(path, 1234, 4321));
            T(chown(path, 1234, 5));
            T(chown(path, 5, 4321));
            T(access(path, W_OK));
            T(fchmod(fd, 0440));
            T(access(path, W_OK));
            show("own", fd);
        }
    });
    if (geteuid() == 0) {
        T(fchown(fd, 0, 0));
        MUST(fchmod(fd, 0600));
        CHILD("no owner", {
            MUST(setgid(4321));
            MUST(setuid(1234));
            T(fchmod(fd, 0606));
            T(chmod(path, 0606));
            T(fchown(fd, 1234, -1));
            T(futimens(fd, times));
            T(futimens(fd, NULL));
            T(access(path, R_OK));
        });
    }
}

int main(void) {
    struct stat s;
    int fds[2];
    MUST(fstat(1, &s));
    // Never the host's device or terminal.
    if (S_ISFIFO(s.st_mode)) {
        PART("standard output");
        changes(1);
        char path[] = "/dev/stdout";
        T(chmod(path, 0622));
        show("by name", 1);
        int again = MUST(open(path, O_WRONLY));
        show("opened once more", again);
        T(fchmod(again, 0620));
        show("changed there", 1);
        MUST(fchmod(1, 0600));
    }
    with_times = true;
    PART("pipe");
    MUST(pipe(fds));
    changes(fds[1]);
    show("other end", fds[0]);
    // New ones have the times of one that is gone.
    with_times = false;
    PART("socket");
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    changes(fds[0]);
    return 0;
}

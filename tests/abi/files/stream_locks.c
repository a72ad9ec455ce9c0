// Locks of the standard streams.
#include "check.h"
#include <sys/file.h>

int main(void) {
    for (int fd = 0; fd < 3; fd++) {
        printf("-- stream %d\n", fd);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        T(fcntl(fd, F_GETLK, &lock));
        N(lock.l_type);
        lock.l_type = fd ? F_WRLCK : F_RDLCK;
        T(fcntl(fd, F_SETLK, &lock));
        lock.l_type = fd ? F_RDLCK : F_WRLCK;
        T(fcntl(fd, F_SETLK, &lock));
        CHILD("another process", struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
              T(fcntl(fd, F_GETLK, &other)); N(other.l_type); N(other.l_pid == getppid()));
        lock.l_type = F_UNLCK;
        T(fcntl(fd, F_SETLK, &lock));
        T(flock(fd, LOCK_EX | LOCK_NB));
        T(flock(fd, LOCK_SH | LOCK_NB));
        CHILD("a duplicate", T(flock(dup(fd), LOCK_EX | LOCK_NB)));
        T(flock(fd, LOCK_UN));
    }
    T(fcntl(0, F_GETLK, NULL));
    return 0;
}

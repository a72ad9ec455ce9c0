// flock, and record locks of processes and of open files.
#include "check.h"
#include <sys/file.h>

static struct flock range(short type, off_t start, off_t length) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

static void probe(int fd, short type, off_t start, off_t length) {
    struct flock lock = range(type, start, length);
    if (fcntl(fd, F_GETLK, &lock)) {
        printf("F_GETLK: %s\n", check_error(errno));
        return;
    }
    if (lock.l_type == F_UNLCK) puts("free");
    else printf("type %d from %ld length %ld by %s\n", lock.l_type, (long)lock.l_start, (long)lock.l_len,
                lock.l_pid == getppid() ? "the parent" : lock.l_pid == -1 ? "an open file" : "another");
}

int main(void) {
    put_file("f", "0123456789");
    int fd = MUST(open("f", O_RDWR)), other = MUST(open("f", O_RDWR)), copy = MUST(dup(fd));
    PART("flock");
    T(flock(fd, LOCK_SH));
    T(flock(other, LOCK_SH));
    T(flock(fd, LOCK_EX | LOCK_NB));
    T(flock(other, LOCK_UN));
    T(flock(fd, LOCK_EX | LOCK_NB));
    T(flock(copy, LOCK_EX | LOCK_NB));
    T(flock(other, LOCK_SH | LOCK_NB));
    T(flock(copy, LOCK_UN));
    T(flock(other, LOCK_SH | LOCK_NB));
    T(flock(other, LOCK_UN));
    T(flock(fd, 0));
    T(flock(fd, LOCK_SH | LOCK_EX));
    T(flock(99, LOCK_SH));
    flock(fd, LOCK_EX);
    CHILD("child", {
        T(flock(fd, LOCK_EX | LOCK_NB));
        T(flock(other, LOCK_EX | LOCK_NB));
        int again = open("f", O_RDWR);
        T(flock(again, LOCK_EX | LOCK_NB));
    });
    close(fd);
    T(flock(other, LOCK_EX | LOCK_NB));
    close(copy);
    T(flock(other, LOCK_EX | LOCK_NB));
    close(other);
    PART("a blocked flock goes on");
    fd = MUST(open("f", O_RDWR));
    T(flock(fd, LOCK_EX));
    pid_t child = MUST(fork());
    if (child == 0) {
        int mine = open("f", O_RDWR);
        if (flock(mine, LOCK_EX)) _exit(1);
        puts("locked by the child");
        _exit(0);
    }
    sleep_ms(50);
    puts("unlocking");
    flock(fd, LOCK_UN);
    reap("child", child);
    PART("records");
    struct flock lock = range(F_WRLCK, 2, 3);
    T(fcntl(fd, F_SETLK, &lock));
    lock = range(F_RDLCK, 10, 0);
    T(fcntl(fd, F_SETLK, &lock));
    CHILD("child", {
        probe(fd, F_WRLCK, 0, 0);
        probe(fd, F_WRLCK, 0, 2);
        probe(fd, F_RDLCK, 4, 1);
        probe(fd, F_RDLCK, 12, 1);
        probe(fd, F_WRLCK, 12, 1);
        lock = range(F_WRLCK, 0, 3);
        T(fcntl(fd, F_SETLK, &lock));
        lock = range(F_WRLCK, 0, 2);
        T(fcntl(fd, F_SETLK, &lock));
    });
    probe(fd, F_WRLCK, 0, 0);
    lock = range(F_UNLCK, 3, 1);
    T(fcntl(fd, F_SETLK, &lock));
    CHILD("child", {
        probe(fd, F_WRLCK, 0, 0);
        probe(fd, F_WRLCK, 3, 1);
        probe(fd, F_WRLCK, 3, 0);
    });
    close(MUST(open("f", O_RDONLY)));
    CHILD("after closing another descriptor", probe(fd, F_WRLCK, 0, 0));
    lock = range(5, 0, 0);
    T(fcntl(fd, F_SETLK, &lock));
    lock = range(F_WRLCK, -5, 1);
    T(fcntl(fd, F_SETLK, &lock));
    T(fcntl(fd, F_SETLK, BAD));
    lock = range(F_RDLCK, 0, 1);
    int out = MUST(open("f", O_WRONLY));
    T(fcntl(out, F_SETLK, &lock));
    PART("open file descriptions");
    lock = range(F_WRLCK, 0, 5);
    T(fcntl(fd, F_OFD_SETLK, &lock));
    int second = MUST(open("f", O_RDWR));
    lock = range(F_WRLCK, 4, 2);
    T(fcntl(second, F_OFD_SETLK, &lock));
    lock = range(F_WRLCK, 5, 2);
    T(fcntl(second, F_OFD_SETLK, &lock));
    CHILD("child", probe(second, F_WRLCK, 0, 0));
    lock.l_pid = 1;
    T(fcntl(fd, F_OFD_SETLK, &lock));
    PART("deadlock");
    int pipes[2];
    MUST(pipe(pipes));
    lock = range(F_WRLCK, 100, 1);
    T(fcntl(fd, F_SETLK, &lock));
    child = MUST(fork());
    if (child == 0) {
        lock = range(F_WRLCK, 200, 1);
        T(fcntl(fd, F_SETLK, &lock));
        write(pipes[1], "x", 1);
        lock = range(F_WRLCK, 100, 1);
        fcntl(fd, F_SETLKW, &lock);
        _exit(0);
    }
    read(pipes[0], &(char){0}, 1);
    sleep_ms(100);
    lock = range(F_WRLCK, 200, 1);
    T(fcntl(fd, F_SETLKW, &lock));
    lock = range(F_UNLCK, 0, 0);
    T(fcntl(fd, F_SETLK, &lock));
    reap("child", child);
    return 0;
}

// Locks between processes that share only a file: `lockers WHAT FILE [KIND MODE]`. Says what it has done line by line, and goes
// on when its standard input ends.
#include "check.h"
#include <sys/file.h>

enum kind { POSIX, OFD, FLOCK };
static const char *const kinds[] = {"posix", "ofd", "flock"};

static struct flock range(short type, long start, long length) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

// Bytes 10 to 19, or the whole file by flock. A type of F_UNLCK unlocks.
static int locked(int fd, enum kind kind, short type, int waits) {
    if (kind == FLOCK) {
        int operation = type == F_RDLCK ? LOCK_SH : type == F_WRLCK ? LOCK_EX : LOCK_UN;
        return flock(fd, operation | (waits ? 0 : LOCK_NB));
    }
    struct flock lock = range(type, 10, 10);
    int command = kind == POSIX ? (waits ? F_SETLKW : F_SETLK) : waits ? F_OFD_SETLKW : F_OFD_SETLK;
    return fcntl(fd, command, &lock);
}

static void say(const char *what) {
    puts(what);
    fflush(stdout);
}

static void until_told(void) {
    char byte;
    while (read(0, &byte, 1) > 0) {}
}

// Each kind and mode, without waiting; and who is in the way.
static void tried(const char *file) {
    int fd = MUST(open(file, O_RDWR));
    for (int kind = POSIX; kind <= FLOCK; kind++) {
        for (int write = 0; write < 2; write++) {
            int result = locked(fd, kind, write ? F_WRLCK : F_RDLCK, 0);
            printf("%s %s: %s\n", kinds[kind], write ? "write" : "read", result ? check_error(errno) : "locked");
            locked(fd, kind, F_UNLCK, 0);
        }
    }
    for (int kind = POSIX; kind <= OFD; kind++) {
        for (int write = 0; write < 2; write++) {
            struct flock lock = range(write ? F_WRLCK : F_RDLCK, 0, 15);
            MUST(fcntl(fd, kind == POSIX ? F_GETLK : F_OFD_GETLK, &lock));
            printf("%s %s: ", kinds[kind], write ? "write" : "read");
            if (lock.l_type == F_UNLCK) {
                puts("free");
                continue;
            }
            printf("a lock of type %d from %ld, %ld bytes\n", lock.l_type, (long)lock.l_start, (long)lock.l_len);
            printf("holder: %s\n", lock.l_pid == -1 ? "a description" : "a process");
        }
    }
    // What lies beside it is free.
    struct flock before = range(F_WRLCK, 0, 10), after = range(F_WRLCK, 20, 0);
    printf("before: %s\n", fcntl(fd, F_SETLK, &before) ? check_error(errno) : "locked");
    printf("after: %s\n", fcntl(fd, F_SETLK, &after) ? check_error(errno) : "locked");
    int reader = MUST(open(file, O_RDONLY));
    printf("by a reader: %s\n", fcntl(reader, F_SETLK, &after) ? check_error(errno) : "locked");
}

// What a process of another one's lease is told.
static void opened(const char *file, int flags) {
    printf("at once: %s\n", open(file, flags | O_NONBLOCK) < 0 ? check_error(errno) : "opened");
    printf("later: %s\n", open(file, flags) < 0 ? check_error(errno) : "opened");
}

// Reads a file whether or not open(2) waits for the lease.
static void read_all(const char *file) {
    char text[32] = "";
    int fd = MUST(open(file, O_RDONLY));
    MUST(read(fd, text, sizeof text - 1));
    puts(text);
}

static int counted(const char *file, enum kind kind, int turns) {
    int fd = MUST(open(file, O_RDWR));
    for (int i = 0; i < turns; i++) {
        char text[32] = "";
        MUST(locked(fd, kind, F_WRLCK, 1));
        MUST(pread(fd, text, sizeof text - 1, 0));
        usleep(100);
        int length = sprintf(text, "%020ld", atol(text) + 1);
        if (pwrite(fd, text, (size_t)length, 0) != length) return 1;
        MUST(locked(fd, kind, F_UNLCK, 1));
        usleep(500);
    }
    return 0;
}

static int seconds_since(struct timespec start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_sec - start.tv_sec);
}

static void on_alarm(int signal) { (void)signal; }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *what = argv[1], *file = argv[2];
    enum kind kind = argc < 4 ? POSIX : !strcmp(argv[3], "posix") ? POSIX : !strcmp(argv[3], "ofd") ? OFD : FLOCK;
    short type = argc > 4 && !strcmp(argv[4], "read") ? F_RDLCK : F_WRLCK;
    // Not to be opened before.
    if (!strcmp(what, "open")) return opened(file, O_RDWR), 0;
    if (!strcmp(what, "cut")) return opened(file, O_WRONLY | O_TRUNC), 0;
    if (!strcmp(what, "read")) return read_all(file), 0;
    int fd = MUST(open(file, O_RDWR));
    if (!strcmp(what, "try")) {
        tried(file);
    } else if (!strcmp(what, "hold")) {
        MUST(locked(fd, kind, type, 1));
        say("held");
        until_told();
    } else if (!strcmp(what, "unlock")) {
        MUST(locked(fd, kind, type, 1));
        MUST(locked(fd, kind, F_UNLCK, 1));
        say("unlocked");
        until_told();
    } else if (!strcmp(what, "close")) {
        int other = MUST(open(file, O_RDWR));
        MUST(locked(other, kind, type, 1));
        MUST(close(other));
        say("closed");
        until_told();
    } else if (!strcmp(what, "kill")) {
        int pipes[2];
        MUST(pipe(pipes));
        pid_t child = MUST(fork());
        if (child == 0) {
            int own = MUST(open(file, O_RDWR));
            MUST(locked(own, kind, type, 1));
            write(pipes[1], "x", 1);
            for (;;) pause();
        }
        read(pipes[0], &(char){0}, 1);
        MUST(close(fd));
        MUST(kill(child, SIGKILL));
        MUST(waitpid(child, NULL, 0));
        say("killed");
        until_told();
    } else if (!strcmp(what, "interrupt")) {
        // A signal ends the wait, as often as it comes.
        struct sigaction action = {.sa_handler = on_alarm};
        sigaction(SIGALRM, &action, NULL);
        for (int i = 0; i < 3; i++) {
            struct itimerval soon = {.it_value = {.tv_usec = 50000}};
            setitimer(ITIMER_REAL, &soon, NULL);
            int result = locked(fd, kind, type, 1);
            say(result ? check_error(errno) : "locked");
        }
    } else if (!strcmp(what, "wait")) {
        say("waiting");
        MUST(locked(fd, kind, type, 1));
        say("locked");
    } else if (!strcmp(what, "beside")) {
        // While one process waits for bytes that are held outside, another one uses others.
        pid_t child = MUST(fork());
        if (child == 0) {
            MUST(locked(fd, POSIX, F_WRLCK, 1));
            say("locked");
            _exit(0);
        }
        sleep_ms(100);
        struct timespec start;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < 300; i++) {
            struct flock lock = range(F_WRLCK, 100, 1);
            MUST(fcntl(fd, F_SETLK, &lock));
            lock.l_type = F_UNLCK;
            MUST(fcntl(fd, F_SETLK, &lock));
        }
        say(seconds_since(start) < 10 ? "beside" : "slow");
        until_told();
        MUST(waitpid(child, NULL, 0));
    } else if (!strcmp(what, "aggregate")) {
        // Two readers in one pod: what they hold together goes piece by piece.
        pid_t child = MUST(fork());
        struct flock mine = range(F_RDLCK, 0, 20), its = range(F_RDLCK, 10, 20);
        if (child == 0) {
            MUST(fcntl(fd, F_SETLK, &its));
            for (;;) pause();
        }
        MUST(fcntl(fd, F_SETLK, &mine));
        struct flock probe;
        do {
            sleep_ms(1);
            probe = range(F_WRLCK, 25, 1);
            MUST(fcntl(fd, F_GETLK, &probe));
        } while (probe.l_type == F_UNLCK);
        mine = range(F_UNLCK, 0, 0);
        MUST(fcntl(fd, F_SETLK, &mine));
        say("released");
        until_told();
        MUST(kill(child, SIGKILL));
        MUST(waitpid(child, NULL, 0));
    } else if (!strcmp(what, "count") && argc > 5) {
        // Processes that add to a number in the file, under a lock.
        say("ready");
        until_told();
        for (int i = 0; i < 2; i++) {
            if (MUST(fork()) == 0) return counted(file, kind, atoi(argv[5]));
        }
        for (int i = 0; i < 2; i++) {
            int status;
            MUST(wait(&status));
            if (status) return 1;
        }
    } else if (!strcmp(what, "lease")) {
        // A lease that is given back a while after another process asks for the file.
        sigset_t set;
        int number;
        sigemptyset(&set);
        sigaddset(&set, SIGIO);
        MUST(sigprocmask(SIG_BLOCK, &set, NULL));
        MUST(fcntl(fd, F_SETLEASE, F_WRLCK));
        say("leased");
        MUST(sigwait(&set, &number));
        say("asked");
        sleep_ms(300);
        MUST(fcntl(fd, F_SETLEASE, F_UNLCK));
        say("given back");
        until_told();
    } else {
        return 2;
    }
    return 0;
}

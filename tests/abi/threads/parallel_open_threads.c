// Threads that open, close, duplicate and replace descriptors of one table at the same time: no number is given twice, the
// lowest free one is given, positions are apart, nothing stays open. Each line shows how often something was wrong.
#include "../check.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { RUN_MS = 120, MOST = 8, HELD = 3, NUMBERS = 256, SPINNER_MS = 40000 };

static const char *const names[MOST] = {"a", "b", "c", "d", "e", "f", "g", "h"};
static int lowest, threads;
static atomic_long stop_at;
static atomic_int owner[NUMBERS];

static bool runs(void) { return now_ms() < atomic_load(&stop_at); }

static int open_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    int count = -1; // Its own one.
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

// Runs `work` in some threads, the first with index 0, and shows the sum of their errors.
static void run(const char *what, int count, void *(*work)(void *)) {
    pthread_t thread[MOST];
    long wrong = 0;
    int before = open_descriptors();
    memset(owner, 0, sizeof owner);
    threads = count;
    atomic_store(&stop_at, now_ms() + RUN_MS);
    for (long i = 0; i < count; i++)
        pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < count; i++) {
        void *errors;
        pthread_join(thread[i], &errors);
        wrong += (long)errors;
    }
    // With one thread again the lowest number is free.
    int fd = open("a", O_RDONLY);
    printf("%s, %d threads: wrong %ld, then %d, open %d\n", what, count, wrong, fd - lowest, open_descriptors() - before - 1);
    close(fd);
}

// Whether a number that was just given to a thread is nobody else's, and one of the lowest.
static int takes(int fd, long me) {
    int most = lowest + threads * (HELD + 1);
    return fd < 0 || fd >= most || atomic_exchange(&owner[fd], (int)me + 1) != 0;
}

static int gives(int fd, long me) {
    return atomic_exchange(&owner[fd], 0) != me + 1 || close(fd) != 0;
}

// Whether a new descriptor is at the start of the file with this name.
static int starts(int fd, const char *name) {
    char byte = 0;
    return lseek(fd, 0, SEEK_CUR) != 0 || read(fd, &byte, 1) != 1 || byte != name[0] || lseek(fd, 0, SEEK_CUR) != 1;
}

static void *owners(void *argument) {
    long me = (long)argument, wrong = 0;
    for (unsigned round = 0; runs(); round++) {
        int held[HELD], count = 1 + round % HELD;
        for (int i = 0; i < count; i++) {
            const char *name = names[(me + round / 64) % MOST];
            held[i] = open(name, round & 8 ? O_RDONLY | O_CLOEXEC : O_RDONLY);
            wrong += takes(held[i], me) || starts(held[i], name);
            wrong += round % 16 == 0 && fcntl(held[i], F_GETFD) != (round & 8 ? FD_CLOEXEC : 0);
        }
        if (round % 32 == 5) {
            int copy = dup(held[0]);
            wrong += takes(copy, me) || lseek(copy, 0, SEEK_CUR) != 1 || gives(copy, me);
        }
        if (round % 32 == 11 && count > 1) {
            wrong += dup2(held[0], held[1]) != held[1] || lseek(held[1], 0, SEEK_CUR) != 1;
        }
        for (int i = 0; i < count; i++)
            wrong += gives(held[round & 1 ? i : count - 1 - i], me);
    }
    return (void *)wrong;
}

// The first thread forks: its children have whole tables.
static void *forkers(void *argument) {
    if ((long)argument != 0)
        return owners(argument);
    long wrong = 0;
    while (runs()) {
        pid_t child = fork();
        if (child == 0) {
            int first = open("a", O_RDONLY), second = open("a", O_RDONLY), errors = first < 0 || second <= first;
            for (int fd = lowest; fd < first; fd++)
                errors += fcntl(fd, F_GETFD) < 0; // All below are in use.
            errors += starts(first, "a") || close(first) || open("b", O_RDONLY) != first;
            _exit(errors > 100 ? 100 : errors);
        }
        int status = 0;
        wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    return (void *)wrong;
}

// The first thread replaces numbers that others are about to get, or closes them.
static void *thieves(void *argument) {
    long me = (long)argument, wrong = 0;
    for (unsigned round = 0; runs(); round++) {
        int fd = lowest + round % 4;
        if (me == 0) {
            int got = round % 3 ? dup2(0, fd) : dup3(0, fd, O_CLOEXEC);
            wrong += got != fd && errno != EBUSY;
            wrong += close(fd) != 0 && errno != EBADF;
        } else if (me == 1 && round % 16 == 0) {
            wrong += close_range(lowest, lowest + 20, 0) != 0;
        } else {
            fd = open(names[me], O_RDONLY);
            wrong += fd < lowest || fd > lowest + 20;
            wrong += close(fd) != 0 && errno != EBADF;
        }
    }
    if (me == 0)
        usleep(RUN_MS * 100);
    return (void *)wrong;
}

// One thread opens a file again and again; the others read by the number that the file had before.
static void *stale(void *argument) {
    long me = (long)argument, wrong = 0;
    while (runs()) {
        char byte;
        if (me != 0) {
            for (int i = 0; i < 50; i++)
                if (read(lowest, &byte, 1) < 0 && errno != EBADF) wrong++;
            continue;
        }
        int first = open("a", O_RDONLY);
        wrong += first != lowest || close(first);
        int null = open("/dev/null", O_RDONLY), second = open("a", O_RDONLY);
        wrong += null != lowest || second != lowest + 1;
        for (int i = 0; i < 4; i++)
            wrong += lseek(second, 0, SEEK_CUR) != 0;
        wrong += close(second) || close(null);
    }
    return (void *)wrong;
}

// A descriptor that is being closed is open, and then it is not: also if the file has no name any more.
static atomic_int closing;

static void *fading(void *argument) {
    long me = (long)argument, wrong = 0;
    for (unsigned round = 0; runs(); round++) {
        if (me == 0) {
            int fd = open("fading", O_RDONLY);
            if (fd < 0) {
                wrong += errno != ENOENT;
                continue;
            }
            wrong += fd != lowest;
            for (int i = 0; i < 20; i++) {
                wrong += close(fd) != 0;
                fd = open("fading", O_RDONLY);
                if (fd < 0) break;
            }
            if (fd < 0) continue;
            atomic_fetch_add(&closing, 1);
            wrong += close(fd) != 0;
            atomic_fetch_add(&closing, 1);
        } else if (me == 1) {
            int before = atomic_load(&closing);
            if (before % 2) {
                int first = fcntl(lowest, F_GETFD), second = fcntl(lowest, F_GETFD);
                wrong += first < 0 && second >= 0 && atomic_load(&closing) == before;
            }
        } else {
            // Without descriptors: another name of the file takes its place, and goes.
            wrong += link("kept", "fading") != 0 && errno != EEXIST;
            usleep(50);
            wrong += unlink("fading") != 0;
        }
    }
    return (void *)wrong;
}

// Threads that leave the table: what they open is theirs.
static void *leavers(void *argument) {
    if ((long)argument != 0)
        return owners(argument);
    if (unshare(CLONE_FILES))
        return (void *)1;
    long wrong = close_range(lowest, NUMBERS, 0) != 0;
    while (runs()) {
        int first = open("a", O_RDONLY), second = open("a", O_RDONLY);
        wrong += first != lowest || second != lowest + 1 || starts(second, "a") || close(first) || close(second);
    }
    open("a", O_RDONLY);
    return (void *)wrong;
}

static void *limited(void *argument) {
    long me = (long)argument, wrong = 0;
    if (me == 0) {
        usleep(RUN_MS * 300);
        struct rlimit limit = {lowest + 2, 1024};
        wrong += setrlimit(RLIMIT_NOFILE, &limit);
        while (runs()) {
            int fd = open("a", O_RDONLY);
            wrong += fd < 0 ? errno != EMFILE : fd >= lowest + 2 || close(fd) != 0;
        }
    }
    while (runs()) {
        int fd = open(names[me], O_RDONLY);
        wrong += fd < 0 ? errno != EMFILE : close(fd) != 0;
    }
    return (void *)wrong;
}

static atomic_int stage;

static void *sleeper(void *argument) {
    while (!atomic_load(&stage))
        usleep(200);
    return argument;
}

// Any close of the file ends the record locks of the process.
static void locks(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    for (int i = 0; i < 40; i++)
        close(open("a", O_RDONLY));
    int fd = open("a", O_RDWR), reader = open("a", O_RDONLY);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    MUST(fcntl(fd, F_SETLK, &lock));
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t child = MUST(fork());
        if (child == 0) {
            struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            MUST(fcntl(fd, F_GETLK, &asked));
            _exit(asked.l_type == F_UNLCK);
        }
        MUST(waitpid(child, &status, 0));
        printf("lock %s\n", WEXITSTATUS(status) ? "gone" : "held");
        if (i == 0)
            close(reader);
    }
    close(fd);
    atomic_store(&stage, 1);
    pthread_join(thread, NULL);
}

int main(void) {
    lowest = MUST(dup(0));
    close(lowest);
    // What was inherited would be in the way.
    MUST(close_range(lowest, ~0U, 0));
    pid_t spinner = MUST(fork());
    if (spinner == 0) {
        for (long end = now_ms() + SPINNER_MS; now_ms() < end && getppid() != 1;) {}
        _exit(0);
    }
    for (int i = 0; i < MOST; i++) {
        put_file(names[i], names[i]);
        for (int k = 0; k < 10; k++)
            close(open(names[i], O_RDONLY));
    }
    for (int count = 1; count <= MOST; count *= 2)
        run("owners", count, owners);
    run("forks", 2, forkers);
    run("forks", 4, forkers);
    run("replaced", 3, thieves);
    run("replaced", 8, thieves);
    run("stale", 2, stale);
    run("stale", 4, stale);
    put_file("kept", "kept");
    run("fading", 3, fading);
    unlink("fading");
    run("unshared", 2, leavers);
    run("unshared", 4, leavers);
    pid_t child = MUST(fork());
    if (child == 0) {
        run("limited", 4, limited);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    locks();
    kill(spinner, SIGKILL);
    MUST(waitpid(spinner, NULL, 0));
    return 0;
}

// Copies of a table of descriptors are states that the table had: another thread always has one of two files open.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FILES 30
#define COPIES 300

static atomic_int turning, resting = 1, ended;
static ino_t wanted[2];

// Opens one before it closes the other, while it shall.
static void *turn(void *unused) {
    static const char *const names[] = {"turn0", "turn1"};
    while (!ended) {
        if (!turning) {
            resting = 1;
            continue;
        }
        int last = MUST(open(names[0], O_RDONLY));
        resting = 0;
        for (int i = 1; turning; i++) {
            int next = MUST(open(names[i & 1], O_RDONLY));
            close(last);
            last = next;
        }
        close(last);
    }
    return unused;
}

static int has_one(void) {
    struct stat found;
    for (int fd = 3; fd < 64; fd++)
        if (fstat(fd, &found) == 0 && (found.st_ino == wanted[0] || found.st_ino == wanted[1])) return 1;
    return 0;
}

static void *look_alone(void *unused) {
    MUST(unshare(CLONE_FILES));
    return has_one() ? unused : 0;
}

static void copies(const char *what, int (*copy)(void)) {
    int files[FILES], missing = 0;
    char name[16];
    for (int round = 0; round < COPIES; round++) {
        for (int i = 0; i < FILES; i++) {
            snprintf(name, sizeof name, "file%d", i);
            files[i] = MUST(open(name, O_RDONLY));
        }
        turning = 1;
        while (resting) sched_yield();
        missing += !copy();
        turning = 0;
        while (!resting) sched_yield();
        for (int i = 0; i < FILES; i++) close(files[i]);
    }
    printf("%s: %d of %d copies lack the file\n", what, missing, COPIES);
}

static int by_vfork(void) {
    int status;
    pid_t child = vfork();
    if (child == 0) _exit(has_one() ? 0 : 1);
    MUST(waitpid(child, &status, 0));
    return status == 0;
}

static int by_unshare(void) {
    pthread_t thread;
    void *found = 0;
    if (pthread_create(&thread, 0, look_alone, &turning)) return 0;
    pthread_join(thread, &found);
    return found != 0;
}

int main(void) {
    char name[16];
    struct stat made;
    for (int i = 0; i < FILES + 2; i++) {
        snprintf(name, sizeof name, i < FILES ? "file%d" : "turn%d", i < FILES ? i : i - FILES);
        close(MUST(open(name, O_CREAT | O_WRONLY, 0600)));
        MUST(stat(name, &made));
        if (i >= FILES) wanted[i - FILES] = made.st_ino;
    }
    pthread_t thread;
    pthread_create(&thread, 0, turn, 0);
    copies("vfork", by_vfork);
    copies("unshare", by_unshare);
    ended = 1;
    pthread_join(thread, 0);
    return 0;
}

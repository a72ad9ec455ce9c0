// Processes that fork, execute and end at the same time, while others change the same files, signal the group, or read their
// memory.
#include "check.h"
#include <stdatomic.h>
#include <sys/prctl.h>

#define PAGE 4096
#define WORKERS 4

struct shared {
    atomic_int ready, done, wrong, stop, number;
};
static struct shared *shared;

static void nap(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static int ends(pid_t child) {
    int status = 0;
    MUST(waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Each fork is a copy: stores of the parent and of the child are not visible to the other one.
static int copies(int worker) {
    enum { PAGES = 300 };
    unsigned *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (int round = 0; round < 60; round++) {
        unsigned mark = worker << 16 | round << 1;
        for (int i = 0; i < PAGES; i++) memory[i * PAGE / 4 + 7] = mark;
        pid_t child = fork();
        if (child < 0) return 2;
        if (child == 0) {
            for (int i = 0; i < PAGES; i += 3) memory[i * PAGE / 4 + 7]++;
            for (int i = 0; i < PAGES; i++)
                if (memory[i * PAGE / 4 + 7] != mark + (i % 3 == 0)) _exit(1);
            _exit(0);
        }
        for (int i = 1; i < PAGES; i += 3) memory[i * PAGE / 4 + 7] = 5;
        if (ends(child)) return 3;
        for (int i = 0; i < PAGES; i++)
            if (memory[i * PAGE / 4 + 7] != (i % 3 == 1 ? 5 : mark)) return 4;
    }
    return 0;
}

static int execs(int worker) {
    char number[16];
    for (int round = 0; round < 40; round++) {
        int code = (worker * 41 + round) % 100;
        snprintf(number, sizeof number, "%d", code);
        pid_t child = round % 2 ? fork() : vfork();
        if (child < 0) return 1;
        if (child == 0) {
            execl("/proc/self/exe", "again", number, NULL);
            _exit(111);
        }
        if (ends(child) != code) return 2;
    }
    return 0;
}

static int all(int (*run)(int)) {
    pid_t workers[WORKERS];
    int wrong = 0;
    for (int i = 0; i < WORKERS; i++)
        if (!(workers[i] = MUST(fork()))) _exit(run(i));
    for (int i = 0; i < WORKERS; i++) wrong += ends(workers[i]) != 0;
    return wrong;
}

static void is_gone(int signal) { _exit(signal == SIGBUS ? 0 : 1); }

// A file is truncated while a process that maps it forks: neither has the pages afterwards.
static int truncations(void) {
    enum { PAGES = 200 };
    int wrong = 0;
    for (int round = 0; round < 60; round++) {
        int file = MUST(open("shrinks", O_RDWR | O_CREAT | O_TRUNC, 0600));
        MUST(ftruncate(file, PAGES * PAGE));
        volatile char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, round % 2 ? MAP_SHARED : MAP_PRIVATE, file, 0);
        if (memory == MAP_FAILED) return -1;
        int sum = 0;
        for (int i = 0; i < PAGES; i++) sum += memory[i * PAGE];
        if (sum) wrong++;
        shared->ready = shared->done = 0;
        pid_t cutter = MUST(fork());
        if (cutter == 0) {
            shared->ready = 1;
            for (volatile int i = 0; i < round * 2000; i++) {}
            shared->done = ftruncate(file, 0) ? -1 : 1;
            _exit(0);
        }
        while (!shared->ready) sched_yield();
        pid_t children[4];
        for (int k = 0; k < 4; k++) {
            children[k] = MUST(fork());
            if (children[k] == 0) {
                signal(SIGBUS, is_gone);
                while (!shared->done) sched_yield();
                (void)memory[(round * 7 + k) % PAGES * PAGE];
                _exit(2);
            }
        }
        for (int k = 0; k < 4; k++) wrong += ends(children[k]) != 0;
        wrong += ends(cutter) != 0 || shared->done != 1;
        munmap((void *)memory, PAGES * PAGE);
        close(file);
    }
    return wrong;
}

// A signal to a process group reaches all of its processes, also one that is being made.
static int group_ends(int number, int round) {
    pid_t leader = MUST(fork());
    if (leader == 0) {
        setpgid(0, 0);
        shared->ready = 1;
        for (;;) {
            pid_t child = fork();
            if (child == 0)
                for (;;) pause();
            if (child < 0) nap(1000);
            if (++shared->number > 200) pause();
        }
    }
    setpgid(leader, leader);
    while (!shared->ready) sched_yield();
    nap(100 + round * 67);
    MUST(kill(-leader, number));
    ends(leader);
    for (int i = 0; i < 2000; i++) {
        pid_t ended;
        while ((ended = waitpid(-leader, NULL, WNOHANG)) > 0) {}
        if (ended == -1 && errno == ECHILD) return 0;
        nap(1000);
    }
    kill(-leader, SIGKILL);
    while (waitpid(-leader, NULL, 0) > 0) {}
    return 1;
}

static int groups(int number) {
    int left = 0;
    for (int round = 0; round < 25; round++) {
        shared->ready = shared->number = 0;
        left += group_ends(number, round);
    }
    return left;
}

// Timers interrupt forks, which succeed nevertheless.
static atomic_int ticks;
static void tick(int signal) { ticks += signal == SIGALRM; }
static int forks_beside_timers(void) {
    enum { BYTES = 8 << 20 };
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &timer, NULL);
    int wrong = 0;
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) _exit(memory[i * PAGE] == 1 ? 0 : 1);
        int status = 1;
        while (child > 0 && waitpid(child, &status, 0) == -1 && errno == EINTR) {}
        wrong += child < 0 || status != 0;
    }
    timer = (struct itimerval){0};
    setitimer(ITIMER_REAL, &timer, NULL);
    munmap(memory, BYTES);
    return wrong + (ticks == 0);
}

int main(int count, char **arguments) {
    if (count > 1) return atoi(arguments[1]);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    PART("copies");
    N(all(copies));
    PART("programs");
    N(all(execs));
    PART("truncated files");
    N(truncations());
    PART("groups");
    // Orphans come here.
    MUST(prctl(PR_SET_CHILD_SUBREAPER, 1));
    N(groups(SIGKILL));
    N(groups(SIGUSR1));
    PART("timers");
    N(forks_beside_timers());
    return 0;
}

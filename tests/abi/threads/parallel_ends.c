// Processes that end, or run another program, while their threads compute; and threads that are bound to processors.
// cflags: -pthread -D_GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_int running;
static void *spin(void *x) {
    (void)x;
    running++;
    for (;;) {}
}
static void start(int count) {
    pthread_t thread;
    for (int i = 0; i < count; i++) pthread_create(&thread, NULL, spin, NULL);
    while (running < count) sched_yield();
}
static void *exec_self(void *path) {
    execl(path, path, "again", NULL);
    return NULL;
}
static void *bound(void *x) {
    int wrong = 0;
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0) return (void *)1000;
        for (int i = 0; i < 50; i++) {
            wrong += sched_getcpu() != cpu;
            if (i % 10 == 0) sched_yield();
        }
    }
    sched_setaffinity(0, sizeof all, &all);
    (void)x;
    return (void *)(long)wrong;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        char line[256];
        FILE *status = fopen("/proc/self/status", "r");
        while (fgets(line, sizeof line, status))
            if (strncmp(line, "Threads:", 8) == 0) printf("%s", line);
        return 0;
    }
    char self[4096] = {0};
    readlink("/proc/self/exe", self, sizeof self - 1);
    PART("exit");
    for (int i = 0; i < 5; i++) CHILD("exit", start(3); _exit(3));
    PART("killed");
    CHILD("killed", start(2); kill(getpid(), SIGKILL); pause());
    PART("another program, from the first thread");
    fflush(stdout);
    CHILD("exec", start(3); execl(self, self, "again", NULL));
    PART("another program, from another thread");
    fflush(stdout);
    CHILD("exec", pthread_t thread; start(2); pthread_create(&thread, NULL, exec_self, self); for (;;) pause());
    PART("bound to a processor");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, bound, NULL);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        N((long)wrong);
    }
    return 0;
}

// st_nlink of directories of processes: programs count their threads by that of `task`.
#include "check.h"
#include <pthread.h>

static pthread_barrier_t ready, done;

static void *wait_there(void *argument) {
    (void)argument;
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return NULL;
}

static void show(const char *path) {
    struct stat st;
    MUST(stat(path, &st));
    printf("%s %o %lu\n", path, st.st_mode, (unsigned long)st.st_nlink);
}

int main(void) {
    const char *paths[] = {"/proc/self/", "/proc/thread-self/", "/proc/self/task", "/proc/self/fd", "/proc/self/fdinfo",
                           "/proc/self/ns", "/proc/self/attr", "/proc/self/map_files", "/proc/sys", "/proc/sys/kernel"};
    for (unsigned i = 0; i < COUNT(paths); i++) show(paths[i]);
    int task = MUST(open("/proc/self/task", O_RDONLY | O_DIRECTORY));
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, wait_there, NULL);
    pthread_barrier_wait(&ready);
    struct stat st;
    MUST(fstat(task, &st));
    printf("with threads %lu\n", (unsigned long)st.st_nlink);
    pthread_barrier_wait(&done);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    // A thread that was joined may not be reaped yet.
    for (int i = 0; i < 1000; i++) {
        MUST(fstat(task, &st));
        if (st.st_nlink == 3) break;
        usleep(1000);
    }
    printf("alone %lu\n", (unsigned long)st.st_nlink);
    return 0;
}

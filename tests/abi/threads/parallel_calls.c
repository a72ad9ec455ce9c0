// Calls that a pod serves without a lock, while other virtual CPUs look at the threads that run beside them.
// cflags: -pthread -D_GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

static volatile int over;

static void *ask(void *unused) {
    (void)unused;
    while (!over)
        if (syscall(SYS_getpid) != getpid() || syscall(SYS_getppid) <= 0) abort();
    return NULL;
}

static void *yield(void *unused) {
    (void)unused;
    while (!over) sched_yield();
    return NULL;
}

int main(void) {
    PART("own numbers while others switch");
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) MUST(pthread_create(&threads[i], NULL, i % 2 ? yield : ask, NULL) == 0 ? 0 : -1);
    sleep_ms(1000);
    over = 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}

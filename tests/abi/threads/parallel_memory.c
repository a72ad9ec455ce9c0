// Memory that changes under threads that run at once: taken away, protected, forked, given back.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>

static volatile long *page;
static atomic_int stop, faults, running;
static atomic_long errors;
static __thread sigjmp_buf back;

static void refused(int signal) {
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

// Stores a, then b: whoever looks at both finds a == b or a == b + 1.
static void *store(void *x) {
    (void)x;
    running = 1;
    while (!stop) {
        if (sigsetjmp(back, 1) == 0) {
            for (;;) {
                page[0] = page[0] + 1;
                page[8] = page[0];
                if (stop) return NULL;
            }
        }
        sched_yield();
    }
    return NULL;
}

static void *map_and_unmap(void *seed) {
    unsigned long random = (long)seed;
    for (int round = 0; round < 300; round++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        size_t length = 4096 * (1 + (random >> 33) % 40);
        char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return errors++, NULL;
        for (size_t i = 0; i < length; i += 4096) errors += at[i] != 0, at[i] = random >> 56;
        if (round % 3 == 0) mprotect(at, length, PROT_READ);
        for (size_t i = 0; i < length; i += 4096) errors += at[i] != (char)(random >> 56);
        if (round % 5 == 0) {
            madvise(at, length, MADV_DONTNEED);
            for (size_t i = 0; i < length; i += 4096) errors += at[i] != 0;
        }
        munmap(at, length);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = refused, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t writer, threads[3];
    pthread_create(&writer, NULL, store, NULL);
    while (!running || page[0] == 0) sched_yield();
    PART("no store is seen once a page is protected");
    int changed = 0;
    for (int i = 0; i < 50; i++) {
        mprotect((void *)page, 4096, PROT_READ);
        long before = page[0];
        for (int k = 0; k < 1000; k++) changed += page[0] != before;
        mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
        while (page[0] == before) sched_yield();
    }
    N(changed);
    PART("a fork is a snapshot");
    int bad = 0;
    for (int i = 0; i < 30; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            long a = page[0], b = page[8], wrong = a != b && a != b + 1;
            for (int k = 0; k < 1000; k++) wrong += page[0] != a || page[8] != b;
            _exit(wrong != 0);
        }
        int status;
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    N(bad);
    PART("maps come and go");
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, map_and_unmap, (void *)(i + 1));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    N(errors);
    stop = 1;
    pthread_join(writer, NULL);
    return 0;
}

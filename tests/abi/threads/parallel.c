// Threads that may run at once: counters, locks, conditions, barriers, and signals to threads that only compute.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS 4
#define ROUNDS 20000
static atomic_long counter, handled;
static long guarded, turns;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int stop, spinning;
static int phases[THREADS];

static void *count(void *x) {
    for (int i = 0; i < ROUNDS; i++) {
        counter++;
        pthread_mutex_lock(&mutex);
        guarded++;
        pthread_mutex_unlock(&mutex);
    }
    return x;
}

static void *take_turns(void *number) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turns % THREADS != (long)number) pthread_cond_wait(&condition, &mutex);
        turns++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *step(void *number) {
    long wrong = 0;
    for (int i = 0; i < 100; i++) {
        phases[(long)number] = i;
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < THREADS; k++) wrong += phases[k] != i;
        pthread_barrier_wait(&barrier);
    }
    return (void *)wrong;
}

static void handle(int signal) { handled += signal == SIGUSR1; }
static void *spin(void *x) {
    spinning++;
    while (!stop) {}
    return x;
}

static void *call(void *x) {
    for (int i = 0; i < ROUNDS; i++)
        if (getppid() <= 0 || write((int)(long)x, "x", 1) != 1) return (void *)1;
    return NULL;
}

static long all(void *(*run)(void *), long same) {
    pthread_t threads[THREADS];
    long sum = 0;
    void *result;
    for (long i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, run, (void *)(same >= 0 ? same : i)));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], &result), sum += (long)result;
    return sum;
}

int main(void) {
    PART("counters");
    all(count, 0);
    N(counter);
    N(guarded);
    PART("turns");
    all(take_turns, -1);
    N(turns);
    PART("barriers");
    pthread_barrier_init(&barrier, NULL, THREADS);
    N(all(step, -1));
    PART("system calls");
    N(all(call, MUST(open("/dev/null", O_WRONLY))));
    PART("signals to threads that compute");
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, spin, NULL);
    while (spinning < 2) sched_yield();
    for (int i = 0; i < 20; i++) {
        long before = handled;
        pthread_kill(threads[i % 2], SIGUSR1);
        while (handled == before) sched_yield();
    }
    N(handled);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}

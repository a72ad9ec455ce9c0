// Threads: creation, joining, locks, condition variables, thread-local data, cancellation.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static long counter;
static int turn;
static __thread int local = 5;
static pthread_key_t key;
static int destroyed;

static void *adder(void *count) {
    for (long i = 0; i < (long)count; i++) {
        pthread_mutex_lock(&lock);
        counter++;
        pthread_mutex_unlock(&lock);
    }
    return count;
}
static void *player(void *argument) {
    int me = (long)argument;
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 3 != me) pthread_cond_wait(&ready, &lock);
        turn++;
        pthread_cond_broadcast(&ready);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}
static void *locals(void *argument) {
    local += (long)argument;
    sched_yield();
    pthread_setspecific(key, argument);
    return (void *)(long)local;
}
static void destructor(void *value) { __atomic_fetch_add(&destroyed, (long)value, __ATOMIC_SEQ_CST); }
static void *forever(void *x) {
    for (;;) sleep_ms(1000);
    return x;
}
static void *wait_barrier(void *barrier) { return (void *)(long)(pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD); }
static void *post(void *semaphore) {
    sleep_ms(20);
    sem_post(semaphore);
    return NULL;
}
static void once_body(void) { counter += 1000; }
static void *ids(void *argument) {
    pid_t *out = argument;
    out[0] = getpid();
    out[1] = syscall(SYS_gettid);
    out[2] = getppid();
    return NULL;
}
static void *nothing(void *x) { return x; }

int main(void) {
    pthread_t threads[16];
    void *result;
    PART("mutex");
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, adder, (void *)10000L);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], &result);
    printf("%ld %ld\n", counter, (long)result);
    PART("condition variable");
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, player, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    N(turn);
    PART("thread-local data");
    pthread_key_create(&key, destructor);
    long sum = 0;
    for (long i = 1; i <= 8; i++) pthread_create(&threads[i], NULL, locals, (void *)i);
    for (int i = 1; i <= 8; i++) {
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("%ld %d %d\n", sum, local, destroyed);
    PART("cancellation");
    pthread_create(&threads[0], NULL, forever, NULL);
    sleep_ms(10);
    N(pthread_cancel(threads[0]));
    N(pthread_join(threads[0], &result));
    YES(result == PTHREAD_CANCELED);
    PART("barrier");
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 5);
    sum = 0;
    for (int i = 0; i < 5; i++) pthread_create(&threads[i], NULL, wait_barrier, &barrier);
    for (int i = 0; i < 5; i++) {
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    N(sum);
    PART("semaphore");
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    T(sem_trywait(&semaphore));
    pthread_create(&threads[0], NULL, post, &semaphore);
    T(sem_wait(&semaphore));
    pthread_join(threads[0], NULL);
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_nsec += 20000000;
    if (when.tv_nsec >= 1000000000) when.tv_nsec -= 1000000000, when.tv_sec++;
    T(sem_timedwait(&semaphore, &when));
    pthread_mutex_lock(&lock);
    N(pthread_cond_timedwait(&ready, &lock, &when) == ETIMEDOUT);
    pthread_mutex_unlock(&lock);
    PART("once");
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    counter = 0;
    pthread_once(&once, once_body);
    pthread_once(&once, once_body);
    N(counter);
    PART("ids");
    pid_t out[3];
    pthread_create(&threads[0], NULL, ids, out);
    pthread_join(threads[0], NULL);
    YES(out[0] == getpid() && out[1] != getpid() && out[2] == getppid());
    PART("many short ones");
    int made = 0;
    for (int i = 0; i < 300; i++) {
        if (pthread_create(&threads[0], NULL, nothing, NULL) == 0) made++;
        pthread_join(threads[0], NULL);
    }
    N(made);
    PART("detached");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 65536);
    made = 0;
    for (int i = 0; i < 50; i++) made += pthread_create(&threads[0], &attributes, nothing, NULL) == 0;
    N(made);
    PART("process-shared mutex and condition");
    struct shared { pthread_mutex_t lock; pthread_cond_t ready; int value; } *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
    pthread_condattr_init(&ca);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->lock, &ma);
    pthread_cond_init(&s->ready, &ca);
    pid_t child = MUST(fork());
    if (child == 0) {
        pthread_mutex_lock(&s->lock);
        while (s->value == 0) pthread_cond_wait(&s->ready, &s->lock);
        s->value++;
        pthread_mutex_unlock(&s->lock);
        _exit(0);
    }
    sleep_ms(20);
    pthread_mutex_lock(&s->lock);
    s->value = 10;
    pthread_cond_signal(&s->ready);
    pthread_mutex_unlock(&s->lock);
    reap("child", child);
    N(s->value);
    PART("a robust mutex whose owner died");
    CHILD("owner", pthread_mutex_lock(&s->lock));
    N(pthread_mutex_lock(&s->lock) == EOWNERDEAD);
    N(pthread_mutex_consistent(&s->lock));
    N(pthread_mutex_unlock(&s->lock));
    return 0;
}

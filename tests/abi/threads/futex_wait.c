// Waiting for one of several futexes, and waiting for a lock that one is moved to.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>

static long waitv(struct futex_waitv *waiters, unsigned count, unsigned flags, void *timeout, int clock) {
    return syscall(SYS_futex_waitv, waiters, count, flags, timeout, clock);
}

static long futex(int *at, int operation, int value, void *timeout, int *second, int third) {
    return syscall(SYS_futex, at, operation, value, timeout, second, third);
}

static int words[200], condition, lock, got, ready;

static void *wake_second(void *unused) {
    (void)unused;
    sleep_ms(20);
    while (futex(&words[1], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0) sleep_ms(1);
    return NULL;
}

static void *wait_moved(void *unused) {
    (void)unused;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    long result = futex(&condition, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, NULL, &lock, 0);
    if (result == 0 && (lock & FUTEX_TID_MASK) == gettid()) got++;
    futex(&lock, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}

static void on_alarm(int number) { (void)number; }

int main(void) {
    struct futex_waitv waiters[130] = {0};
    for (int i = 0; i < 130; i++)
        waiters[i] = (struct futex_waitv){.uaddr = (long)&words[i], .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
    struct timespec past = {0, 1}, wrong = {0, -1}, soon;

    PART("errors");
    T(waitv(waiters, 2, 1, NULL, CLOCK_MONOTONIC));
    T(waitv(waiters, 0, 0, NULL, CLOCK_MONOTONIC));
    T(waitv(waiters, 129, 0, NULL, CLOCK_MONOTONIC));
    T(waitv(NULL, 1, 0, NULL, CLOCK_MONOTONIC));
    T(waitv(BAD, 1, 0, NULL, CLOCK_MONOTONIC));
    T(waitv(waiters, 1, 0, &past, CLOCK_BOOTTIME));
    T(waitv(waiters, 1, 0, &wrong, CLOCK_MONOTONIC));
    T(waitv(waiters, 1, 0, BAD, CLOCK_MONOTONIC));
    T(waitv(waiters, 128, 0, &past, CLOCK_MONOTONIC));
    T(waitv(waiters, 2, 0, &past, CLOCK_REALTIME));
    waiters[1].val = 5;
    T(waitv(waiters, 2, 0, NULL, 0));
    waiters[1].val = 1ull << 32; // Linux before 6.7 looks at the low half and would wait
    T(waitv(waiters, 2, 0, &past, CLOCK_MONOTONIC));
    waiters[1].val = 0;
    waiters[1].flags = 0;
    T(waitv(waiters, 2, 0, NULL, 0));
    waiters[1].flags = FUTEX_32 | 0x40;
    T(waitv(waiters, 2, 0, NULL, 0));
    waiters[1].flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
    waiters[1].__reserved = 1;
    T(waitv(waiters, 2, 0, NULL, 0));
    waiters[1].__reserved = 0;
    waiters[1].uaddr = (long)BAD;
    T(waitv(waiters, 2, 0, NULL, 0));
    waiters[1].uaddr = (long)&words[1] + 2;
    T(waitv(waiters, 2, 0, NULL, 0));
    waiters[1].uaddr = (long)&words[1];

    PART("waiting");
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    T(waitv(waiters, 3, 0, &soon, CLOCK_MONOTONIC));
    pthread_t thread;
    pthread_create(&thread, NULL, wake_second, NULL);
    T(waitv(waiters, 3, 0, NULL, 0));
    pthread_join(thread, NULL);
    T(futex(&words[0], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarms(20);
    T(waitv(waiters, 3, 0, NULL, 0));
    alarms(0);

    PART("moved to a lock");
    T(futex(&condition, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, NULL, &condition, 0));
    T(futex(&condition, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 1, NULL, &lock, 0));
    T(futex(&condition, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &past, &lock, 0));
    T(futex(&condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 2, NULL, &lock, 0));
    T(futex(&condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, NULL, &lock, 1));
    T(futex(&condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, NULL, &lock, 0));
    MUST(futex(&lock, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, wait_moved, NULL);
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 3) sleep_ms(1);
    sleep_ms(50);
    T(futex(&condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)100l, &lock, 0));
    YES((lock & FUTEX_WAITERS) != 0);
    N(got);
    T(futex(&lock, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    N(got);
    N(lock);
    return 0;
}

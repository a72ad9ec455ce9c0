// The futex calls themselves.
// cflags: -pthread
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>

static int word, other;
static long futex(int *at, int operation, int value, void *timeout, int *second, int third) {
    return syscall(SYS_futex, at, operation, value, timeout, second, third);
}
static void *wait_word(void *x) {
    long result = futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return (void *)result;
}
static void *wait_bits(void *bits) { return (void *)futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (long)bits); }

int main(void) {
    struct timespec little = {0, 20000000}, bad = {0, 1000000000}, now;
    PART("waiting");
    T(futex(&word, FUTEX_WAIT, 1, NULL, NULL, 0));
    T(futex(&word, FUTEX_WAIT, 0, &little, NULL, 0));
    T(futex(&word, FUTEX_WAIT_PRIVATE, 0, &little, NULL, 0));
    T(futex(&word, FUTEX_WAIT, 0, &bad, NULL, 0));
    T(futex(&word, FUTEX_WAIT, 0, BAD, NULL, 0));
    clock_gettime(CLOCK_MONOTONIC, &now);
    T(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &now, NULL, FUTEX_BITSET_MATCH_ANY));
    clock_gettime(CLOCK_REALTIME, &now);
    T(futex(&word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &now, NULL, FUTEX_BITSET_MATCH_ANY));
    T(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0));
    PART("errors");
    T(futex((int *)((char *)&word + 1), FUTEX_WAIT, 0, NULL, NULL, 0));
    T(futex((int *)((char *)&word + 1), FUTEX_WAKE, 1, NULL, NULL, 0));
    T(futex(BAD, FUTEX_WAKE, 1, NULL, NULL, 0));
    T(futex((int *)0x1000, FUTEX_WAIT, 0, NULL, NULL, 0));
    T(futex((int *)0x1000, FUTEX_WAKE, 1, NULL, NULL, 0));
    T(futex((int *)0x1000, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex((int *)KERNEL_ADDRESS, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&word, 99, 0, NULL, NULL, 0));
    T(futex(&word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0));
    PART("waking");
    T(futex(&word, FUTEX_WAKE, 10, NULL, NULL, 0));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, wait_word, NULL);
    sleep_ms(200);
    T(futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&word, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0));
    T(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    long sum = 0;
    void *result;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    N(sum);
    PART("bit sets");
    pthread_create(&threads[0], NULL, wait_bits, (void *)1L);
    pthread_create(&threads[1], NULL, wait_bits, (void *)2L);
    sleep_ms(50);
    T(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 4));
    T(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 2));
    T(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 3));
    T(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 0));
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    PART("requeueing");
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, wait_word, NULL);
    sleep_ms(50);
    T(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10L, &other, 5));
    T(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10L, &other, 0));
    T(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    T(futex(&other, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&other, FUTEX_REQUEUE_PRIVATE, 0, (void *)10L, &word, 0));
    T(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    PART("wake with an operation");
    pthread_create(&threads[0], NULL, wait_word, NULL);
    sleep_ms(30);
    other = 7;
    T(futex(&other, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, &word, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 0)));
    pthread_join(threads[0], NULL);
    N(word);
    word = 0;
    PART("between processes");
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = MUST(fork());
    if (child == 0) {
        T(futex(shared, FUTEX_WAIT, 0, NULL, NULL, 0));
        _exit(0);
    }
    sleep_ms(50);
    T(futex(shared, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    long woken = futex(shared, FUTEX_WAKE, 1, NULL, NULL, 0);
    reap("child", child);
    N(woken);
    PART("the thread id is cleared and waiters woken at a thread's end");
    void *head;
    size_t length;
    T(syscall(SYS_get_robust_list, 0, &head, &length));
    N(length);
    T(syscall(SYS_get_robust_list, 999999, &head, &length));
    T(syscall(SYS_set_robust_list, head, 1));
    return 0;
}

// Futexes in the corners: owners that end, words of two kinds, waiters that are moved, the newer calls.
// cflags: -pthread
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>

#define LOCK_PI2 13
#define SIZE_U32 2
#define PRIVATE 128

static long futex(void *at, int operation, int value, void *timeout, void *second, int third) {
    return syscall(SYS_futex, at, operation, value, timeout, second, third);
}
static long new_wake(void *at, unsigned long mask, int count, unsigned flags) {
    return syscall(454, at, mask, count, flags);
}
static long new_wait(void *at, unsigned long value, unsigned long mask, unsigned flags, void *timeout, int clock) {
    return syscall(455, at, value, mask, flags, timeout, clock);
}
struct word { uint64_t value, address; uint32_t flags, reserved; };
static long new_requeue(void *words, unsigned flags, int wakes, int moves) {
    return syscall(456, words, flags, wakes, moves);
}
static long waitv(void *words, unsigned count, unsigned flags, void *timeout, int clock) {
    return syscall(449, words, count, flags, timeout, clock);
}

static int lock_word, second_word, plain;
static volatile int stage;
static volatile long result;
static volatile int result_errno;

// A word as a program sees it, without thread ids.
static void show_word(const char *what, unsigned word, pid_t me) {
    printf("%s: %s%s%s\n", what,
           (word & FUTEX_TID_MASK) == 0             ? "nobody"
           : (word & FUTEX_TID_MASK) == (unsigned)me ? "mine"
                                                    : "another's",
           word & FUTEX_WAITERS ? ", waiters" : "", word & FUTEX_OWNER_DIED ? ", owner died" : "");
}

static pid_t tid(void) { return syscall(SYS_gettid); }

// Whether a thread sleeps in the kernel: then it waits.
static void until_asleep(pid_t thread) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    for (int i = 0; i < 2000; i++) {
        int fd = open(path, O_RDONLY);
        ssize_t got = read(fd, text, sizeof text - 1);
        close(fd);
        if (got > 0) {
            text[got] = 0;
            char *state = strrchr(text, ')');
            if (state && state[2] == 'S') return;
        }
        sleep_ms(1);
    }
}

static volatile pid_t other;
static volatile unsigned got_word;
static volatile bool got_mine;
static volatile long unlocked;
static void *take_and_end(void *unused) {
    futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0);
    other = tid();
    while (stage < 1) sleep_ms(1);
    return unused;
}
static void *wait_for_lock(void *operation) {
    other = tid();
    errno = 0;
    result = futex(&lock_word, (int)(long)operation, 0, NULL, NULL, 0);
    result_errno = errno;
    got_word = lock_word & ~FUTEX_TID_MASK;
    got_mine = (lock_word & FUTEX_TID_MASK) == tid();
    unlocked = result == 0 ? futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) : -2;
    return NULL;
}
struct waiting { int *word; int operation; int value; int *second; struct timespec *limit; int bits; };
static void *wait_plain(void *arg) {
    struct waiting *w = arg;
    other = tid();
    errno = 0;
    result = futex(w->word, w->operation, w->value, w->limit, w->second, w->bits);
    result_errno = errno;
    return NULL;
}
static pthread_t start(void *(*f)(void *), void *arg) {
    pthread_t thread;
    other = 0;
    pthread_create(&thread, NULL, f, arg);
    while (!other) sleep_ms(1);
    until_asleep(other);
    return thread;
}
// What the waiter found, after its end.
static void show_lock(void) {
    printf("the lock that came: %s%s%s, unlocked: %ld\n", got_mine ? "its own" : "another's",
           got_word & FUTEX_WAITERS ? ", waiters" : "", got_word & FUTEX_OWNER_DIED ? ", owner died" : "", unlocked);
}
static void show_result(const char *what) {
    printf("%s: %s\n", what, result == -1 ? check_error(result_errno) : result == 0 ? "0" : result == 1 ? "1" : "more");
}

static void owner_that_ends(void) {
    PART("an owner that ends");
    stage = lock_word = 0;
    pthread_t owner = start(take_and_end, NULL);
    show_word("taken", lock_word, tid());
    pthread_t waiter = start(wait_for_lock, (void *)(long)FUTEX_LOCK_PI_PRIVATE);
    show_word("waited for", lock_word, tid());
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    stage = 1;
    pthread_join(owner, NULL);
    pthread_join(waiter, NULL);
    show_result("locked");
    show_lock();
    PART("without waiters");
    stage = lock_word = 0;
    owner = start(take_and_end, NULL);
    stage = 1;
    pthread_join(owner, NULL);
    show_word("left behind", lock_word, tid());
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    show_word("left behind", lock_word, tid());
}

static void lock_handed_over(void) {
    PART("a lock handed over");
    lock_word = 0;
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    pthread_t waiter = start(wait_for_lock, (void *)(long)FUTEX_LOCK_PI_PRIVATE);
    T(futex(&lock_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_WAKE_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 4));
    T(futex(&lock_word, FUTEX_WAKE, 1, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_REQUEUE_PRIVATE, 1, (void *)1, &second_word, 0));
    T(futex(&lock_word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1, &second_word, lock_word));
    T(futex(&lock_word, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, lock_word));
    T(futex(&lock_word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &plain, 0));
    T(futex(&plain, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &lock_word, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_NE, 0)));
    T(new_wake(&lock_word, 1, 1, SIZE_U32 | PRIVATE));
    T(futex(&lock_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    pthread_join(waiter, NULL);
    show_lock();
    PART("of a word that was changed by hand");
    lock_word = 0;
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    waiter = start(wait_for_lock, (void *)(long)LOCK_PI2 + PRIVATE);
    int word = lock_word;
    lock_word = 1 | FUTEX_WAITERS;
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    lock_word = word;
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    pthread_join(waiter, NULL);
    show_lock();
    lock_word = FUTEX_WAITERS;
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    show_word("nobody's with waiters", lock_word, tid());
    lock_word = FUTEX_OWNER_DIED | FUTEX_WAITERS;
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    show_word("a dead owner's", lock_word, tid());
    lock_word = FUTEX_OWNER_DIED | FUTEX_WAITERS;
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    show_word("tried", lock_word, tid());
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    show_word("unlocked", lock_word, tid());
    lock_word = 0x3ffffff0;
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    show_word("no thread's", lock_word, tid());
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    PART("time limits");
    lock_word = 1;
    struct timespec past = {0, 1}, bad = {0, 1000000000}, negative = {-1, 0};
    stage = lock_word = 0;
    pthread_t owner = start(take_and_end, NULL);
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, &past, NULL, 0));
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, &bad, NULL, 0));
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, &negative, NULL, 0));
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE, 0, BAD, NULL, 0));
    T(futex(&lock_word, LOCK_PI2 | PRIVATE, 0, &past, NULL, 0));
    T(futex(&lock_word, LOCK_PI2 | PRIVATE | FUTEX_CLOCK_REALTIME, 0, &past, NULL, 0));
    T(futex(&lock_word, FUTEX_LOCK_PI_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &past, NULL, 0));
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &past, NULL, 0));
    T(futex(&lock_word, FUTEX_TRYLOCK_PI_PRIVATE, 0, &bad, NULL, 0));
    T(futex(&lock_word, FUTEX_UNLOCK_PI_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &past, NULL, 0));
    show_word("after waits that ended", lock_word, tid());
    stage = 1;
    pthread_join(owner, NULL);
    T(futex(BAD, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex((char *)&lock_word + 1, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(BAD, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex((char *)&lock_word + 1, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
}

static void *wait_and_unlock(void *arg) {
    wait_plain(arg);
    int *lock = ((struct waiting *)arg)->second;
    got_word = *lock & ~FUTEX_TID_MASK;
    got_mine = (*lock & FUTEX_TID_MASK) == tid();
    unlocked = result == 0 ? futex(lock, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0) : -2;
    return NULL;
}

static void moved_to_lock(void) {
    PART("moved to a lock");
    struct waiting w = {&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &second_word, NULL, 0};
    plain = second_word = 0;
    pthread_t waiter = start(wait_and_unlock, &w);
    T(futex(&plain, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&plain, FUTEX_REQUEUE_PRIVATE, 1, (void *)1, &lock_word, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &lock_word, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &plain, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 0, (void *)1, &second_word, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 2, (void *)1, &second_word, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)-1, &second_word, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, 1));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, 0));
    pthread_join(waiter, NULL);
    show_result("waited");
    show_lock();
    show_word("the lock", second_word, tid());
    PART("moved to a lock that is taken");
    second_word = 0;
    T(futex(&second_word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    waiter = start(wait_and_unlock, &w);
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, 0));
    show_word("the lock", second_word, tid());
    T(futex(&second_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&second_word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    pthread_join(waiter, NULL);
    show_result("waited");
    show_lock();
    PART("to a lock whose owner is nobody");
    second_word = 0x3ffffff0;
    waiter = start(wait_and_unlock, &w);
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, 0));
    second_word = 0;
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, 0));
    pthread_join(waiter, NULL);
    show_lock();
    PART("never moved");
    struct timespec past = {0, 1};
    T(futex(&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &past, &second_word, 0));
    T(futex(&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &past, &second_word, 0));
    T(futex(&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 1, &past, &second_word, 0));
    T(futex(&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &past, &plain, 0));
    T(futex(&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &past, BAD, 0));
    T(futex(&plain, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, &past, (char *)&second_word + 1, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, BAD, 0));
    PART("plain waiters are not moved to a lock");
    struct waiting p = {&plain, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0};
    waiter = start(wait_plain, &p);
    second_word = 0;
    T(futex(&plain, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, (void *)1, &second_word, 0));
    T(futex(&plain, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    pthread_join(waiter, NULL);
}

static void two_kinds(void) {
    PART("shared and private");
    int *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *words[] = {anon, shared, &plain};
    plain = 0;
    for (int i = 0; i < 3; i++)
        for (int private = 0; private < 2; private++) {
            struct waiting w = {words[i], private ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT, 0, NULL, NULL, 0};
            pthread_t waiter = start(wait_plain, &w);
            T(futex(words[i], private ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
            T(futex(words[i], private ? FUTEX_REQUEUE : FUTEX_REQUEUE_PRIVATE, 0, (void *)1, &second_word, 0));
            T(futex(words[i], private ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE, 1, NULL, NULL, 0));
            pthread_join(waiter, NULL);
            show_result("waited");
        }
    PART("of two mappings");
    int fd = MUST(syscall(SYS_memfd_create, "words", 0));
    MUST(ftruncate(fd, 4096));
    int *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int *b = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    struct waiting w = {a, FUTEX_WAIT, 0, NULL, NULL, 0};
    pthread_t waiter = start(wait_plain, &w);
    T(futex(b, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(b, FUTEX_WAKE, 1, NULL, NULL, 0));
    pthread_join(waiter, NULL);
    T(futex(b, FUTEX_WAKE_OP, 1, (void *)1, b, 0));
    T(futex(b, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    T(futex(b, FUTEX_WAIT, 1, NULL, NULL, 0));
    close(fd);
}

static void clocks(void) {
    PART("clocks");
    plain = 0;
    struct timespec past = {0, 1}, bad = {0, -1}, negative = {-1, 0}, none = {0, 0};
    T(futex(&plain, FUTEX_WAIT_BITSET_PRIVATE, 0, &past, NULL, -1));
    T(futex(&plain, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &past, NULL, -1));
    T(futex(&plain, FUTEX_WAIT_BITSET_PRIVATE, 0, &none, NULL, -1));
    T(futex(&plain, FUTEX_WAIT_BITSET_PRIVATE, 0, &past, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_BITSET_PRIVATE, 0, &bad, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_BITSET_PRIVATE, 1, &past, NULL, -1));
    T(futex(&plain, FUTEX_WAIT_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &none, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_PRIVATE, 0, &none, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_PRIVATE, 0, &past, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_PRIVATE, 0, &bad, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_PRIVATE, 0, &negative, NULL, 0));
    T(futex(&plain, FUTEX_WAIT_PRIVATE, 0, BAD, NULL, 0));
    T(futex(&plain, FUTEX_WAKE_PRIVATE | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0));
    T(futex(&plain, FUTEX_WAKE_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, -1));
    T(futex(&plain, FUTEX_REQUEUE_PRIVATE | FUTEX_CLOCK_REALTIME, 1, NULL, &second_word, -1));
    T(futex(&plain, 2 /* FUTEX_FD */, 0, NULL, NULL, 0));
    T(futex(&plain, 14, 0, NULL, NULL, 0));
    T(futex(&plain, FUTEX_WAKE_PRIVATE | 512, 0, NULL, NULL, 0));
    T(futex(&plain, FUTEX_WAKE_PRIVATE | 1024, 1, NULL, NULL, 0));
    T(futex(BAD, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(BAD, FUTEX_WAKE, 1, NULL, NULL, 0));
    T(futex(KERNEL_ADDRESS, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(KERNEL_ADDRESS, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0));
    T(futex(BAD, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0));
    T(futex((char *)&plain + 2, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    T(futex(&plain, FUTEX_REQUEUE_PRIVATE, -1, (void *)1, &second_word, 0));
    T(futex(&plain, FUTEX_REQUEUE_PRIVATE, 1, (void *)-1, &second_word, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, BAD, 0));
    T(futex(&plain, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)1, &plain, 5));
}

static void *wait_new(void *arg) {
    struct word *words = arg;
    other = tid();
    errno = 0;
    result = waitv(words, 2, 0, NULL, 0);
    result_errno = errno;
    return NULL;
}

static void newer(void) {
    PART("the newer calls");
    plain = second_word = 0;
    struct timespec past = {0, 1}, bad = {0, -1};
    static const unsigned flags[] = {0, 1, 2, 3, 4, 6, 8, 2 | PRIVATE, PRIVATE, 2 | 256, 2 | 0x80000000};
    for (size_t i = 0; i < COUNT(flags); i++) {
        printf("flags %#x\n", flags[i]);
        T(new_wake(&plain, -1u, 1, flags[i]));
        T(new_wait(&plain, 1, -1u, flags[i], &past, CLOCK_MONOTONIC));
        struct word words[2] = {{1, (uintptr_t)&plain, flags[i], 0}, {0, (uintptr_t)&second_word, flags[i], 0}};
        T(waitv(words, 2, 0, &past, CLOCK_MONOTONIC));
        T(new_requeue(words, 0, 1, 1));
    }
    PART("values");
    T(new_wake(&plain, 0, 1, 2));
    T(new_wake(&plain, 0x100000000, 1, 2));
    T(new_wake(&plain, 1, 0, 2));
    T(new_wake(&plain, 1, -1, 2));
    T(new_wake(BAD, 1, 1, 2));
    T(new_wake(BAD, 1, 1, 2 | PRIVATE));
    T(new_wake(BAD, 1, 0, 2));
    T(new_wake((char *)&plain + 1, 1, 1, 2));
    T(new_wait(&plain, 0x100000000, 1, 2, &past, CLOCK_MONOTONIC));
    T(new_wait(&plain, 0, 0x100000000, 2, &past, CLOCK_MONOTONIC));
    T(new_wait(&plain, 0, 0, 2, &past, CLOCK_MONOTONIC));
    T(new_wait(&plain, 0, 1, 2, &past, CLOCK_MONOTONIC));
    T(new_wait(&plain, 0, 1, 2, &past, CLOCK_REALTIME));
    T(new_wait(&plain, 0, 1, 2, &past, CLOCK_BOOTTIME));
    T(new_wait(&plain, 0, 1, 2, &past, -1));
    T(new_wait(&plain, 0, 1, 2, &bad, CLOCK_REALTIME));
    T(new_wait(&plain, 0, 1, 2, BAD, CLOCK_REALTIME));
    T(new_wait(&plain, 1, 1, 2, NULL, 77));
    T(new_wait(BAD, 1, 1, 2, NULL, 0));
    T(new_wait((char *)&plain + 1, 1, 1, 2, NULL, 0));
    struct word words[2] = {{1, (uintptr_t)&plain, 2, 0}, {0, (uintptr_t)&second_word, 2, 0}};
    T(waitv(words, 0, 0, &past, 0));
    T(waitv(words, 129, 0, &past, 0));
    T(waitv(words, 2, 1, &past, 0));
    T(waitv(NULL, 2, 0, &past, 0));
    T(waitv(BAD, 2, 0, &past, 0));
    T(waitv(words, 2, 0, BAD, 0));
    T(waitv(words, 2, 0, &past, 2));
    T(waitv(words, 2, 0, NULL, 2));
    words[0].value = 0;
    T(waitv(words, 2, 0, &past, 0));
    T(waitv(words, 2, 0, &past, 1));
    words[1].reserved = 1;
    T(waitv(words, 2, 0, &past, 1));
    T(new_requeue(words, 0, 1, 1));
    words[1].reserved = 0;
    words[1].address++;
    T(waitv(words, 2, 0, &past, 1));
    T(new_requeue(words, 0, 1, 1));
    words[1].address = 16;
    T(waitv(words, 2, 0, &past, 1));
    T(new_requeue(words, 0, 1, 1));
    words[1].address = (uintptr_t)&second_word;
    words[0].value = 0x100000000;
    T(waitv(words, 2, 0, &past, 1));
    T(new_requeue(words, 0, 1, 1));
    words[0].value = 0;
    words[1].value = 0x100000000;
    T(new_requeue(words, 0, 1, 1));
    words[1].value = 7;
    T(new_requeue(words, 0, 1, 1));
    T(new_requeue(words, 1, 1, 1));
    T(new_requeue(words, 0, -1, 1));
    T(new_requeue(words, 0, 1, -1));
    T(new_requeue(NULL, 0, 1, 1));
    T(new_requeue(BAD, 0, 1, 1));
    words[1].flags = 2 | PRIVATE;
    T(new_requeue(words, 0, 1, 1));
    words[1].flags = 2;
    words[1].value = 0;
    PART("waiters");
    pthread_t waiter = start(wait_new, words);
    T(new_wake(&second_word, 1, 1, 2 | PRIVATE));
    T(new_wake(&second_word, 1, 0, 2));
    T(new_wake(&second_word, 1, 1, 2));
    pthread_join(waiter, NULL);
    show_result("woken by the word");
    struct waiting w = {&plain, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 6};
    waiter = start(wait_plain, &w);
    T(new_wake(&plain, 1, 1, 2 | PRIVATE));
    words[0].flags = words[1].flags = 2 | PRIVATE;
    T(new_requeue(words, 0, 0, 5));
    T(new_wake(&plain, 2, 1, 2 | PRIVATE));
    T(new_wake(&second_word, 8, 1, 2 | PRIVATE));
    T(new_wake(&second_word, 4, 9, 2 | PRIVATE));
    pthread_join(waiter, NULL);
    show_result("moved and woken");
    waiter = start(wait_plain, &w);
    T(futex(&plain, FUTEX_REQUEUE_PRIVATE, 0, (void *)3, &plain, 0));
    T(futex(&plain, FUTEX_WAKE_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&plain, FUTEX_WAKE_PRIVATE, -1, NULL, NULL, 0));
    pthread_join(waiter, NULL);
}

int main(void) {
    owner_that_ends();
    lock_handed_over();
    moved_to_lock();
    two_kinds();
    clocks();
    newer();
    return 0;
}

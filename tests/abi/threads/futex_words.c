// Words of futex(2) as programs leave them: locks of owners that are not there, operations of FUTEX_WAKE_OP, plain waiters
// where a lock is, memory that can't change, robust lists.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>

#define F(...) T(syscall(SYS_futex, __VA_ARGS__))

static uint32_t word, other;
static const struct timespec soon = {0, 30000000}, later = {60, 0};
static volatile int stage;
static long result;

static void *owner(void *unused) {
    syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL);
    stage = 1;
    while (stage < 2) sleep_ms(1);
    return unused;
}

static void *next_owner(void *unused) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    result = syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, &until);
    YES((word & FUTEX_TID_MASK) == (uint32_t)gettid());
    YES(word & FUTEX_OWNER_DIED);
    return unused;
}

static volatile int waiters[2];

// Waits until a thread that has set this number sleeps, which it does in the call that follows.
static void until_asleep(volatile int *tid) {
    char state = 0;
    while (*tid == 0) sleep_ms(1);
    for (; state != 'S'; sleep_ms(5)) {
        char path[64], line[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", *tid);
        int fd = MUST(open(path, O_RDONLY));
        MUST(read(fd, line, sizeof line - 1));
        close(fd);
        state = strrchr(line, ')')[2];
    }
    *tid = 0;
}

static void *waiter(void *unused) {
    waiters[0] = gettid();
    result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, word, &later);
    return unused;
}

static void *waiter_of_all(void *unused) {
    waiters[1] = gettid();
    syscall(SYS_futex, &word, FUTEX_WAIT, word, &later);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    uint32_t self = gettid();
    PART("an owner ends without a list");
    pthread_create(&threads[0], NULL, owner, NULL);
    while (stage == 0) sleep_ms(1);
    pthread_create(&threads[1], NULL, next_owner, NULL);
    while (!(*(volatile uint32_t *)&word & FUTEX_WAITERS)) sleep_ms(1);
    F(&word, FUTEX_WAKE_PRIVATE, 1);
    F(&word, FUTEX_WAKE, 1);
    F(&word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, -1);
    F(&other, FUTEX_WAKE_OP_PRIVATE, 1, 1, &word, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_NE, 0));
    stage = 2;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    N(result);

    PART("words");
    const uint32_t words[] = {0x3ffffff, 0x3ffffff | FUTEX_WAITERS, 0x3ffffff | FUTEX_WAITERS | FUTEX_OWNER_DIED, self, FUTEX_OWNER_DIED, FUTEX_WAITERS};
    for (size_t i = 0; i < COUNT(words); i++) {
        word = words[i];
        F(&word, FUTEX_TRYLOCK_PI_PRIVATE, 0, NULL);
        YES((word & FUTEX_TID_MASK) == self);
        N(word >> 30);
        word = words[i];
        F(&word, FUTEX_LOCK_PI_PRIVATE, 0, NULL);
        N(word >> 30);
        F(&word, FUTEX_UNLOCK_PI_PRIVATE);
        N(word >> 30);
    }

    PART("a plain waiter where a lock is");
    word = 5;
    pthread_create(&threads[0], NULL, waiter, NULL);
    until_asleep(&waiters[0]);
    word = self | FUTEX_WAITERS;
    F(&word, FUTEX_UNLOCK_PI_PRIVATE);
    YES(word == (self | FUTEX_WAITERS));
    F(&word, FUTEX_WAKE_PRIVATE, 9);
    pthread_join(threads[0], NULL);
    N(result);
    F(&word, FUTEX_UNLOCK_PI_PRIVATE);
    N(word);

    PART("private and shared");
    word = 0;
    pthread_create(&threads[0], NULL, waiter, NULL);
    pthread_create(&threads[1], NULL, waiter_of_all, NULL);
    until_asleep(&waiters[0]);
    until_asleep(&waiters[1]);
    F(&word, FUTEX_WAKE, 9);
    pthread_join(threads[1], NULL);
    F(&word, FUTEX_WAKE_PRIVATE, 9);
    pthread_join(threads[0], NULL);

    PART("FUTEX_WAKE_OP");
    for (unsigned op = 0; op < 16; op++) {
        for (unsigned compare = 0; compare < 8; compare++) {
            other = 6;
            long r = syscall(SYS_futex, &word, FUTEX_WAKE_OP_PRIVATE, 1, 1, &other, FUTEX_OP(op, 3, compare, 6));
            printf("%u %u: %s, %u\n", op, compare, r == -1 ? check_error(errno) : "ok", other);
        }
    }
    other = 6;
    F(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1, &other, FUTEX_OP(FUTEX_OP_SET, 0xfff, 0, 0));
    N(other);
    F(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1, &other, FUTEX_OP((8 | FUTEX_OP_SET), 40, 0, 0));
    N(other);
    F(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1, BAD, 0);
    F(BAD, FUTEX_WAKE_OP_PRIVATE, 1, 1, &other, 0);

    PART("constant memory");
    uint32_t *constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    F(constant, FUTEX_WAIT, 0, &soon);
    F(constant, FUTEX_WAKE, 1);
    F(constant, FUTEX_WAIT_PRIVATE, 0, &soon);
    F(constant, FUTEX_WAKE_PRIVATE, 1);
    F(constant, FUTEX_LOCK_PI_PRIVATE, 0, NULL);
    F(&word, FUTEX_WAKE_OP_PRIVATE, 1, 1, constant, 0);
    put_file("file", "xxxxxxxx");
    uint32_t *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, MUST(open("file", O_RDONLY)), 0);
    F(mapped, FUTEX_WAIT, *mapped, &soon);
    F(mapped, FUTEX_WAKE, 1);

    PART("robust lists");
    uint32_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int kind = 0; kind < 8; kind++) {
        shared[0] = shared[4] = 0;
        pid_t child = MUST(fork());
        if (child == 0) {
            static struct robust_list_head head;
            struct robust_list *first = (void *)(shared + 16), *second = (void *)(shared + 20);
            uint32_t tid = gettid();
            head.list.next = first;
            head.futex_offset = -64;
            first->next = &head.list;
            shared[0] = tid;
            if (kind == 1) shared[0] = tid | FUTEX_WAITERS;
            if (kind == 2) shared[0] = tid + 1;
            if (kind == 3) {
                head.list.next = &head.list;
                head.list_op_pending = first;
            }
            if (kind == 4) first->next = BAD;
            if (kind == 5) {
                first->next = second;
                second->next = &head.list;
                shared[4] = tid;
            }
            if (kind == 6) head.futex_offset = -63;
            if (kind == 7) first->next = first;
            syscall(SYS_set_robust_list, &head, sizeof head);
            _exit(0);
        }
        reap("child", child);
        printf("%d: %u %d, %u %d\n", kind, shared[0] >> 30, (shared[0] & FUTEX_TID_MASK) != 0, shared[4] >> 30, (shared[4] & FUTEX_TID_MASK) != 0);
    }
    return 0;
}

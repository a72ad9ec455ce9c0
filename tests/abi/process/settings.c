// Settings of a thread by prctl(2) that few programs use, and what else they change: PR_MCE_KILL, PR_SET_IO_FLUSHER,
// PR_TIMER_CREATE_RESTORE_IDS, slack of real-time threads, securebits of interpreters, speculation, PR_SET_PTRACER,
// personality(2), sched_setattr(2) without rights.
#include "check.h"
#include <grp.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define P(number, a, b, c, d) T(syscall(SYS_prctl, number, a, b, c, d))

enum { pr_timer_ids = 77 };

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void show_protection(const void *at) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long start = strtoul(line, NULL, 16), end = strtoul(strchr(line, '-') + 1, NULL, 16);
        if (start <= (uintptr_t)at && (uintptr_t)at < end) printf("%.4s\n", strchr(line, ' ') + 1);
    }
    fclose(maps);
}

static void without_capability(int capability) {
    struct {
        uint32_t version;
        int pid;
    } head = {0x20080522, 0};
    uint32_t data[6];
    MUST(syscall(SYS_capget, &head, data));
    data[capability / 32 * 3] &= ~(1u << capability % 32);
    data[capability / 32 * 3 + 1] &= ~(1u << capability % 32);
    MUST(syscall(SYS_capset, &head, data));
}

int main(void) {
    PART("failing memory");
    P(PR_MCE_KILL_GET, 0, 0, 0, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
    P(PR_MCE_KILL_GET, 0, 0, 0, 0);
    CHILD("a child", P(PR_MCE_KILL_GET, 0, 0, 0, 0));
    P(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0);
    P(PR_MCE_KILL_GET, 0, 0, 0, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_DEFAULT, 0, 0);
    P(PR_MCE_KILL_GET, 0, 0, 0, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0, 0, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 1, 0, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_SET, 3, 0, 0);
    P(PR_MCE_KILL, 2, 0, 0, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_SET, 1, 1, 0);
    P(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0, 0, 1);
    P(PR_MCE_KILL_GET, 1, 0, 0, 0);

    PART("flushers need CAP_SYS_RESOURCE");
    CHILD("a child", without_capability(24); P(PR_SET_IO_FLUSHER, 1, 0, 0, 0); P(PR_SET_IO_FLUSHER, 2, 0, 0, 0); P(PR_GET_IO_FLUSHER, 0, 0, 0, 0));

    PART("ids of timers");
    int id = -1;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    P(pr_timer_ids, 2, 0, 0, 0);
    P(pr_timer_ids, 1, 0, 0, 0);
    P(pr_timer_ids, 2, 0, 0, 0);
    P(pr_timer_ids, 3, 0, 0, 0);
    P(pr_timer_ids, 0, 1, 0, 0);
    id = 77;
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
    N(id);
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
    id = 3;
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
    id = -1;
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, BAD));
    T(syscall(SYS_timer_create, 99, &event, BAD));
    CHILD("a child", P(pr_timer_ids, 2, 0, 0, 0));
    P(pr_timer_ids, 0, 0, 0, 0);
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id));
    N(id);
    T(syscall(SYS_timer_delete, 77));
    T(syscall(SYS_timer_delete, 77));
    T(syscall(SYS_timer_delete, 3));

    PART("slack of a real-time thread");
    CHILD("a child", struct sched_param param = {1}; P(PR_SET_TIMERSLACK, 1234, 0, 0, 0); T(sched_setscheduler(0, SCHED_FIFO, &param));
          P(PR_GET_TIMERSLACK, 0, 0, 0, 0); P(PR_SET_TIMERSLACK, 99, 0, 0, 0); P(PR_GET_TIMERSLACK, 0, 0, 0, 0); param.sched_priority = 0;
          T(sched_setscheduler(0, SCHED_OTHER, &param)); P(PR_GET_TIMERSLACK, 0, 0, 0, 0));

    PART("interpreters");
    CHILD("a child", P(PR_SET_SECUREBITS, 0x100, 0, 0, 0); P(PR_GET_SECUREBITS, 0, 0, 0, 0); setgroups(0, NULL); setresuid(65534, 65534, 65534);
          P(PR_SET_SECUREBITS, 0x500, 0, 0, 0); P(PR_SET_SECUREBITS, 0x501, 0, 0, 0); P(PR_SET_SECUREBITS, 0x700, 0, 0, 0);
          P(PR_SET_SECUREBITS, 0x1000, 0, 0, 0); P(PR_GET_SECUREBITS, 0, 0, 0, 0));

    PART("others");
    P(PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, 0, 0, 0);
    P(PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, 99, 0, 0);
    P(PR_SET_SPECULATION_CTRL, 9, PR_SPEC_ENABLE, 0, 0);
    // Yama, which not all kernels have.
    CHILD("a child", syscall(SYS_prctl, PR_SET_PTRACER, 0, 0, 0, 0) == 0 || errno == EINVAL ? 0 : _exit(1));
    P(PR_SET_VMA, 1, 0, 0, 0);

    PART("reading is executing");
    CHILD("a child", personality(READ_IMPLIES_EXEC); char *first = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); show_protection(first);
          char *second = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); show_protection(second);
          T(mprotect(second, 4096, PROT_READ | PROT_WRITE)); show_protection(second);
          char *third = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); show_protection(third); char *heap = sbrk(0);
          heap = (char *)(((uintptr_t)heap + 4095) & ~4095ul) + 4096; syscall(SYS_brk, heap + 8192); show_protection(heap); personality(0);
          first = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); show_protection(first));

    PART("timeouts stay");
    CHILD("a child", personality(STICKY_TIMEOUTS); struct timeval time = {0, 10000}; T(syscall(SYS_select, 0, NULL, NULL, NULL, &time)); N(time.tv_usec);
          struct timespec more = {0, 10000000}; T(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &more, NULL)); N(more.tv_nsec);
          T(syscall(SYS_ppoll, NULL, 0, &more, NULL, 8)); N(more.tv_nsec); personality(0); T(syscall(SYS_ppoll, NULL, 0, &more, NULL, 8)); N(more.tv_nsec));

    PART("sched_setattr without rights");
    CHILD("a child", setresuid(65534, 65534, 65534); struct attributes attr = {48, SCHED_OTHER, 0, 5}; T(syscall(SYS_sched_setattr, 0, &attr, 0));
          attr.nice = -3; T(syscall(SYS_sched_setattr, 0, &attr, 0)); T(setpriority(PRIO_PROCESS, 0, -3)); attr.policy = SCHED_BATCH;
          T(syscall(SYS_sched_setattr, 0, &attr, 0)); attr = (struct attributes){48, SCHED_FIFO, 0, 0, 1}; T(syscall(SYS_sched_setattr, 0, &attr, 0)));
    return 0;
}

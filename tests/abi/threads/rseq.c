// Restartable sequences: registration, where the thread runs, critical sections that signals and other threads abort.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/rseq.h>

#define UNREGISTER 1
#define LENGTH 32
#define SIGNATURE RSEQ_SIG

struct section {
    uint32_t version, flags;
    uint64_t start, length, abort;
};

struct area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t section;
    uint32_t flags, node_id, mm_cid, rest;
} __attribute__((aligned(32)));

static struct area own, other;
static struct section section;

static long rseq(void *area, uint32_t length, int flags, uint32_t signature) { return syscall(SYS_rseq, area, length, flags, signature); }

static void *libc_area(void) { return (char *)__builtin_thread_pointer() + __rseq_offset; }

// Turns round until it is aborted, at most for `rounds`; whether it was.
static bool spin(struct area *area, uint64_t rounds) {
    bool aborted = false;
    asm volatile(
        "lea 1f(%%rip), %%rax\n\t"
        "mov %%rax, 8(%[section])\n\t"
        "lea 2f(%%rip), %%rcx\n\t"
        "sub %%rax, %%rcx\n\t"
        "mov %%rcx, 16(%[section])\n\t"
        "lea 4f(%%rip), %%rax\n\t"
        "mov %%rax, 24(%[section])\n\t"
        "mov %[section], 8(%[area])\n\t"
        "1: dec %[rounds]\n\t"
        "jnz 1b\n\t"
        "2: movq $0, 8(%[area])\n\t"
        "jmp 5f\n\t"
        ".byte 0x0f, 0xb9, 0x3d\n\t"
        ".long 0x53053053\n\t"
        "4: movb $1, %[aborted]\n\t"
        "5:\n\t"
        : [aborted] "+m"(aborted), [rounds] "+r"(rounds)
        : [section] "r"(&section), [area] "r"(area)
        : "rax", "rcx", "memory", "cc");
    return aborted;
}

static volatile uint64_t handler_rip;
static volatile int handled;

static void on_alarm(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    handler_rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    handled++;
}

static void registration(void) {
    PART("registration");
    T(rseq(libc_area(), LENGTH, 0, SIGNATURE));
    T(rseq(libc_area(), LENGTH, 0, 1));
    T(rseq(libc_area(), LENGTH + 32, 0, SIGNATURE));
    T(rseq(&own, LENGTH, 0, SIGNATURE));
    T(rseq(&own, LENGTH, UNREGISTER, SIGNATURE));
    T(rseq(libc_area(), LENGTH, UNREGISTER, 1));
    T(rseq(libc_area(), LENGTH, UNREGISTER | 2, SIGNATURE));
    T(rseq(libc_area(), LENGTH, UNREGISTER, SIGNATURE));
    N(((struct area *)libc_area())->cpu_id == (uint32_t)-1);
    T(rseq(libc_area(), LENGTH, UNREGISTER, SIGNATURE));
    T(rseq(&own, LENGTH, 2, SIGNATURE));
    T(rseq(&own, 16, 0, SIGNATURE));
    T(rseq((char *)&own + 8, LENGTH, 0, SIGNATURE));
    T(rseq((char *)&own + 8, LENGTH + 8, 0, SIGNATURE));
    T(rseq(KERNEL_ADDRESS, LENGTH, 0, SIGNATURE));
    own.cpu_id = 77;
    T(rseq(&own, LENGTH, 0, SIGNATURE));
    int cpu = sched_getcpu();
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    MUST(sched_setaffinity(0, sizeof here, &here));
    YES((int)own.cpu_id == cpu && (int)own.cpu_id_start == cpu);
    N(own.node_id);
    T(rseq(&other, LENGTH, 0, SIGNATURE));
    T(rseq(&own, LENGTH, 0, SIGNATURE));
}

static void *of_thread(void *nothing) {
    (void)nothing;
    struct area *mine = libc_area();
    YES(mine->cpu_id < CPU_SETSIZE && mine->cpu_id == mine->cpu_id_start);
    T(rseq(mine, LENGTH, 0, SIGNATURE));
    return NULL;
}

static void threads(void) {
    PART("a thread registers its own");
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, of_thread, NULL));
    pthread_join(thread, NULL);
}

static void inheritance(void) {
    PART("a forked child has it");
    fflush(stdout);
    CHILD("child", T(rseq(&own, LENGTH, 0, SIGNATURE)); YES((int)own.cpu_id == sched_getcpu()));
}

static void sections(void) {
    PART("undisturbed");
    bool ended = false;
    // The host may interrupt any of them, but not all.
    for (int i = 0; i < 1000 && !ended; i++) ended = !spin(&own, 10);
    N(ended);
    N(own.section);
    PART("a signal");
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = {.it_value = {0, 20000}};
    handled = 0;
    setitimer(ITIMER_REAL, &soon, NULL);
    int aborted = 0;
    while (!handled) aborted += spin(&own, 1ull << 40);
    YES(aborted > 0);
    N(own.section);
    YES(handler_rip == section.abort);
    PART("another thread on the same processor");
    pid_t busy = MUST(fork());
    if (busy == 0)
        for (;;) {}
    YES(spin(&own, 1ull << 40));
    N(own.section);
    kill(busy, SIGKILL);
    reap("busy", busy);
}

static void broken(void) {
    PART("sections that are not well described");
    no_core_files();
    static struct section bad[] = {
        {1, 0, 0x1000, 16, 0x2000},
        {0, 0, 0x1000, 16, 0x1008},
        {0, 0, ~0ull - 8, 16, 0x2000},
        {0, 0, 0x1000, 16, ~0ull - 8},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
            sigaction(SIGALRM, &action, NULL);
            *(volatile uint64_t *)&own.section = (uint64_t)&bad[i];
            raise(SIGALRM);
            _exit(0);
        }
        reap("child", child);
    }
    CHILD("wrong signature", {
        uint32_t code[8] = {0};
        static struct section far;
        far = (struct section){0, 0, 0x10000, 16, (uint64_t)&code[4]};
        struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
        sigaction(SIGALRM, &action, NULL);
        *(volatile uint64_t *)&own.section = (uint64_t)&far;
        raise(SIGALRM);
    });
    CHILD("elsewhere", {
        uint32_t code[8] = {[3] = SIGNATURE};
        static struct section far;
        far = (struct section){0, 0, 0x10000, 16, (uint64_t)&code[4]};
        struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
        sigaction(SIGALRM, &action, NULL);
        *(volatile uint64_t *)&own.section = (uint64_t)&far;
        raise(SIGALRM);
        N(own.section);
    });
}

static void barriers(void) {
    PART("barriers");
    T(syscall(SYS_membarrier, 1 << 7, 0));
    T(syscall(SYS_membarrier, 1 << 8, 0));
    T(syscall(SYS_membarrier, 1 << 7, 0));
    T(syscall(SYS_membarrier, 1 << 7, 1));
    T(syscall(SYS_membarrier, 1 << 7, 2));
    T(syscall(SYS_membarrier, 1 << 8, 1));
}

int main(void) {
    threads();
    registration();
    inheritance();
    sections();
    broken();
    barriers();
    return 0;
}

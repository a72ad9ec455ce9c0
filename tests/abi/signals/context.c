// A handler sees and may change the interrupted registers; everything else comes back unharmed.
#include "check.h"
#include <ucontext.h>

static volatile int count;

static void change(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *u = context;
    u->uc_mcontext.gregs[REG_RIP] += 2;
    u->uc_mcontext.gregs[REG_RAX] = 4711;
}
static void spoil(int number) {
    (void)number;
    count++;
    // Spoils every register that a handler may spoil.
    asm volatile("pxor %%xmm0, %%xmm0; pcmpeqd %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2; pcmpeqd %%xmm3, %%xmm3;"
                 "pxor %%xmm7, %%xmm7; pxor %%xmm15, %%xmm15; fninit; fldz"
                 : : : "xmm0", "xmm1", "xmm2", "xmm3", "xmm7", "xmm15", "st", "memory");
    asm volatile("fninit");
}
static void mask(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *u = context;
    sigaddset(&u->uc_sigmask, SIGUSR2);
}

int main(void) {
    sigaction(SIGILL, &(struct sigaction){.sa_sigaction = change, .sa_flags = SA_SIGINFO}, NULL);
    long value;
    asm volatile("xor %%eax, %%eax; ud2; nop" : "=a"(value));
    N(value);
    PART("registers under a storm of signals");
    signal(SIGALRM, spoil);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    long long end = now_ms() + 300;
    int wrong = 0;
    while (now_ms() < end) {
        unsigned long in[2] __attribute__((aligned(16))) = {0x1111222233334444, 0x5555666677778888}, out[2] __attribute__((aligned(16)));
        unsigned long flags_in = 0, r12 = 0x12, rbx = 0xb, r15 = 0xf;
        double pi = 3.25, st = 0;
        asm volatile("movaps (%4), %%xmm0; movaps %%xmm0, %%xmm1; movaps %%xmm0, %%xmm7; movaps %%xmm0, %%xmm15;"
                     "fldl %5; stc;"
                     "mov $200000, %%ecx;"
                     "1: lea -1(%%rcx), %%rcx; jrcxz 2f; jmp 1b; 2:"
                     "setc %b0;"
                     "pxor %%xmm1, %%xmm0; pxor %%xmm1, %%xmm7; pxor %%xmm1, %%xmm15; por %%xmm7, %%xmm0; por %%xmm15, %%xmm0;"
                     "movaps %%xmm0, (%6); fstpl %7;"
                     : "+r"(flags_in), "+r"(r12), "+b"(rbx), "+r"(r15)
                     : "r"(in), "m"(pi), "r"(out), "m"(st)
                     : "rcx", "cc", "memory", "xmm0", "xmm1", "xmm7", "xmm15");
        wrong += out[0] || out[1] || st != 3.25 || r12 != 0x12 || rbx != 0xb || r15 != 0xf || (flags_in & 1) != 1;
    }
    N(wrong);
    YES(count > 10);
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    PART("the mask of the context");
    sigaction(SIGUSR1, &(struct sigaction){.sa_sigaction = mask, .sa_flags = SA_SIGINFO}, NULL);
    raise(SIGUSR1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    N(sigismember(&now, SIGUSR2));
    N(sigismember(&now, SIGUSR1));
    PART("errno and results survive");
    signal(SIGUSR1, spoil);
    for (int i = 0; i < 3; i++) N(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1));
    PART("swapcontext");
    static ucontext_t first, second;
    static char stack[65536];
    getcontext(&second);
    second.uc_stack.ss_sp = stack;
    second.uc_stack.ss_size = sizeof stack;
    second.uc_link = &first;
    makecontext(&second, (void (*)(void))puts, 1, "in the other context");
    swapcontext(&first, &second);
    puts("back");
    return 0;
}

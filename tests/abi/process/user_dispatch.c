// Calls that the program handles itself: PR_SET_SYSCALL_USER_DISPATCH of prctl(2).
#include "check.h"
#include <sys/prctl.h>
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { OFF, ON };
enum { ALLOW, BLOCK };

static volatile char selector;

// A call from a place of its own, and one from elsewhere.
__asm__(".text\n"
        "inside: mov %rdi, %rax\n xor %rdi, %rdi\n syscall\n ret\n"
        "inside_end:\n"
        "outside: mov %rdi, %rax\n mov $11, %rdi\n syscall\n"
        "outside_place: ret\n");
extern long inside(long number), outside(long number);
extern char inside_end[], outside_place[];

static volatile int caught, number, code, error, arch, here;

static void on_call(int signal, siginfo_t *info, void *context) {
    selector = ALLOW;
    ucontext_t *uc = context;
    (void)signal;
    caught++;
    number = info->si_syscall, code = info->si_code, error = info->si_errno, arch = info->si_arch == 0xc000003e;
    here = info->si_call_addr == outside_place && uc->uc_mcontext.gregs[REG_RIP] == (long)outside_place;
    here += 2 * (uc->uc_mcontext.gregs[REG_RAX] == number && uc->uc_mcontext.gregs[REG_RDI] == 11);
    uc->uc_mcontext.gregs[REG_RAX] = 4711;
}

static long set(long mode, const void *start, unsigned long len, const volatile void *at) {
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, len, at);
}

static void blocked(long which) {
    selector = BLOCK;
    long result = outside(which);
    selector = ALLOW;
    printf("%ld, caught %d: call %d, code %d, errno %d, x86-64 %d, registers %d\n", result, caught, number, code, error, arch, here);
}

int main(void) {
    no_core_files();
    PART("arguments");
    T(set(OFF, NULL, 0, NULL));
    T(set(OFF, NULL, 0, &selector));
    T(set(OFF, NULL, 1, NULL));
    T(set(100, NULL, 0, NULL));
    T(set(ON, inside, 0, &selector));
    T(set(ON, inside, -1UL, &selector));
    T(set(ON, NULL, 0, KERNEL_ADDRESS));

    PART("calls");
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGSYS, &action, NULL));
    unsigned long len = inside_end - (char *)inside;
    T(set(ON, inside, len, &selector));
    YES(outside(SYS_getppid) == getppid());
    blocked(SYS_getppid);
    for (int i = 0; i < 200; i++) {
        selector = BLOCK;
        outside(SYS_getuid);
    }
    blocked(100000);
    blocked(-1);

    PART("from the range");
    selector = BLOCK;
    long parent = inside(SYS_getppid);
    selector = ALLOW;
    YES(parent == getppid());

    PART("a child");
    selector = BLOCK;
    long child = inside(SYS_fork);
    if (child == 0) {
        YES(outside(SYS_getuid) == getuid());
        _exit(0);
    }
    selector = ALLOW;
    reap("child", child);
    blocked(SYS_getuid);

    PART("ends");
    CHILD("other value", set(ON, inside, len, &selector); selector = 5; outside(SYS_getpid));
    CHILD("bad selector", set(ON, inside, len, BAD); outside(SYS_getpid));
    CHILD("no handler", signal(SIGSYS, SIG_DFL); set(ON, inside, len, &selector); selector = BLOCK; outside(SYS_getpid));
    CHILD("ignored", signal(SIGSYS, SIG_IGN); set(ON, inside, len, &selector); selector = BLOCK; outside(SYS_getpid));

    PART("off");
    T(set(OFF, NULL, 0, NULL));
    selector = BLOCK;
    YES(outside(SYS_getppid) == getppid());
    return 0;
}

// sigaction: flags, masks during handlers, nesting, resetting.
#include "check.h"

static int count, depth, deepest, total;
static sigset_t inside;

static void count_it(int number) {
    (void)number;
    count++;
}
static void mask_it(int number) {
    (void)number;
    sigprocmask(SIG_BLOCK, NULL, &inside);
}
static void nest(int number) {
    depth++;
    if (depth > deepest) deepest = depth;
    if (depth < 5 && ++total < 10) raise(number);
    depth--;
}
static void report(int number, siginfo_t *info, void *context) {
    (void)context;
    printf("SIG%s code %d from %s value %d\n", signal_name(number), info->si_code,
           info->si_pid == getpid() ? "self" : info->si_pid == 0 ? "kernel" : "another", info->si_value.sival_int);
}
static void show_mask(void) {
    for (int i = 1; i < 32; i++)
        if (sigismember(&inside, i)) printf(" SIG%s", signal_name(i));
    puts("");
}
static void set(int number, void *handler, int flags, int masked) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (masked) sigaddset(&action.sa_mask, masked);
    MUST(sigaction(number, &action, NULL));
}

int main(void) {
    sigset_t blocked;
    PART("counting");
    set(SIGUSR1, count_it, 0, 0);
    for (int i = 0; i < 10; i++) raise(SIGUSR1);
    N(count);
    PART("masks");
    set(SIGUSR1, mask_it, 0, SIGTERM);
    raise(SIGUSR1);
    show_mask();
    set(SIGUSR1, mask_it, SA_NODEFER, SIGHUP);
    raise(SIGUSR1);
    show_mask();
    sigprocmask(SIG_BLOCK, NULL, &inside);
    show_mask();
    PART("nesting");
    set(SIGUSR1, nest, 0, 0);
    raise(SIGUSR1);
    N(deepest);
    deepest = total = 0;
    set(SIGUSR1, nest, SA_NODEFER, 0);
    raise(SIGUSR1);
    N(deepest);
    PART("reset");
    count = 0;
    set(SIGUSR2, count_it, SA_RESETHAND, 0);
    raise(SIGUSR2);
    struct sigaction action;
    sigaction(SIGUSR2, NULL, &action);
    YES(count == 1 && action.sa_handler == SIG_DFL);
    CHILD("second time", { set(SIGUSR2, count_it, SA_RESETHAND, 0); raise(SIGUSR2); raise(SIGUSR2); });
    PART("blocked and pending");
    count = 0;
    set(SIGUSR1, count_it, 0, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    T(sigprocmask(SIG_BLOCK, &blocked, NULL));
    raise(SIGUSR1);
    raise(SIGUSR1);
    N(count);
    sigpending(&inside);
    show_mask();
    T(sigprocmask(SIG_UNBLOCK, &blocked, NULL));
    N(count);
    sigpending(&inside);
    show_mask();
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    sigpending(&inside);
    show_mask();
    set(SIGUSR1, count_it, 0, 0);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    N(count);
    sigfillset(&blocked);
    T(sigprocmask(SIG_SETMASK, &blocked, NULL));
    sigprocmask(SIG_BLOCK, NULL, &inside);
    N(sigismember(&inside, SIGKILL) + sigismember(&inside, SIGSTOP));
    sigemptyset(&blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    PART("siginfo");
    set(SIGUSR1, report, SA_SIGINFO, 0);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    T(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42}));
    CHILD("child", kill(getppid(), SIGUSR1));
    PART("errors");
    T(syscall(SYS_rt_sigaction, 0, NULL, NULL, 8));
    T(syscall(SYS_rt_sigaction, 65, NULL, NULL, 8));
    T(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4));
    T(sigaction(SIGKILL, &(struct sigaction){.sa_handler = count_it}, NULL));
    T(sigaction(SIGSTOP, &(struct sigaction){.sa_handler = SIG_IGN}, NULL));
    T(sigaction(SIGKILL, NULL, &action));
    T(syscall(SYS_rt_sigprocmask, 7, &blocked, NULL, 8));
    T(syscall(SYS_rt_sigprocmask, 7, NULL, NULL, 8));
    T(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, NULL, 16));
    T(syscall(SYS_rt_sigpending, &blocked, 16));
    PART("read back");
    set(SIGTERM, count_it, SA_RESTART | SA_NODEFER, SIGHUP);
    sigaction(SIGTERM, NULL, &action);
    YES(action.sa_handler == count_it);
    printf("%#x %d %d\n", action.sa_flags & ~0x4000000, sigismember(&action.sa_mask, SIGHUP), sigismember(&action.sa_mask, SIGTERM));
    PART("inherited by fork, in which nothing is pending");
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGUSR2, SIG_DFL);
    raise(SIGUSR2);
    CHILD("child", {
        sigaction(SIGTERM, NULL, &action);
        YES(action.sa_handler == count_it);
        sigpending(&inside);
        show_mask();
        sigprocmask(SIG_BLOCK, NULL, &inside);
        show_mask();
    });
    return 0;
}

// Real-time signals queue in order; sigwaitinfo and sigtimedwait; which signal comes first.
#include "check.h"

static char order[64];
static int at;
static void note(int number) { order[at++] = number == SIGUSR1 ? '1' : number == SIGUSR2 ? '2' : 'a' + number - SIGRTMIN; }
static void value(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    order[at++] = '0' + info->si_value.sival_int;
}

int main(void) {
    sigset_t set, none;
    siginfo_t info;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGRTMIN + 1);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    PART("values in order");
    sigaction(SIGRTMIN, &(struct sigaction){.sa_sigaction = value, .sa_flags = SA_SIGINFO}, NULL);
    for (int i = 0; i < 5; i++) T(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}));
    sigprocmask(SIG_SETMASK, &none, NULL);
    puts(order);
    PART("an ordinary signal is kept once");
    sigprocmask(SIG_BLOCK, &set, NULL);
    memset(order, 0, sizeof order);
    at = 0;
    sigaction(SIGUSR1, &(struct sigaction){.sa_sigaction = value, .sa_flags = SA_SIGINFO}, NULL);
    for (int i = 3; i < 6; i++) sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = i});
    sigprocmask(SIG_SETMASK, &none, NULL);
    puts(order);
    PART("order of delivery");
    sigprocmask(SIG_BLOCK, &set, NULL);
    memset(order, 0, sizeof order);
    at = 0;
    struct sigaction action = {.sa_handler = note, .sa_mask = set};
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGRTMIN + 1, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGRTMIN + 1);
    raise(SIGUSR2);
    raise(SIGRTMIN);
    raise(SIGUSR1);
    raise(SIGRTMIN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    puts(order);
    PART("waiting for signals");
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct timespec zero = {0, 0}, little = {0, 20000000}, bad = {0, 1000000000};
    T(sigtimedwait(&set, &info, &zero));
    T(sigtimedwait(&set, &info, &little));
    T(sigtimedwait(&set, &info, &bad));
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 9});
    N(sigtimedwait(&set, &info, &little) == SIGRTMIN);
    printf("code %d value %d\n", info.si_code, info.si_value.sival_int);
    raise(SIGUSR2);
    raise(SIGUSR1);
    printf("SIG%s ", signal_name(sigwaitinfo(&set, &info)));
    printf("SIG%s\n", signal_name(sigwaitinfo(&set, NULL)));
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(30);
        kill(getppid(), SIGUSR1);
        _exit(0);
    }
    printf("SIG%s", signal_name(sigwaitinfo(&set, &info)));
    printf(" from the child: %s\n", info.si_pid == child ? "yes" : "no");
    reap("child", child);
    T(syscall(SYS_rt_sigtimedwait, &set, NULL, &zero, 4));
    T(syscall(SYS_rt_sigtimedwait, BAD, NULL, &zero, 8));
    PART("interrupted by another signal");
    signal(SIGALRM, note);
    alarm(1);
    T(sigwaitinfo(&set, &info));
    PART("sigqueue errors");
    T(sigqueue(getpid(), 65, (union sigval){0}));
    T(sigqueue(999999, SIGUSR1, (union sigval){0}));
    info.si_code = SI_USER;
    info.si_signo = SIGUSR1;
    T(syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &info));
    info.si_code = -50;
    info.si_value.sival_int = 8;
    T(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &info));
    memset(&info, 0, sizeof info);
    sigwaitinfo(&set, &info);
    printf("code %d value %d\n", info.si_code, info.si_value.sival_int);
    T(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR2, &info));
    printf("SIG%s\n", signal_name(sigwaitinfo(&set, &info)));
    return 0;
}

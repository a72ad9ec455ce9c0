// SIGCHLD: when it comes and what it tells; SA_NOCLDSTOP and SA_NOCLDWAIT.
#include "check.h"

static volatile int count;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    count++;
    const char *codes[] = {"?", "EXITED", "KILLED", "DUMPED", "TRAPPED", "STOPPED", "CONTINUED"};
    printf("SIGCHLD %s status %d\n", codes[info->si_code], info->si_status);
}
static void wait_count(int wanted) {
    for (int i = 0; i < 2000 && count < wanted; i++) sleep_ms(1);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGCHLD, &action, NULL);
    no_core_files();
    pid_t child = MUST(fork());
    if (child == 0) _exit(7);
    wait_count(1);
    reap("child", child);
    child = MUST(fork());
    if (child == 0) raise(SIGTERM);
    wait_count(2);
    reap("child", child);
    PART("stopped and continued");
    child = MUST(fork());
    if (child == 0) {
        raise(SIGSTOP);
        sleep_ms(100);
        raise(SIGSTOP);
        _exit(0);
    }
    wait_count(3);
    kill(child, SIGCONT);
    wait_count(5);
    kill(child, SIGKILL);
    wait_count(6);
    reap("child", child);
    PART("SA_NOCLDSTOP");
    action.sa_flags |= SA_NOCLDSTOP;
    sigaction(SIGCHLD, &action, NULL);
    count = 0;
    child = MUST(fork());
    if (child == 0) {
        raise(SIGSTOP);
        _exit(3);
    }
    waitpid(child, NULL, WUNTRACED);
    N(count);
    kill(child, SIGCONT);
    wait_count(1);
    reap("child", child);
    PART("SA_NOCLDWAIT");
    action.sa_flags |= SA_NOCLDWAIT;
    sigaction(SIGCHLD, &action, NULL);
    count = 0;
    child = MUST(fork());
    if (child == 0) _exit(4);
    while (waitpid(child, NULL, 0) == -1 && errno == EINTR) {}
    puts(check_error(errno));
    wait_count(1);
    N(count);
    PART("a blocked SIGCHLD tells of one child");
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGCHLD, &action, NULL);
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 3; i++)
        if (MUST(fork()) == 0) _exit(5);
    while (wait(NULL) > 0) {}
    sigpending(&pending);
    N(sigismember(&pending, SIGCHLD));
    count = 0;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    N(count);
    return 0;
}

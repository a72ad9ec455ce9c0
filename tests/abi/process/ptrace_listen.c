// PTRACE_LISTEN: a seized process that stands still with its group tells of SIGCONT, also of one that came before its tracer
// listened, as strace(1) sends one.
#include "check.h"
#include <sys/ptrace.h>

static void wait_and_show(pid_t child, const char *what) {
    int status;
    pid_t got = waitpid(child, &status, __WALL);
    if (got < 0)
        printf("%s: %s\n", what, check_error(errno));
    else if (WIFSTOPPED(status))
        printf("%s: stopped by SIG%s, event %d\n", what, signal_name(WSTOPSIG(status)), status >> 16);
    else
        show_status(what, status);
}

static pid_t stopped_child(void) {
    pid_t child = MUST(fork());
    if (child == 0) {
        raise(SIGSTOP);
        _exit(7);
    }
    int status;
    MUST(waitpid(child, &status, WUNTRACED));
    show_status("child", status);
    return child;
}

int main(void) {
    no_core_files();
    PART("SIGCONT before the tracer listens");
    for (int i = 0; i < 5; i++) {
        pid_t child = stopped_child();
        T(ptrace(PTRACE_SEIZE, child, 0, 0));
        wait_and_show(child, "seized");
        T(kill(child, SIGCONT));
        T(ptrace(PTRACE_LISTEN, child, 0, 0));
        wait_and_show(child, "listens");
        T(ptrace(PTRACE_CONT, child, 0, 0));
        wait_and_show(child, "continued");
        T(ptrace(PTRACE_LISTEN, child, 0, 0));
        T(ptrace(PTRACE_CONT, child, 0, SIGCONT));
        wait_and_show(child, "end");
    }
    PART("SIGCONT while it listens");
    pid_t child = stopped_child();
    T(ptrace(PTRACE_SEIZE, child, 0, 0));
    wait_and_show(child, "seized");
    T(ptrace(PTRACE_LISTEN, child, 0, 0));
    sleep_ms(30);
    T(waitpid(child, NULL, WNOHANG | __WALL));
    T(kill(child, SIGCONT));
    wait_and_show(child, "listens");
    T(ptrace(PTRACE_CONT, child, 0, 0));
    wait_and_show(child, "continued");
    T(ptrace(PTRACE_CONT, child, 0, 0));
    wait_and_show(child, "end");
    PART("an interrupted thread");
    child = MUST(fork());
    if (child == 0) {
        for (;;) pause();
    }
    sleep_ms(30);
    T(ptrace(PTRACE_LISTEN, child, 0, 0));
    T(ptrace(PTRACE_SEIZE, child, 0, 0));
    T(ptrace(PTRACE_LISTEN, child, 0, 0));
    T(ptrace(PTRACE_INTERRUPT, child, 0, 0));
    wait_and_show(child, "interrupted");
    T(kill(child, SIGKILL));
    wait_and_show(child, "end");
    return 0;
}

// The default action of every signal.
#include "check.h"

int main(void) {
    no_core_files();
    for (int number = 1; number < 65; number++) {
        if (number == 32 || number == 33) continue;
        pid_t child = MUST(fork());
        if (child == 0) {
            // Its group is not an orphan: the parent is in another group of the session.
            setpgid(0, 0);
            signal(number, SIG_DFL);
            kill(getpid(), number);
            _exit(77);
        }
        int status;
        waitpid(child, &status, WUNTRACED);
        char what[16];
        sprintf(what, "%d", number);
        show_status(what, status);
        if (WIFSTOPPED(status)) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
    }
    PART("ignored");
    for (int number = 1; number < 32; number++) {
        errno = 0;
        void (*old)(int) = signal(number, SIG_IGN);
        if (old == SIG_ERR) {
            printf("%d: %s\n", number, check_error(errno));
            continue;
        }
        if (number != SIGCHLD) raise(number);
        signal(number, SIG_DFL);
    }
    puts("alive");
    PART("errors of kill");
    T(kill(getpid(), 65));
    T(kill(getpid(), -1));
    T(kill(getpid(), 0));
    T(kill(999999, SIGTERM));
    T(kill(-999999, SIGTERM));
    T(kill(INT_MIN, 0));
    T(syscall(SYS_tgkill, getpid(), 999999, 0));
    T(syscall(SYS_tgkill, -1, getpid(), 0));
    T(syscall(SYS_tgkill, getpid(), getpid(), 0));
    T(syscall(SYS_tgkill, 999999, getpid(), 0));
    T(syscall(SYS_tkill, 0, 0));
    T(syscall(SYS_tkill, getpid(), 65));
    return 0;
}

// Signals for processes that are stopped: they wait for SIGCONT, but for SIGKILL.
#include "check.h"

static int stopped_child(void) {
    int pid = MUST(fork());
    if (pid == 0) {
        raise(SIGSTOP);
        pause();
        _exit(3);
    }
    MUST(waitpid(pid, NULL, WUNTRACED));
    return pid;
}

static void ends(int pid) {
    int status = 0;
    YES(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) printf("signal %d\n", WTERMSIG(status));
    if (WIFEXITED(status)) printf("status %d\n", WEXITSTATUS(status));
}

int main(void) {
    int status;
    PART("SIGTERM waits");
    int pid = stopped_child();
    T(kill(pid, SIGTERM));
    usleep(50000);
    T(waitpid(pid, &status, WNOHANG));
    T(kill(pid, SIGCONT));
    ends(pid);

    PART("SIGKILL does not");
    pid = stopped_child();
    T(kill(pid, SIGTERM));
    T(kill(pid, SIGKILL));
    ends(pid);

    PART("real-time signals and SIGSEGV wait");
    int kinds[] = {SIGRTMIN + 1, SIGSEGV};
    for (int i = 0; i < 2; i++) {
        pid = stopped_child();
        T(kill(pid, kinds[i]));
        usleep(50000);
        T(waitpid(pid, &status, WNOHANG));
        T(kill(pid, SIGCONT));
        YES(waitpid(pid, &status, 0) == pid);
        YES(WIFSIGNALED(status) && WTERMSIG(status) == kinds[i]);
    }
    return 0;
}

// Orphans find a new parent; a subreaper adopts its descendants; the parent's death can be signalled.
#include "check.h"
#include <sys/prctl.h>

int main(void) {
    int pipes[2], status;
    char line[64] = {0};
    MUST(pipe(pipes));
    PART("adopted by the subreaper");
    T(prctl(PR_SET_CHILD_SUBREAPER, 1));
    int flag = 0;
    T(prctl(PR_GET_CHILD_SUBREAPER, &flag));
    N(flag);
    pid_t self = getpid();
    pid_t child = MUST(fork());
    if (child == 0) {
        if (fork() == 0) {
            pid_t parent = getppid();
            while (getppid() == parent && parent != self) sleep_ms(1);
            dprintf(pipes[1], "%s", getppid() == self ? "adopted" : "elsewhere");
            _exit(44);
        }
        _exit(0);
    }
    reap("child", child);
    read(pipes[0], line, sizeof line);
    puts(line);
    YES(wait(&status) > 0);
    show_status("grandchild", status);
    T(wait(&status));
    PART("zombies are handed on too");
    child = MUST(fork());
    if (child == 0) {
        if (fork() == 0) _exit(45);
        sleep_ms(30);
        _exit(0);
    }
    reap("child", child);
    YES(wait(&status) > 0);
    show_status("grandchild", status);
    PART("the parent's death");
    T(prctl(PR_SET_PDEATHSIG, 100));
    int signal_number = -1;
    T(prctl(PR_GET_PDEATHSIG, &signal_number));
    N(signal_number);
    child = MUST(fork());
    if (child == 0) {
        int ready[2];
        MUST(pipe(ready));
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            write(ready[1], "x", 1);
            sleep_ms(5000);
            _exit(0);
        }
        read(ready[0], &(char){0}, 1);
        _exit(0);
    }
    reap("child", child);
    YES(wait(&status) > 0);
    show_status("grandchild", status);
    PART("daemon");
    child = MUST(fork());
    if (child == 0) {
        setsid();
        if (fork()) _exit(0);
        chdir("/");
        memset(line, 0, sizeof line);
        dprintf(pipes[1], "daemon leads its session: %s", getsid(0) == getpid() ? "yes" : "no");
        _exit(0);
    }
    reap("child", child);
    wait(&status);
    memset(line, 0, sizeof line);
    read(pipes[0], line, sizeof line);
    puts(line);
    return 0;
}

// Process ids, parents, groups and sessions.
#include "check.h"

int main(void) {
    int status, pipes[2];
    pid_t self = getpid();
    YES(self > 0);
    YES(syscall(SYS_gettid) == self);
    YES(getpid() == syscall(SYS_getpid));
    CHILD("child", {
        YES(getppid() == self);
        YES(getpid() != self);
        YES(getpgrp() == getpgid(self));
        YES(getsid(0) == getsid(self));
    });
    PART("errors");
    T(getpgid(999999));
    T(getpgid(-1));
    T(getsid(999999));
    T(setpgid(-1, 0));
    T(setpgid(0, -1));
    T(setpgid(999999, 0));
    T(setpgid(0, 999999));
    T(setpgid(getppid(), 0));
    PART("groups");
    CHILD("child", {
        T(setpgid(0, 0));
        YES(getpgrp() == getpid());
        T(setpgid(0, 0));
        T(setsid());
    });
    pid_t child = MUST(fork());
    if (child == 0) { pause(); _exit(0); }
    T(setpgid(child, child));
    YES(getpgid(child) == child);
    pid_t other = MUST(fork());
    if (other == 0) { pause(); _exit(0); }
    T(setpgid(other, child));
    YES(getpgid(other) == child);
    T(kill(-child, SIGTERM));
    reap("first", child);
    reap("second", other);
    T(kill(-child, 0));
    PART("sessions");
    CHILD("child", {
        YES(setsid() == getpid());
        YES(getsid(0) == getpid() && getpgrp() == getpid());
        T(setsid());
        T(setpgid(0, 0));
        T(open("/dev/tty", O_RDWR));
    });
    MUST(pipe(pipes));
    child = MUST(fork());
    if (child == 0) {
        setsid();
        write(pipes[1], "x", 1);
        pause();
    }
    read(pipes[0], &(char){0}, 1);
    T(setpgid(child, getpgrp()));
    YES(getsid(child) == child);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    PART("setpgid after exec");
    MUST(pipe2(pipes, O_CLOEXEC));
    child = MUST(fork());
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exec sleep 5", NULL);
        _exit(1);
    }
    close(pipes[1]);
    read(pipes[0], &(char){0}, 1);
    T(setpgid(child, child));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    PART("numbers grow");
    child = MUST(fork());
    if (child == 0) _exit(0);
    waitpid(child, &status, 0);
    other = MUST(fork());
    if (other == 0) _exit(0);
    waitpid(other, &status, 0);
    YES(other != child);
    return 0;
}

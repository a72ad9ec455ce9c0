// fork, exit statuses and the wait family.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    int status;
    siginfo_t info;
    no_core_files();
    PART("statuses");
    CHILD("0", _exit(0));
    CHILD("42", _exit(42));
    CHILD("256", _exit(256));
    CHILD("-1", _exit(-1));
    CHILD("exit_group", syscall(SYS_exit_group, 7));
    CHILD("exit", syscall(SYS_exit, 8));
    CHILD("abort", abort());
    CHILD("kill", kill(getpid(), SIGKILL));
    CHILD("term", raise(SIGTERM));
    PART("no children");
    T(wait(&status));
    T(waitpid(-1, &status, WNOHANG));
    T(waitpid(1, &status, 0));
    T(waitpid(getpid(), &status, 0));
    T(waitpid(-1, &status, 0x100));
    T(waitid(P_ALL, 0, &info, WEXITED));
    T(waitid(P_ALL, 0, &info, 0));
    T(waitid(99, 0, &info, WEXITED));
    T(waitid(P_PID, 0, &info, WEXITED));
    T(waitid(P_ALL, 0, &info, WEXITED | 0x100));
    T(syscall(SYS_wait4, INT_MIN, NULL, 0, NULL));
    PART("WNOHANG");
    int pipes[2];
    MUST(pipe(pipes));
    pid_t child = MUST(fork());
    if (child == 0) {
        char byte;
        read(pipes[0], &byte, 1);
        _exit(5);
    }
    T(waitpid(child, &status, WNOHANG));
    memset(&info, 1, sizeof info);
    T(waitid(P_PID, child, &info, WEXITED | WNOHANG));
    N(info.si_pid);
    write(pipes[1], "x", 1);
    YES(waitpid(child, &status, 0) == child);
    show_status("child", status);
    T(waitpid(child, &status, 0));
    PART("waitid");
    child = MUST(fork());
    if (child == 0) _exit(9);
    T(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    printf("signo %s code %d status %d own child %d\n", signal_name(info.si_signo), info.si_code, info.si_status, info.si_pid == child);
    T(waitid(P_PID, child, &info, WEXITED));
    T(waitid(P_PID, child, &info, WEXITED));
    child = MUST(fork());
    if (child == 0) raise(SIGKILL);
    T(waitid(P_ALL, 0, &info, WEXITED));
    printf("code %d status %d\n", info.si_code, info.si_status);
    T(waitid(P_PID, getpid(), NULL, WEXITED));
    PART("stop and continue");
    child = MUST(fork());
    if (child == 0) {
        raise(SIGSTOP);
        sleep_ms(100); // the parent sees it continued before it ends
        _exit(11);
    }
    YES(waitpid(child, &status, WUNTRACED) == child);
    show_status("child", status);
    T(waitpid(child, &status, WUNTRACED | WNOHANG));
    kill(child, SIGCONT);
    YES(waitpid(child, &status, WCONTINUED) == child);
    show_status("child", status);
    reap("child", child);
    child = MUST(fork());
    if (child == 0) {
        setpgid(0, 0);
        raise(SIGTSTP);
        _exit(12);
    }
    T(waitid(P_PID, child, &info, WSTOPPED));
    printf("code %d status SIG%s\n", info.si_code, signal_name(info.si_status));
    kill(child, SIGKILL);
    reap("child", child);
    PART("groups");
    child = MUST(fork());
    if (child == 0) {
        setpgid(0, 0);
        _exit(3);
    }
    setpgid(child, child);
    T(waitpid(0, &status, 0));
    YES(waitpid(-child, &status, 0) == child);
    show_status("child", status);
    PART("any order");
    pid_t first = MUST(fork());
    if (first == 0) {
        char byte;
        read(pipes[0], &byte, 1);
        _exit(1);
    }
    pid_t second = MUST(fork());
    if (second == 0) _exit(2);
    YES(wait(&status) == second);
    write(pipes[1], "x", 1);
    YES(wait(&status) == first);
    PART("resource usage");
    child = MUST(fork());
    if (child == 0) _exit(0);
    struct rusage usage;
    memset(&usage, 1, sizeof usage);
    YES(wait4(child, &status, 0, &usage) == child);
    YES(usage.ru_utime.tv_sec < 10);
    PART("SIGCHLD ignored");
    signal(SIGCHLD, SIG_IGN);
    child = MUST(fork());
    if (child == 0) _exit(1);
    T(waitpid(child, &status, 0));
    signal(SIGCHLD, SIG_DFL);
    PART("exit handlers and buffers");
    fflush(stdout);
    child = MUST(fork());
    if (child == 0) {
        setvbuf(stdout, NULL, _IOFBF, 4096);
        printf("flushed by exit\n");
        exit(0);
    }
    reap("child", child);
    PART("a hundred at once");
    for (int i = 0; i < 100; i++)
        if (MUST(fork()) == 0) _exit(i);
    int sum = 0, count = 0;
    while (wait(&status) > 0) {
        sum += WEXITSTATUS(status);
        count++;
    }
    printf("%d %d\n", count, sum);
    return 0;
}

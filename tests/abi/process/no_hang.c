// Calls that once waited where Linux answers, and calls that fail late and leave nothing behind.
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int lowest(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

static pid_t stopped_child(void) {
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(7);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    return child;
}

static void attach_stopped(void) {
    int status = 0;
    pid_t child = stopped_child();
    T(ptrace(PTRACE_ATTACH, child, 0, 0));
    YES(waitpid(child, &status, 0) == child);
    N(status);
    T(ptrace(PTRACE_DETACH, child, 0, 0));
    kill(child, SIGCONT);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);

    child = stopped_child();
    T(ptrace(PTRACE_SEIZE, child, 0, 0));
    YES(waitpid(child, &status, 0) == child);
    N(status);
    T(ptrace(PTRACE_CONT, child, 0, 0));
    YES(waitpid(child, &status, 0) == child);
    N(status);
}

static int told[2];
static void *forks(void *argument) {
    (void)argument;
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR1);
        write(told[1], "r", 1);
        struct timespec most = {5, 0};
        _exit(sigtimedwait(&one, 0, &most) == SIGUSR1 ? 3 : 4);
    }
    char ready;
    read(told[0], &ready, 1);
    return 0;
}

static void parent_thread(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, 0);
    pipe(told);
    pthread_t thread;
    pthread_create(&thread, 0, forks, 0);
    pthread_join(thread, 0);
    int status = 0;
    wait(&status);
    N(WEXITSTATUS(status));
}

static void only_a_zombie(void) {
    siginfo_t info;
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    T(waitid(P_PID, child, &info, WSTOPPED));
    T(waitid(P_ALL, 0, &info, WCONTINUED | WNOHANG));
    T(waitid(P_PID, child, &info, WEXITED));
}

static void splices(void) {
    int ends[2];
    sigset_t none;
    sigemptyset(&none);
    pipe(ends);
    T(splice(ends[0], 0, epoll_create1(0), 0, 10, 0));
    T(splice(ends[0], 0, eventfd(0, 0), 0, 10, 0));
    T(splice(ends[0], 0, timerfd_create(CLOCK_MONOTONIC, 0), 0, 10, 0));
    T(splice(ends[0], 0, signalfd(-1, &none, 0), 0, 10, 0));
    char *pages = mmap(0, 40 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 'x', 40 * 4096);
    struct iovec piece = {pages, 40 * 4096};
    T(vmsplice(ends[1], &piece, 1, 0));
    T(vmsplice(ends[1], &piece, 1, SPLICE_F_NONBLOCK));
    T(read(ends[0], pages, 40 * 4096));
}

static void late_failures(void) {
    int before = lowest();
    struct clone_args arguments = {.flags = CLONE_PIDFD, .pidfd = 8, .exit_signal = SIGCHLD};
    T(syscall(SYS_clone3, &arguments, sizeof arguments));
    YES(lowest() == before);
    T(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, 8, 0, 0));
    YES(lowest() == before);
    T(syscall(SYS_pipe, 8));
    YES(lowest() == before);
    T(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 8));
    YES(lowest() == before);
    T(syscall(SYS_timer_create, CLOCK_MONOTONIC, 0, 8));
    T(syscall(SYS_io_setup, 1, 8));
    T(wait(0));
}

int main(void) {
    alarm(20);
    PART("attach");
    attach_stopped();
    PART("parent thread");
    parent_thread();
    PART("zombie");
    only_a_zombie();
    PART("splice");
    splices();
    PART("late failures");
    late_failures();
    return 0;
}

// clone and clone3: which flags go together, what is shared, the pidfd.
#include "check.h"
#include <linux/sched.h>

static int shared;
static int body(void *argument) {
    shared = 5;
    int fd = *(int *)argument;
    close(fd);
    chdir("/");
    return 33;
}

static long clone3(struct clone_args *args, size_t size) { return syscall(SYS_clone3, args, size); }

int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    int status;
    PART("memory and files shared");
    int fd = MUST(open("/dev/null", O_RDONLY));
    pid_t child = MUST(clone(body, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, &fd));
    YES(waitpid(child, &status, 0) == child);
    show_status("child", status);
    N(shared);
    T(fcntl(fd, F_GETFD));
    char *cwd = getcwd(NULL, 0);
    YES(strcmp(cwd, "/") != 0);
    PART("nothing shared");
    shared = 0;
    fd = MUST(open("/dev/null", O_RDONLY));
    child = MUST(clone(body, stack + sizeof stack, CLONE_FS | SIGCHLD, &fd));
    reap("child", child);
    N(shared);
    T(fcntl(fd, F_GETFD));
    cwd = getcwd(NULL, 0);
    puts(cwd);
    PART("exit signal");
    child = MUST(clone(body, stack + sizeof stack, 0, &fd));
    T(waitpid(child, &status, 0));
    T(waitpid(child, &status, WNOHANG));
    YES(waitpid(child, &status, __WCLONE) == child || errno == 0);
    signal(SIGUSR1, SIG_IGN);
    MUST(clone(body, stack + sizeof stack, SIGUSR1, &fd));
    while (waitpid(-1, &status, __WALL) > 0) {}
    PART("thread id stores");
    pid_t parent_tid = 0;
    int *tids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    child = syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, 0, &parent_tid, tids, 0);
    if (child == 0) _exit(0);
    reap("child", child);
    YES(parent_tid == child && tids[0] == child);
    PART("flags that do not go together");
    T(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0));
    T(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
    T(syscall(SYS_clone, CLONE_THREAD | CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
    T(syscall(SYS_clone, CLONE_FS | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0));
    PART("clone3");
    struct clone_args args = {.exit_signal = SIGCHLD};
    child = OK(clone3(&args, sizeof args));
    if (child == 0) _exit(21);
    reap("child", child);
    T(clone3(&args, 8));
    T(clone3(NULL, sizeof args));
    args.exit_signal = 100;
    T(clone3(&args, sizeof args));
    args.exit_signal = SIGCHLD;
    args.flags = CLONE_DETACHED;
    T(clone3(&args, sizeof args));
    args.flags = SIGCHLD;
    T(clone3(&args, sizeof args));
    args.flags = 0;
    args.stack_size = 4096;
    T(clone3(&args, sizeof args));
    args.stack_size = 0;
    int pidfd = -1;
    args.flags = CLONE_PIDFD;
    args.pidfd = (uintptr_t)&pidfd;
    child = clone3(&args, sizeof args);
    if (child == 0) _exit(22);
    YES(child > 0 && pidfd >= 0);
    siginfo_t info;
    struct pollfd poller = {pidfd, POLLIN, 0};
    T(poll(&poller, 1, 5000));
    T(waitid(P_PIDFD, pidfd, &info, WEXITED));
    N(info.si_status);
    PART("pidfd");
    child = MUST(fork());
    if (child == 0) { pause(); _exit(0); }
    pidfd = OK(syscall(SYS_pidfd_open, child, 0));
    N(fcntl(pidfd, F_GETFD));
    T(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0));
    T(syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0));
    reap("child", child);
    T(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0));
    T(syscall(SYS_pidfd_open, child, 0));
    T(syscall(SYS_pidfd_open, 0, 0));
    T(syscall(SYS_pidfd_open, getpid(), 1));
    T(syscall(SYS_pidfd_send_signal, 1, 0, NULL, 0) == -1);
    return 0;
}

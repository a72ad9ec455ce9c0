// PID namespaces: ids, signals, the first process, orphans; pid_namespaces(7).
#include "../check.h"
#include <linux/nsfs.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sem.h>

static void nothing(int signal) { (void)signal; }

static pid_t spawn(unsigned long flags) { return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0); }

static int ended(pid_t pid) {
    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    if (got != pid)
        printf("waited for another: %s\n", got < 0 ? check_error(errno) : "pid");
    return status;
}

static void line_of(const char *file, const char *name) {
    char text[256];
    FILE *f = fopen(file, "r");
    while (f && fgets(text, sizeof text, f))
        if (strncmp(text, name, strlen(name)) == 0) {
            int fields = 0;
            for (char *word = strtok(text + strlen(name) + 1, "\t \n"); word; word = strtok(NULL, "\t \n"))
                fields++;
            printf("%s has %d ids\n", name, fields);
        }
    if (f)
        fclose(f);
}

static void numbers(void) {
    pid_t pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        printf("pid %d tid %d parent %d group %d session %d\n", getpid(), gettid(), getppid(), getpgrp(), getsid(0));
        check_value("set_tid_address", syscall(SYS_set_tid_address, &(int){0}));
        pid_t child = fork();
        if (child == 0) {
            printf("child %d parent %d group %d\n", getpid(), getppid(), getpgrp());
            check_value("setpgid", setpgid(0, 0));
            printf("group %d, by id %d\n", getpgrp(), getpgid(2));
            check_value("setsid as leader", setsid());
            _exit(3);
        }
        int status;
        printf("wait gave %d, ", waitpid(child, &status, 0));
        printf("%d, fork gave %d\n", WEXITSTATUS(status), child);
        child = fork();
        if (child == 0)
            _exit(0);
        siginfo_t info = {0};
        waitid(P_PID, child, &info, WEXITED);
        printf("waitid: %d, child %d\n", info.si_pid, child);
        check_value("setsid", setsid());
        printf("session %d group %d\n", getsid(0), getpgrp());
        check_value("kill a stranger", kill(4000000, 0));
        check_value("kill all", kill(-1, 0));
        int fd = syscall(SYS_pidfd_open, 1, 0);
        check_ok("pidfd of 1", fd);
        line_of("/proc/self/status", "NSpid");
        _exit(0);
    }
    printf("ended with %d\n", ended(pid));
    printf("outside, the pid is %s\n", pid > 1 ? "another" : "1");
}

static void of_children(void) {
    int told[2];
    char c;
    if (pipe(told))
        return;
    check_ok("unshare", unshare(CLONE_NEWPID));
    pid_t own = getpid();
    char link[64];
    check_ok("link before the first", readlink("/proc/self/ns/pid_for_children", link, sizeof link));
    pid_t pid = fork();
    if (pid == 0) {
        printf("first: %d\n", getpid());
        (void)!write(told[1], "", 1);
        pause();
        _exit(0);
    }
    (void)!read(told[0], &c, 1);
    check_ok("link", readlink("/proc/self/ns/pid_for_children", link, sizeof link));
    printf("own pid stays %d\n", getpid() == own);
    pid_t second = fork();
    if (second == 0) {
        printf("second: %d, parent %d\n", getpid(), getppid());
        check_ok("SIGTERM to the first", kill(1, SIGTERM));
        check_ok("SIGKILL to the first", kill(1, SIGKILL));
        _exit(0);
    }
    ended(second);
    int status;
    printf("the first lives: %d\n", waitpid(pid, &status, WNOHANG) == 0);
    kill(pid, SIGTERM);
    usleep(20000);
    printf("SIGTERM from outside: %s\n", waitpid(pid, &status, WNOHANG) == 0 ? "ignored" : "ended");
    kill(pid, SIGKILL);
    status = ended(pid);
    printf("SIGKILL from outside: %d\n", WTERMSIG(status));
    pid = fork();
    printf("fork after the first: %s\n", pid < 0 ? check_error(errno) : "ok");
    if (pid == 0)
        _exit(0);
    check_ok("a thread", syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, 0, 0, 0));
}

// What the first process leaves behind ends; orphans are its children.
static void orphans(void) {
    int out[2];
    if (pipe(out))
        return;
    pid_t pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        pid_t middle = fork();
        if (middle == 0) {
            if (fork() == 0) {
                while (getppid() != 1)
                    usleep(1000);
                dprintf(out[1], "orphan %d has parent %d\n", getpid(), getppid());
                pause();
            }
            _exit(7);
        }
        ended(middle);
        char text[128] = {0};
        (void)!read(out[0], text, sizeof text - 1);
        printf("%s", text);
        _exit(5);
    }
    printf("first ended with %d\n", WEXITSTATUS(ended(pid)));
    // The orphan has the other end.
    close(out[1]);
    char c;
    check_value("the orphan has ended", read(out[0], &c, 1));
}

static void handlers(void) {
    int ready[2];
    if (pipe(ready))
        return;
    pid_t pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        signal(SIGUSR1, nothing);
        struct sigaction action = {.sa_handler = nothing};
        sigaction(SIGTERM, &action, NULL);
        check_ok("itself", kill(1, SIGUSR2));
        (void)!write(ready[1], "", 1);
        pause();
        printf("handled\n");
        _exit(0);
    }
    char c;
    (void)!read(ready[0], &c, 1);
    usleep(10000);
    kill(pid, SIGTERM);
    printf("with a handler: %d\n", ended(pid));
}

static siginfo_t seen;
static void keep(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    seen = *info;
}

static void senders(void) {
    struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    int pair[2], go[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || pipe(go))
        return;
    int on = 1;
    setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    pid_t pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        char c;
        (void)!write(pair[1], "x", 1);
        (void)!read(go[0], &c, 1);
        printf("signal from outside: pid %d\n", seen.si_pid);
        struct iovec iov = {&c, 1};
        char control[64];
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        recvmsg(pair[1], &m, 0);
        struct ucred *cred = (struct ucred *)CMSG_DATA(CMSG_FIRSTHDR(&m));
        printf("message from outside: pid %d\n", cred->pid);
        pid_t child = fork();
        if (child == 0) {
            kill(1, SIGUSR1);
            _exit(0);
        }
        ended(child);
        printf("signal from the child: %d\n", seen.si_pid == child);
        _exit(0);
    }
    char c;
    struct iovec iov = {&c, 1};
    char control[64];
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    recvmsg(pair[0], &m, 0);
    struct ucred *cred = (struct ucred *)CMSG_DATA(CMSG_FIRSTHDR(&m));
    printf("message from inside: its pid %d\n", cred->pid == pid);
    kill(pid, SIGUSR1);
    (void)!write(pair[0], "y", 1);
    (void)!write(go[1], "", 1);
    ended(pid);
}

static void levels(void) {
    int told[2];
    if (pipe(told))
        return;
    pid_t pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        pid_t inner = spawn(CLONE_NEWPID);
        if (inner == 0) {
            printf("inner %d\n", getpid());
            line_of("/proc/self/status", "NSpid");
            (void)!write(told[1], "", 1);
            pause();
        }
        char c;
        (void)!read(told[0], &c, 1);
        printf("inner is %d here\n", inner);
        int fd = open("/proc/self/ns/pid", O_RDONLY);
        check_value("type", ioctl(fd, NS_GET_NSTYPE));
        check_ok("parent", ioctl(fd, NS_GET_PARENT));
        _exit(0);
    }
    ended(pid);
    // Into a namespace that a process has, and no way up.
    int go[2];
    if (pipe(go))
        return;
    pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        char c;
        (void)!read(go[0], &c, 1);
        _exit(0);
    }
    int own = open("/proc/self/ns/pid", O_RDONLY), fd = syscall(SYS_pidfd_open, pid, 0);
    check_ok("join", setns(fd, CLONE_NEWPID));
    pid_t guest = fork();
    if (guest == 0) {
        printf("guest %d, parent %d\n", getpid(), getppid());
        check_ok("up", setns(own, CLONE_NEWPID));
        _exit(0);
    }
    ended(guest);
    check_ok("back", setns(own, CLONE_NEWPID));
    (void)!write(go[1], "", 1);
    ended(pid);
    check_ok("threads and a new one", syscall(SYS_clone, CLONE_NEWPID | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, 0, 0, 0));
}

static void chosen(void) {
    struct clone_args {
        unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
    } args = {.flags = CLONE_NEWPID, .exit_signal = SIGCHLD, .set_tid = (uintptr_t) & (int){7}, .set_tid_size = 1};
    check_ok("first must be 1", syscall(SYS_clone3, &args, sizeof args));
    pid_t pid = spawn(CLONE_NEWPID);
    if (pid == 0) {
        args.flags = 0;
        args.set_tid = (uintptr_t) & (int){77};
        pid_t child = syscall(SYS_clone3, &args, sizeof args);
        if (child == 0)
            _exit(getpid());
        printf("chosen %d\n", child);
        printf("ended with %d\n", WEXITSTATUS(ended(child)));
        child = fork();
        if (child == 0)
            _exit(0);
        ended(child);
        _exit(0);
    }
    ended(pid);
}

static void unprivileged(void) {
    if (setresuid(1000, 1000, 1000))
        return;
    check_ok("without a user namespace", unshare(CLONE_NEWPID));
    check_ok("with one", unshare(CLONE_NEWUSER | CLONE_NEWPID));
    pid_t pid = fork();
    if (pid == 0) {
        printf("pid %d\n", getpid());
        execl("/bin/sh", "sh", "-c", "echo shell $$; (exit 3); echo $?; kill -0 $$ && echo alive", NULL);
    }
    printf("ended with %d\n", ended(pid));
}

int main(void) {
    void (*parts[])(void) = {numbers, of_children, orphans, handlers, senders, levels, chosen, unprivileged};
    for (size_t i = 0; i < COUNT(parts); i++) {
        printf("-- %zu\n", i);
        pid_t pid = fork();
        if (pid == 0) {
            parts[i]();
            fflush(stdout);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    return 0;
}

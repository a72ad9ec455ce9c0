// Calls that a filter leaves to the tracer: SECCOMP_RET_TRACE and PTRACE_O_TRACESECCOMP.
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

static long pt(long request, pid_t pid, void *address, void *data) {
    return syscall(SYS_ptrace, request, pid, address, data);
}

static void told(const char *what, pid_t pid) {
    int status;
    MUST(waitpid(pid, &status, __WALL));
    if (WIFSTOPPED(status))
        printf("%s: stopped, signal %d, event %d%s\n", what, WSTOPSIG(status) & 0x7f, status >> 16,
               WSTOPSIG(status) & 0x80 ? ", call" : "");
    else
        show_status(what, status);
}

static void show(pid_t child) {
    struct __ptrace_syscall_info info = {0};
    unsigned long message = 0;
    struct user_regs_struct regs;
    YES(pt(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof info, &info) >= 84);
    MUST(pt(PTRACE_GETEVENTMSG, child, 0, &message));
    MUST(pt(PTRACE_GETREGS, child, 0, &regs));
    printf("op %d, call %lld(%lld, ..., %lld), data %u, message %lu, rax %lld\n", info.op, (long long)info.seccomp.nr,
           (long long)info.seccomp.args[0], (long long)info.seccomp.args[5], info.seccomp.ret_data, message,
           (long long)regs.rax);
    YES((long long)regs.orig_rax == (long long)info.seccomp.nr);
}

static void change(pid_t child, long number, long rax, long first) {
    struct user_regs_struct regs;
    MUST(pt(PTRACE_GETREGS, child, 0, &regs));
    regs.orig_rax = number, regs.rax = rax, regs.rdi = first;
    MUST(pt(PTRACE_SETREGS, child, 0, &regs));
}

static void run(void) {
    struct sock_filter code[] = {LOAD(nr),          IF(SYS_getpgid), RETURN(SECCOMP_RET_TRACE | 77),
                                 IF(SYS_getpriority), RETURN(SECCOMP_RET_ERRNO | EXDEV), RETURN(SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {COUNT(code), code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    T(syscall(SYS_getpgid, 0, 2, 3, 4, 5, 6));
    MUST(pt(PTRACE_TRACEME, 0, 0, 0));
    raise(SIGSTOP);
    YES(syscall(SYS_getpgid, 0, 2, 3, 4, 5, 6) == getpgrp());
    T(syscall(SYS_getpgid, 0));
    T(syscall(SYS_getpgid, 0));
    T(syscall(SYS_getpgid, 0));
    YES(syscall(SYS_getpgid, 1 << 30) == getpgrp());
    YES(syscall(SYS_getpgid, 0) == getpgrp());
    T(syscall(SYS_getpgid, 0));
}

int main(void) {
    no_core_files();
    pid_t child = MUST(fork());
    if (child == 0) run(), _exit(0);
    told("start", child);
    T(pt(PTRACE_SETOPTIONS, child, 0, (void *)(PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD)));

    PART("as it is");
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("filter", child);
    show(child);
    MUST(pt(PTRACE_SYSCALL, child, 0, 0));
    told("exit", child);

    PART("not made");
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("filter", child);
    change(child, -1, 99, 0);
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("filter", child);
    change(child, -1, -EPROTO, 0);

    PART("another one, which a filter forbids");
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("filter", child);
    change(child, SYS_getpriority, 0, 0);

    PART("other arguments");
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("filter", child);
    change(child, SYS_getpgid, 0, 0);

    PART("not wanted");
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("filter", child);
    MUST(pt(PTRACE_SETOPTIONS, child, 0, 0));
    MUST(pt(PTRACE_CONT, child, 0, 0));
    told("end", child);
    return 0;
}

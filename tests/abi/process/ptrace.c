// Tracing: ptrace(2) as strace uses it.
#include "check.h"
#include <sys/ptrace.h>
#include <sys/user.h>

static long pt(long request, pid_t pid, void *address, void *data) {
    return syscall(SYS_ptrace, request, pid, address, data);
}

static void told(const char *what, pid_t pid) {
    int status;
    pid_t who = waitpid(pid, &status, __WALL);
    if (who < 0) {
        printf("%s: %s\n", what, check_error(errno));
        return;
    }
    if (WIFSTOPPED(status))
        printf("%s: stopped, signal %d, event %d%s\n", what, WSTOPSIG(status) & 0x7f, status >> 16,
               WSTOPSIG(status) & 0x80 ? ", call" : "");
    else
        show_status(what, status);
}

static void show_call(pid_t child) {
    struct __ptrace_syscall_info info = {0};
    long size = pt(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof info, &info);
    struct user_regs_struct regs;
    MUST(pt(PTRACE_GETREGS, child, 0, &regs));
    YES(info.instruction_pointer == regs.rip && info.stack_pointer == regs.rsp);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
        printf("%ld bytes, entry %lld(%lld, %lld, %lld), rax %lld, orig %lld\n", size, (long long)info.entry.nr,
               (long long)info.entry.args[0], (long long)info.entry.args[1], (long long)info.entry.args[5],
               (long long)regs.rax, (long long)regs.orig_rax);
    else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
        printf("%ld bytes, exit %lld, error %d, rax %lld, orig %lld\n", size, (long long)info.exit.rval, info.exit.is_error,
               (long long)regs.rax, (long long)regs.orig_rax);
    else
        printf("%ld bytes, op %d\n", size, info.op);
}

static long to_entry(pid_t child) {
    struct user_regs_struct regs;
    MUST(pt(PTRACE_SYSCALL, child, 0, 0));
    MUST(waitpid(child, NULL, __WALL));
    MUST(pt(PTRACE_GETREGS, child, 0, &regs));
    return regs.orig_rax;
}

static int volatile value = 17;

int main(void) {
    no_core_files();
    PART("errors");
    T(pt(PTRACE_PEEKDATA, getpid(), 0, 0));
    T(pt(PTRACE_ATTACH, getpid(), 0, 0));
    T(pt(PTRACE_ATTACH, 1 << 30, 0, 0));

    PART("calls");
    pid_t child = MUST(fork());
    if (child == 0) {
        T(pt(PTRACE_TRACEME, 0, 0, 0));
        T(pt(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        for (int i = 0; i < 3; i++) syscall(SYS_getpgid, 1 << 29, 2, 3, 4, 5, 6);
        int got = syscall(SYS_getpgid, 99);
        raise(SIGUSR1);
        // The parent suppresses that one, and sees the numbers in the exit status if not the other.
        if (got == 12345 && value == 18) raise(SIGUSR2);
        _exit(1);
    }
    told("start", child);
    T(pt(PTRACE_SETOPTIONS, child, 0, (void *)(1l << 40)));
    T(pt(PTRACE_SETOPTIONS, child, 0, (void *)PTRACE_O_TRACESYSGOOD));
    show_call(child);
    siginfo_t info;
    T(pt(PTRACE_GETSIGINFO, child, 0, &info));
    printf("signal %d, code %d, own %d\n", info.si_signo, info.si_code, info.si_pid == child);
    while (to_entry(child) != SYS_getpgid) {}
    for (int i = 0; i < 5; i++) {
        show_call(child);
        T(pt(PTRACE_SYSCALL, child, 0, 0));
        told("call", child);
    }
    show_call(child);
    // Now before the last one: other arguments, another result.
    T(pt(PTRACE_SYSCALL, child, 0, 0));
    told("entry", child);
    struct user_regs_struct regs;
    T(pt(PTRACE_GETREGS, child, 0, &regs));
    N(regs.rdi);
    regs.orig_rax = -1;
    T(pt(PTRACE_SETREGS, child, 0, &regs));
    T(pt(PTRACE_SYSCALL, child, 0, 0));
    told("exit", child);
    show_call(child);
    T(pt(PTRACE_GETREGS, child, 0, &regs));
    regs.rax = 12345;
    T(pt(PTRACE_SETREGS, child, 0, &regs));
    long word = 0;
    T(pt(PTRACE_PEEKDATA, child, (void *)&value, &word));
    N((int)word);
    T(pt(PTRACE_POKEDATA, child, (void *)&value, (void *)((word & ~0xffffffffl) | 18)));
    T(pt(PTRACE_PEEKDATA, child, BAD, &word));
    T(pt(3, child, (void *)offsetof(struct user, regs.rax), &word));
    N(word);
    T(pt(3, child, (void *)3, &word));
    T(pt(PTRACE_CONT, child, 0, (void *)1000));
    T(pt(PTRACE_CONT, child, 0, 0));
    told("signal", child);
    T(pt(PTRACE_CONT, child, 0, 0));
    told("signal", child);
    T(pt(PTRACE_CONT, child, 0, (void *)SIGUSR2));
    told("end", child);
    told("nobody", child);

    PART("events");
    child = MUST(fork());
    if (child == 0) {
        pt(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(5);
        waitpid(grandchild, NULL, 0);
        execl("/bin/true", "true", NULL);
    }
    told("start", child);
    T(pt(PTRACE_SETOPTIONS, child, 0, (void *)(long)(PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)));
    T(pt(PTRACE_CONT, child, 0, 0));
    told("fork", child);
    unsigned long message = 0;
    T(pt(PTRACE_GETEVENTMSG, child, 0, &message));
    pid_t grandchild = message;
    told("grandchild", grandchild);
    T(pt(PTRACE_CONT, grandchild, 0, 0));
    told("grandchild ends", grandchild);
    T(pt(PTRACE_GETEVENTMSG, grandchild, 0, &message));
    printf("%#lx\n", message);
    T(pt(PTRACE_CONT, grandchild, 0, 0));
    T(pt(PTRACE_CONT, child, 0, 0));
    told("grandchild", grandchild);
    told("child", child);
    if (pt(PTRACE_CONT, child, 0, (void *)SIGCHLD) < 0) puts("not stopped");
    told("exec", child);
    T(pt(PTRACE_CONT, child, 0, 0));
    told("exit", child);
    T(pt(PTRACE_CONT, child, 0, 0));
    told("end", child);

    PART("seized");
    child = MUST(fork());
    if (child == 0)
        for (;;) pause();
    T(pt(PTRACE_SEIZE, child, 0, (void *)(long)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)));
    T(pt(PTRACE_SEIZE, child, 0, 0));
    T(pt(PTRACE_CONT, child, 0, 0));
    T(pt(PTRACE_INTERRUPT, child, 0, 0));
    told("interrupted", child);
    T(pt(PTRACE_CONT, child, 0, 0));
    kill(child, SIGTERM);
    told("signal", child);
    T(pt(PTRACE_DETACH, child, 0, 0));
    T(pt(PTRACE_CONT, child, 0, 0));
    kill(child, SIGINT);
    told("end", child);

    PART("attached");
    child = MUST(fork());
    if (child == 0)
        for (;;) pause();
    CHILD("tracer", if (pt(PTRACE_ATTACH, child, 0, 0) == 0) told("stop", child);
          else puts("refused"));
    kill(child, SIGKILL);
    told("end", child);
    return 0;
}

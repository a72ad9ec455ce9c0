// Tracing: ptrace(2) as debuggers use it. Single steps, breakpoints, registers.
#include "check.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static long pt(long request, pid_t pid, void *address, void *data) {
    return syscall(SYS_ptrace, request, pid, address, data);
}

// The code that is stepped through: a system call between plain instructions, and a loop.
long code(long number);
extern char code_call[], code_after[], code_end[];
asm(".text\n"
    "code:\n\t"
    "mov %rdi, %rax\n\t"
    "mov $1, %edx\n\t"
    "mov $2, %esi\n"
    "code_call: syscall\n"
    "code_after: mov %rax, %rdi\n\t"
    "mov $3, %ecx\n"
    "1: dec %ecx\n\t"
    "jnz 1b\n\t"
    "mov $7, %eax\n"
    "code_end: ret\n");

static int volatile handled;

static void on_signal(int number) { handled = number; }

static struct user_regs_struct registers(pid_t child) {
    struct user_regs_struct regs;
    MUST(pt(PTRACE_GETREGS, child, 0, &regs));
    return regs;
}

static int stopped(pid_t child) {
    int status;
    MUST(waitpid(child, &status, __WALL));
    if (!WIFSTOPPED(status)) {
        show_status("child", status);
        exit(1);
    }
    return status >> 8;
}

static void show_stop(const char *what, pid_t child) {
    int signal = stopped(child);
    siginfo_t info;
    MUST(pt(PTRACE_GETSIGINFO, child, 0, &info));
    struct user_regs_struct regs = registers(child);
    printf("%s: signal %#x, si_signo %d, si_code %d, address %s, flags %s\n", what, signal, info.si_signo, info.si_code,
           info.si_addr == (void *)regs.rip ? "is rip" : info.si_addr == NULL ? "null" : "another", regs.eflags & 0x100 ? "TF" : "-");
}

static unsigned long peek(pid_t child, void *at) {
    unsigned long word = 0;
    MUST(pt(PTRACE_PEEKTEXT, child, at, &word));
    return word;
}

static void put_breakpoint(pid_t child, void *at, unsigned long *old) {
    *old = peek(child, at);
    MUST(pt(PTRACE_POKETEXT, child, at, (void *)((*old & ~0xfful) | 0xcc)));
}

static void child_of(void (*body)(void), pid_t *child) {
    fflush(stdout);
    *child = MUST(fork());
    if (*child == 0) {
        MUST(pt(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        body();
        _exit(handled);
    }
    stopped(*child);
}

static void run_code(void) {
    if (code(SYS_getppid) != 7) _exit(99);
}

// Runs to the first instruction of `at`.
static void run_to(pid_t child, char *at) {
    unsigned long old;
    put_breakpoint(child, at, &old);
    MUST(pt(PTRACE_CONT, child, 0, 0));
    show_stop("breakpoint", child);
    struct user_regs_struct regs = registers(child);
    YES(regs.rip == (unsigned long)at + 1 && regs.orig_rax == -1ul);
    regs.rip--;
    MUST(pt(PTRACE_SETREGS, child, 0, &regs));
    MUST(pt(PTRACE_POKETEXT, child, at, (void *)old));
    YES(peek(child, at) == old);
}

static void steps(void) {
    PART("steps");
    pid_t child;
    child_of(run_code, &child);
    run_to(child, (char *)code);
    for (int i = 0; i < 20; i++) {
        MUST(pt(PTRACE_SINGLESTEP, child, 0, 0));
        int signal = stopped(child);
        struct user_regs_struct regs = registers(child);
        siginfo_t info;
        MUST(pt(PTRACE_GETSIGINFO, child, 0, &info));
        printf("%2d: signal %#x, code %d, at %ld, orig_rax %ld\n", i, signal, info.si_code,
               regs.rip - (unsigned long)code < 64 ? (long)(regs.rip - (unsigned long)code) : -1, (long)regs.orig_rax);
        if (regs.rip - (unsigned long)code >= 64) break;
    }
    T(pt(PTRACE_CONT, child, 0, 0));
    reap("child", child);
}

static void call_many(void) {
    for (int i = 0; i < 200; i++) run_code();
    raise(SIGSTOP);
    run_code();
    raise(SIGSTOP);
    run_code();
}

// The site has been called often; it and what follows it still are what the file says.
static void sites(void) {
    PART("breakpoints at system calls");
    pid_t child;
    unsigned long old, after;
    child_of(call_many, &child);
    MUST(pt(PTRACE_CONT, child, 0, 0));
    show_stop("after many calls", child);
    printf("%#lx\n", peek(child, code_call) & 0xffffff);
    put_breakpoint(child, code_after, &after);
    MUST(pt(PTRACE_CONT, child, 0, 0));
    show_stop("behind the call", child);
    struct user_regs_struct regs = registers(child);
    N(regs.rip - (unsigned long)code_after);
    regs.rip--;
    MUST(pt(PTRACE_SETREGS, child, 0, &regs));
    MUST(pt(PTRACE_POKETEXT, child, code_after, (void *)after));
    MUST(pt(PTRACE_CONT, child, 0, 0));
    show_stop("stop", child);
    put_breakpoint(child, code_call, &old);
    MUST(pt(PTRACE_CONT, child, 0, 0));
    show_stop("at the call", child);
    regs = registers(child);
    N(regs.rip - (unsigned long)code_call);
    N(regs.rax == SYS_getppid);
    // Another call instead, through /proc this time.
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", child);
    int mem = MUST(open(path, O_RDWR));
    T(pwrite(mem, &old, 2, (off_t)code_call));
    unsigned short word = 0;
    T(pread(mem, &word, 2, (off_t)code_call));
    N(word);
    regs.rip--;
    regs.rax = SYS_getpgid;
    regs.rdi = 1 << 29;
    MUST(pt(PTRACE_SETREGS, child, 0, &regs));
    MUST(pt(PTRACE_SINGLESTEP, child, 0, 0));
    show_stop("another call", child);
    regs = registers(child);
    printf("rax %lld, at %ld\n", (long long)regs.rax, (long)(regs.rip - (unsigned long)code_after));
    T(pt(PTRACE_DETACH, child, 0, 0));
    reap("child", child);
    // The text here is another process's.
    printf("%#x\n", *(unsigned char *)code_call);
}

static void with_handler(void) {
    signal(SIGUSR1, on_signal);
    run_code();
}

static void handlers(void) {
    PART("a step into a handler");
    pid_t child;
    child_of(with_handler, &child);
    run_to(child, (char *)code);
    T(pt(PTRACE_SINGLESTEP, child, 0, (void *)SIGUSR1));
    show_stop("handler", child);
    YES(registers(child).rip == (unsigned long)on_signal && registers(child).rdi == SIGUSR1);
    MUST(pt(PTRACE_SINGLESTEP, child, 0, 0));
    show_stop("in it", child);
    T(pt(PTRACE_CONT, child, 0, 0));
    reap("child", child);
}

static void compute(void) {
    double x = 1.5;
    asm volatile("movsd %0, %%xmm5; fldpi; .globl code_float; code_float: nop" : : "m"(x) : "xmm5");
    double y;
    asm volatile("movsd %%xmm5, %0; fstp %%st(0)" : "=m"(y));
    handled = (int)(y * 4);
}
extern char code_float[];

static void floats(void) {
    PART("floating point registers");
    pid_t child;
    child_of(compute, &child);
    run_to(child, code_float);
    struct user_fpregs_struct fp;
    T(pt(PTRACE_GETFPREGS, child, 0, &fp));
    double low;
    memcpy(&low, &fp.xmm_space[5 * 4], 8);
    printf("xmm5 %g, control %#x, mxcsr %#x, tags %#x, stack %#x %#x %#x\n", low, fp.cwd, fp.mxcsr, fp.ftw, fp.st_space[0], fp.st_space[1],
           fp.st_space[2] & 0xffff);
    struct user_fpregs_struct again = {0};
    struct iovec vector = {&again, 2048};
    T(pt(PTRACE_GETREGSET, child, (void *)NT_PRFPREG, &vector));
    N(vector.iov_len);
    YES(memcmp(&fp, &again, sizeof fp) == 0);
    static char xstate[16384];
    vector = (struct iovec){xstate, sizeof xstate};
    T(pt(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &vector));
    YES(memcmp(&fp, xstate, 416) == 0 && vector.iov_len >= 576);
    YES((*(unsigned long *)(xstate + 464) & 3) == 3 && (xstate[512] & 3) == 3);
    vector = (struct iovec){xstate, 7};
    T(pt(PTRACE_GETREGSET, child, (void *)NT_X86_XSTATE, &vector));
    T(pt(PTRACE_GETREGSET, child, (void *)12345, &vector));
    vector = (struct iovec){&fp, 64};
    T(pt(PTRACE_SETREGSET, child, (void *)NT_PRFPREG, &vector));
    low = 10.25;
    memcpy(&fp.xmm_space[5 * 4], &low, 8);
    T(pt(PTRACE_SETFPREGS, child, 0, &fp));
    memset(&again, 0, sizeof again);
    T(pt(PTRACE_GETFPREGS, child, 0, &again));
    memcpy(&low, &again.xmm_space[5 * 4], 8);
    printf("xmm5 %g\n", low);
    fp.mxcsr |= 1u << 31;
    T(pt(PTRACE_SETFPREGS, child, 0, &fp));
    T(pt(PTRACE_CONT, child, 0, 0));
    reap("child", child);
}

static void words(void) {
    PART("struct user");
    pid_t child;
    child_of(run_code, &child);
    unsigned long word = 1;
    T(pt(PTRACE_PEEKUSER, child, (void *)offsetof(struct user, regs.rsp), &word));
    YES(word == registers(child).rsp);
    T(pt(PTRACE_PEEKUSER, child, (void *)3, &word));
    T(pt(PTRACE_PEEKUSER, child, (void *)sizeof(struct user), &word));
    T(pt(PTRACE_POKEUSER, child, (void *)offsetof(struct user, u_debugreg[7]), 0));
    T(pt(PTRACE_POKEUSER, child, (void *)sizeof(struct user), 0));
    T(pt(PTRACE_POKETEXT, child, (void *)8, 0));
    unsigned long mask = 0, blocked = 1 << (SIGUSR2 - 1);
    T(pt(PTRACE_SETSIGMASK, child, (void *)8, &blocked));
    T(pt(PTRACE_GETSIGMASK, child, (void *)8, &mask));
    N(mask);
    T(pt(PTRACE_SETSIGMASK, child, (void *)4, &blocked));
    T(pt(PTRACE_CONT, child, 0, (void *)65));
    T(pt(PTRACE_SINGLESTEP, child, 0, (void *)SIGKILL));
    reap("child", child);
}

static void sleeps(void) {
    signal(SIGUSR1, SIG_IGN);
    struct timespec time = {0, 300000000};
    handled = nanosleep(&time, NULL) == 0 ? 5 : 6;
}

static int helper(int value) { return value + 1; }

// What a debugger does to call a function while a thread sleeps in a system call, which goes on afterwards.
static void calls(void) {
    PART("a function called in the middle of a system call");
    pid_t child;
    child_of(sleeps, &child);
    MUST(pt(PTRACE_CONT, child, 0, 0));
    char state = 0;
    while (state != 'S') {
        char path[64], text[512] = {0};
        snprintf(path, sizeof path, "/proc/%d/stat", child);
        int stat = MUST(open(path, O_RDONLY));
        MUST(read(stat, text, sizeof text - 1));
        close(stat);
        state = strrchr(text, ')')[2];
    }
    kill(child, SIGSTOP);
    show_stop("asleep", child);
    struct user_regs_struct saved = registers(child), regs = saved;
    printf("rax %lld, orig_rax %lld\n", (long long)saved.rax, (long long)saved.orig_rax);
    regs.rip = (unsigned long)helper;
    regs.rdi = 41;
    regs.orig_rax = -1;
    regs.rsp = ((regs.rsp - 4096) & ~15ul) - 8;
    MUST(pt(PTRACE_POKEDATA, child, (void *)regs.rsp, (void *)code_end));
    unsigned long old;
    put_breakpoint(child, code_end, &old);
    MUST(pt(PTRACE_SETREGS, child, 0, &regs));
    MUST(pt(PTRACE_CONT, child, 0, 0));
    show_stop("returned", child);
    printf("result %lld\n", (long long)registers(child).rax);
    MUST(pt(PTRACE_POKETEXT, child, code_end, (void *)old));
    MUST(pt(PTRACE_SETREGS, child, 0, &saved));
    MUST(pt(PTRACE_CONT, child, 0, 0));
    reap("child", child);
}

int main(void) {
    no_core_files();
    steps();
    sites();
    handlers();
    floats();
    words();
    calls();
    return 0;
}

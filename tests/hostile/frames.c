// Signal frames with odd content, and registers that a tracer sets: each ends its process or lets it go on, and the pod works on.
#define _GNU_SOURCE
#include "guest.h"
#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#define ROUNDS 400
// The pod's time limit is longer than this, on a busy machine too.
#define SECONDS 2

// Nothing in keel's part of the address space, which a program may damage.
static uint64_t odd(void) {
    static const uint64_t words[] = {0, 1, 8, 0x10, 0xfff, 0x1000, 0x7ffffffff000, 0x7fffffffffff, 0x800000000000, 1ul << 63,
                                     0xffff800000000000, -1ul, 0xffffffff81000000, 0x33, 0x2b, 0x23, 0x10246,
                                     0x4700, 0x254fff};
    return chance() % 3 ? words[chance() % (sizeof words / sizeof *words)] : chance();
}

static double since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - start->tv_sec + (now.tv_nsec - start->tv_nsec) / 1e9;
}
// A program still runs.
static void works(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(9);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status) {
        fprintf(stderr, "then no program runs: status %x, seed %lu\n", status, seed);
        exit(1);
    }
}

static void spoil(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *u = context;
    unsigned char *state = (void *)u->uc_mcontext.fpregs;
    switch (chance() % 5) {
    case 0: u->uc_mcontext.gregs[chance() % NGREG] = odd(); break;
    case 1:
        for (int i = 0; i < NGREG; i++)
            if (chance() % 2) u->uc_mcontext.gregs[i] = odd();
        break;
    case 2:
        for (int i = 0; i < 40 && state; i++) state[chance() % 2700] = chance();
        break;
    case 3: u->uc_mcontext.fpregs = (void *)odd(); break;
    case 4:
        for (int i = 0; i < 8; i++) ((uint64_t *)u)[chance() % 120] = odd();
        break;
    }
}
static void in_frames(void) {
    static char stack[65536];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, 0);
    struct sigaction action = {.sa_sigaction = spoil, .sa_flags = SA_SIGINFO};
    action.sa_flags |= (chance() % 2 ? SA_ONSTACK : 0) | (chance() % 2 ? SA_NODEFER : 0);
    sigaction(SIGUSR1, &action, 0);
    // rt_sigreturn(2) of what is no frame.
    if (chance() % 8 == 0)
        __asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n ud2" ::"r"(chance() % 2 ? odd() : (uint64_t)stack + chance() % 60000)
                         : "memory");
    if (chance() % 8 == 0)
        __asm__ volatile("push %0\n popf\n mov $39, %%eax\n syscall" ::"r"(chance()) : "rax", "rcx", "r11", "memory", "cc");
    raise(SIGUSR1);
    raise(SIGUSR1);
    syscall(SYS_getppid);
}
static void signal_frames(void) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int round = 0; round < ROUNDS && since(&start) < SECONDS; round++) {
        chance();
        pid_t child = fork();
        if (child == 0) {
            alarm(1);
            in_frames();
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    works();
}

static void set_something(pid_t child) {
    static unsigned char state[8192];
    struct user_regs_struct registers;
    struct iovec piece = {state, sizeof state};
    switch (chance() % 6) {
    case 0:
    case 1:
        if (ptrace(PTRACE_GETREGS, child, 0, &registers) < 0) break;
        for (unsigned i = chance() % 6; i > 0; i--) ((uint64_t *)&registers)[chance() % (sizeof registers / 8)] = odd();
        ptrace(PTRACE_SETREGS, child, 0, &registers);
        break;
    case 2: ptrace(PTRACE_POKEUSER, child, chance() % 2 ? (chance() % 120) * 8 : odd(), odd()); break;
    case 3: ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg) + 8 * (chance() % 8), odd()); break;
    case 4:
        if (ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &piece) < 0) break;
        for (int i = 0; i < 30; i++) state[chance() % piece.iov_len] = chance();
        if (chance() % 4 == 0) piece.iov_len = chance() % 4096;
        ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &piece);
        break;
    case 5:
        piece.iov_len = chance() % 300;
        for (int i = 0; i < 300; i++) state[i] = chance();
        ptrace(PTRACE_SETREGSET, child, chance() % 2 ? NT_PRSTATUS : NT_PRFPREG, &piece);
        break;
    }
}
static void traced_registers(void) {
    static const int requests[] = {PTRACE_CONT,   PTRACE_SYSCALL,           PTRACE_SINGLESTEP,
                                   PTRACE_SYSEMU, PTRACE_SYSEMU_SINGLESTEP, PTRACE_LISTEN};
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int round = 0; round < ROUNDS && since(&start) < SECONDS; round++) {
        chance();
        pid_t child = fork();
        if (child == 0) {
            ptrace(PTRACE_TRACEME, 0, 0, 0);
            raise(SIGSTOP);
            for (int i = 0; i < 30; i++) syscall(SYS_getppid);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        for (int step = 0; step < 4 && WIFSTOPPED(status); step++) {
            set_something(child);
            if (ptrace(requests[chance() % 6], child, 0, chance() % 4 ? 0 : chance() % 70) < 0) break;
            int tries = 0;
            while (waitpid(child, &status, WNOHANG) == 0 && tries++ < 20) usleep(500);
            if (tries > 20) break;
        }
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    works();
}

int main(int argc, char **argv) {
    static const struct attack attacks[] = {{"signal-frames", signal_frames}, {"traced-registers", traced_registers}, {0, 0}};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (argc > 2) seed = strtoul(argv[2], 0, 0) | 1;
    return attack(attacks, argc, argv);
}

// The ways back to a program, with registers, stacks and flags that lead nowhere or are odd.
// cflags: -mno-red-zone -fno-stack-protector
#include "check.h"
#include <elf.h>
#include <setjmp.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <ucontext.h>

#define UPPER 0xffff800000000000ul
#define BEYOND 0x800000000000ul
#define MIDDLE 0x8000000000000000ul
#define LAST 0x7ffffffff000ul
static const unsigned long places[] = {UPPER, BEYOND, MIDDLE, LAST, -1ul, -8ul, 0x10, 0, 1};

static sigjmp_buf back;
static volatile int signals, steps;
static volatile unsigned long trace;
static const char *volatile first;

static void handler(int number, siginfo_t *info, void *context) {
    __asm__ volatile("pushf; andl $~0x40000, (%%rsp); popf" ::: "memory", "cc");
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    printf("SIG%s code %d trap %lld error %#llx rip %s\n", signal_name(number), info->si_code, r[REG_TRAPNO], r[REG_ERR],
           (unsigned long)r[REG_RIP] >= LAST || r[REG_RIP] < 0x1000 ? "as set" : "in the program");
    siglongjmp(back, 1);
}

static void ignore(int number) { signals += number != 0; }

static void stepped(int number, siginfo_t *info, void *context) {
    __asm__ volatile("pushf; andl $~0x40000, (%%rsp); popf" ::: "memory", "cc");
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    steps++;
    trace = trace * 31 + ((unsigned long)r[REG_RIP] - (unsigned long)first) + info->si_code + number;
}

static void on(int number, void *handler, int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigaction(number, &action, NULL);
}

static char alternate[1 << 16];
static void listen(void) {
    sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL);
    int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < COUNT(numbers); i++) on(numbers[i], handler, SA_ONSTACK | SA_NODEFER);
}

// A call with these flags and this stack pointer (0: its own); the flags behind it.
__attribute__((noinline)) static long call(long number, unsigned long flags, unsigned long stack, long a, long b, unsigned long *after) {
    long result = number;
    unsigned long own;
    __asm__ volatile(
        "mov %%rsp, %%rbx\n"
        "mov %[flags], %%r12\n mov %[stack], %%r13\n"
        "pushf\n or %%r12, (%%rsp)\n"
        "lea 0f(%%rip), %%r14\n mov %%r14, %[first]\n"
        "popf\n"
        "0: nop\n"
        "test %%r13, %%r13\n cmovnz %%r13, %%rsp\n"
        "syscall\n"
        "nop\n nop\n nop\n"
        "mov %%rbx, %%rsp\n"
        "pushf\n pop %%r12\n"
        "pushf\n andl $~0x244500, (%%rsp)\n popf\n"
        "nop\n"
        "mov %%r12, %[own]\n"
        : "+a"(result), [own] "=m"(own), [first] "=m"(first)
        : "D"(a), "S"(b), [flags] "m"(flags), [stack] "m"(stack)
        : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "memory", "cc");
    if (after) *after = own;
    return result;
}

static void flags_and_calls(void) {
    static const struct { const char *name; unsigned long bits; } flags[] = {{"none", 0}, {"trap", 0x100},
        {"direction", 0x400}, {"nested task", 0x4000}, {"alignment", 0x40000}, {"resume", 0x10000}, {"id", 0x200000},
        {"all of them", 0x254500}};
    struct timespec soon = {0, 1000};
    on(SIGUSR1, ignore, 0);
    on(SIGTRAP, stepped, 0);
    for (size_t i = 0; i < COUNT(flags); i++) {
        PART(flags[i].name);
        unsigned long after = 0, kept = 0x44000;
        // So often that calls are made in the quickest way.
        for (int n = 0; n < 100; n++) call(SYS_getppid, 0, 0, 0, 0, NULL);
        signals = steps = 0, trace = 0;
        YES(call(SYS_getppid, flags[i].bits, 0, 0, 0, &after) == getppid());
        printf("steps %d, %lu\n", steps, trace % 1000);
        printf("kept: %#lx\n", after & kept);
        for (int n = 0; n < 20; n++) call(SYS_getppid, flags[i].bits, 0, 0, 0, NULL);
        printf("steps %d, %lu\n", steps, trace % 1000);
        T(call(SYS_sched_yield, flags[i].bits, 0, 0, 0, &after));
        T(call(SYS_nanosleep, flags[i].bits, 0, (long)&soon, 0, &after));
        printf("kept: %#lx\n", after & kept);
        T(call(SYS_kill, flags[i].bits, 0, getpid(), SIGUSR1, &after));
        printf("kept: %#lx\n", after & kept);
        T(call(SYS_access, flags[i].bits, 0, (long)"/dev/null" , 0, &after));
        T(call(SYS_stat, flags[i].bits, 0, (long)"/dev/null", (long)(alternate + 1), &after));
        T(call(999, flags[i].bits, 0, 0, 0, &after));
        N(signals);
    }
    on(SIGTRAP, handler, SA_ONSTACK | SA_NODEFER);
}

static void stacks(void) {
    PART("calls with bad stacks");
    for (size_t i = 0; i < COUNT(places); i++)
        for (int n = 0; n < 50; n++) {
            if (places[i] && call(SYS_getppid, 0, places[i], 0, 0, NULL) != getppid()) puts("a wrong result");
            if (places[i] && call(SYS_sched_yield, 0, places[i], 0, 0, NULL)) puts("a wrong result");
        }
    PART("signals with bad stacks");
    for (size_t i = 0; i < COUNT(places); i++) {
        if (!places[i]) continue;
        char name[64];
        sprintf(name, "%#lx", places[i]);
        CHILD(name, {
            on(SIGUSR1, ignore, 0);
            on(SIGSEGV, (void *)SIG_DFL, 0);
            call(SYS_kill, 0, places[i], getpid(), SIGUSR1, NULL);
        });
        CHILD("its handler as well", {
            on(SIGUSR1, ignore, 0);
            on(SIGSEGV, handler, 0);
            call(SYS_kill, 0, places[i], getpid(), SIGUSR1, NULL);
        });
        CHILD("another stack for that", {
            on(SIGUSR1, ignore, 0);
            if (sigsetjmp(back, 1) == 0) call(SYS_kill, 0, places[i], getpid(), SIGUSR1, NULL);
        });
        CHILD("bad alternate stack", {
            sigaltstack(&(stack_t){.ss_sp = (void *)(places[i] - 65536), .ss_size = 65536}, NULL);
            on(SIGUSR1, ignore, SA_ONSTACK);
            raise(SIGUSR1);
        });
    }
    PART("odd stacks");
    on(SIGUSR1, ignore, 0);
    signals = 0;
    static char room[1 << 16] __attribute__((aligned(64)));
    for (int n = 0; n < 64; n++) call(SYS_kill, 0, (unsigned long)room + sizeof room - 64 + n, getpid(), SIGUSR1, NULL);
    N(signals);
}

static unsigned long wanted;
static int which;
static void change(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (which == REG_CSGSFS)
        r[which] = (r[which] & ~0xffff00000000fffful) | wanted;
    else
        r[which] = wanted;
}

static void frames(void) {
    PART("frames with a bad rip");
    on(SIGUSR1, change, SA_ONSTACK);
    which = REG_RIP;
    for (volatile size_t i = 0; i < COUNT(places); i++) {
        wanted = places[i];
        printf("%#lx: ", wanted);
        if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
    }
    PART("frames with a bad rsp");
    which = REG_RSP;
    for (size_t i = 0; i < COUNT(places); i++) {
        wanted = places[i];
        printf("%#lx: ", wanted);
        printf("%ld\n", call(SYS_kill, 0, 0, getpid(), SIGUSR1, NULL));
    }
    PART("frames with odd flags");
    which = REG_EFL;
    on(SIGTRAP, stepped, SA_ONSTACK);
    for (int bit = 0; bit < 64; bit++) {
        unsigned long after = 0;
        steps = 0;
        wanted = 1ul << bit;
        if (bit == 8) continue;
        long result = call(SYS_kill, 0, 0, getpid(), SIGUSR1, &after);
        printf("bit %d: %ld, %#lx\n", bit, result, after & 0x3c7d00);
    }
    on(SIGTRAP, handler, SA_ONSTACK | SA_NODEFER);
    PART("frames with odd selectors");
    which = REG_CSGSFS;
    static const unsigned short selectors[] = {0, 3, 0x10, 0x13, 0x18, 0x1b, 0x28, 0x2b, 0x30, 0x33, 0xfff3};
    for (volatile size_t i = 0; i < COUNT(selectors); i++) {
        printf("cs %#x: ", selectors[i]);
        wanted = selectors[i] | 0x2bul << 48;
        if (sigsetjmp(back, 1) == 0) printf("%ld\n", call(SYS_kill, 0, 0, getpid(), SIGUSR1, NULL));
        printf("ss %#x: ", selectors[i]);
        wanted = 0x33 | (unsigned long)selectors[i] << 48;
        if (sigsetjmp(back, 1) == 0) printf("%ld\n", call(SYS_kill, 0, 0, getpid(), SIGUSR1, NULL));
    }
    PART("no frame at all");
    for (volatile size_t i = 0; i < COUNT(places); i++) {
        printf("%#lx: ", places[i]);
        if (places[i] && sigsetjmp(back, 1) == 0) printf("%ld\n", call(SYS_rt_sigreturn, 0, places[i], 0, 0, NULL));
    }
    putchar('\n');
}

static void handlers(void) {
    struct { unsigned long handler, flags, restorer, mask; } action = {0, SA_SIGINFO | 0x04000000, 0, 0};
    static void (*returning)(int) = ignore;
    for (volatile size_t i = 0; i < COUNT(places); i++) {
        if (places[i] < 2) continue;
        printf("handler %#lx: ", places[i]);
        action.handler = places[i];
        action.restorer = places[i];
        syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
        if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
        printf("restorer %#lx: ", places[i]);
        action.handler = (unsigned long)returning;
        syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
        if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
    }
    PART("the handler of SIGSEGV itself");
    for (size_t i = 0; i < COUNT(places); i++) {
        if (places[i] < 2) continue;
        action.handler = places[i];
        CHILD("child", syscall(SYS_rt_sigaction, SIGSEGV, &action, NULL, 8); *(volatile char *)0x10 = 1);
    }
}

// A child that stops and then ends without any register's help.
static pid_t traced(void) {
    pid_t child = MUST(fork());
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        __asm__ volatile("syscall\n mov $60, %%eax\n xor %%edi, %%edi\n syscall" ::"a"(SYS_kill), "D"(getpid()), "S"(SIGSTOP));
    }
    waitpid(child, NULL, 0);
    return child;
}

static void debugger(void) {
    static const char *const names[] = {"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx",
        "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"};
    // General registers can be anything: a few stand for all.
    for (size_t n = 10; n < COUNT(names); n++)
        for (size_t i = 0; i < COUNT(places); i++) {
            // The GS base is keel's; the trap flag stops the child once more; ids of calls are looked at elsewhere.
            if (n >= 22 && places[i] == 0) continue;
            unsigned long value = places[i];
            if (n == 18) value &= ~0x100ul;
            pid_t child = traced();
            struct user_regs_struct r;
            ptrace(PTRACE_GETREGS, child, 0, &r);
            ((unsigned long *)&r)[n] = value;
            int error = ptrace(PTRACE_SETREGS, child, 0, &r) ? errno : 0, status;
            if (n != 22 || error) printf("%s = %#lx: %s", names[n], value, error ? check_error(error) : "ok");
            error = ptrace(PTRACE_POKEUSER, child, n * 8, value) ? errno : 0;
            if (n != 22 || error) printf(", %s", error ? check_error(error) : "ok");
            ptrace(PTRACE_CONT, child, 0, 0);
            waitpid(child, &status, 0);
            if (n != 22 || error) show_status("", status);
            if (WIFSTOPPED(status)) {
                kill(child, SIGKILL);
                waitpid(child, NULL, 0);
            }
        }
}

static void lists(void) {
    for (size_t i = 0; i < COUNT(places); i++) {
        void *place = (void *)places[i];
        CHILD("robust list", syscall(SYS_set_robust_list, place, 24); syscall(SYS_exit, 0));
        CHILD("child's id", syscall(SYS_set_tid_address, place); syscall(SYS_exit, 0));
        if (places[i] < 2) continue;
        T(syscall(SYS_rseq, place, 32, 0, 0x53053053));
        T(syscall(SYS_arch_prctl, 0x1002, i == 6 ? (void *)-2ul : place));
        printf("clone with such TLS: %s\n", syscall(SYS_clone, CLONE_SETTLS | SIGCHLD, 0, 0, 0, i == 6 ? (void *)-2ul : place) == -1 ? check_error(errno) : "made one");
    }
}

static void programs(void) {
    struct { Elf64_Ehdr head; Elf64_Phdr load; unsigned char code[16]; } image = {
        .head = {.e_ident = "\177ELF\2\1\1", .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = 64, .e_ehsize = 64, .e_phentsize = 56, .e_phnum = 1},
        .load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x400000, .p_paddr = 0x400000, .p_filesz = 136, .p_memsz = 136, .p_align = 4096},
        .code = "\xb8\x3c\0\0\0\x31\xff\x0f\x05"};
    for (size_t i = 0; i <= COUNT(places); i++) {
        image.head.e_entry = i < COUNT(places) ? places[i] : 0x400078;
        int fd = MUST(open("program", O_CREAT | O_TRUNC | O_WRONLY, 0755));
        if (write(fd, &image, sizeof image) != sizeof image) exit(98);
        close(fd);
        char name[64];
        sprintf(name, "entry %#lx", (unsigned long)image.head.e_entry);
        CHILD(name, execl("program", "program", NULL));
    }
}

int main(void) {
    no_core_files();
    listen();
    flags_and_calls();
    stacks();
    frames();
    PART("handlers");
    handlers();
    PART("a tracer");
    debugger();
    PART("addresses for the kernel");
    lists();
    PART("programs");
    programs();
    return 0;
}

// Every exception that a program can cause is a signal, with the number, code, address and context that Linux gives it.
// cflags: -mno-red-zone -fno-stack-protector
#include "check.h"
#include <setjmp.h>
#include <ucontext.h>

#define UPPER 0xffff800000000000ul
#define BEYOND 0x800000000000ul
#define MIDDLE 0x8000000000000000ul
#define LAST 0x7ffffffff000ul

static sigjmp_buf back;
static unsigned char *page;
static unsigned char *at;
static bool quiet;

static void show_place(const char *what, unsigned long value) {
    if (value - (unsigned long)at < 32)
        printf(", %s +%ld", what, (long)(value - (unsigned long)at));
    else if (value == 0 || value == 0x10 || value >= LAST)
        printf(", %s %#lx", what, value);
    else
        printf(", %s elsewhere", what);
}

static void handler(int number, siginfo_t *info, void *context) {
    __asm__ volatile("pushf; andl $~0x40000, (%%rsp); popf" ::: "memory", "cc");
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (quiet) {
        puts("a signal");
        siglongjmp(back, 1);
    }
    printf("SIG%s code %d trap %lld error %#llx", signal_name(number), info->si_code, r[REG_TRAPNO], r[REG_ERR]);
    if (info->si_code != SI_KERNEL || info->si_addr) show_place("address", (unsigned long)info->si_addr);
    show_place("rip", r[REG_RIP]);
    if (r[REG_TRAPNO] == 14) show_place("cr2", r[REG_CR2]);
    putchar('\n');
    siglongjmp(back, 1);
}

static void listen(void) {
    static char stack[1 << 16];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < COUNT(numbers); i++) sigaction(numbers[i], &action, NULL);
}

// Runs instructions with rax = rsi = rdi = a value; then an undefined one.
static void run(const char *what, const char *code, int len, unsigned long value) {
    at = page + 64;
    memset(page, 0x90, 4096);
    memcpy(at, code, len);
    memcpy(at + len, "\x0f\x0b", 2);
    printf("%s: ", what);
    if (sigsetjmp(back, 1) == 0)
        __asm__ volatile("xor %%ecx, %%ecx\n mov $0x80, %%edx\n jmp *%1" ::"a"(value), "r"(at), "S"(value), "D"(value) : "rcx", "rdx", "rbx", "memory");
    __asm__ volatile("cld; pushf; andl $~0x44100, (%%rsp); popf" ::: "memory", "cc");
}
#define RUN(what, code) run(what, code, sizeof code - 1, 0)
#define WITH(value, what, code) run(what " " #value, code, sizeof code - 1, value)
#define EACH(what, code) \
    do { \
        WITH(UPPER, what, code), WITH(BEYOND, what, code), WITH(MIDDLE, what, code), WITH(LAST, what, code); \
        WITH(-1ul, what, code), WITH(0x10, what, code); \
    } while (0)

static void ways_to_bad_places(void) {
    PART("jumps");
    EACH("jmp", "\xff\xe0");
    EACH("call", "\xff\xd0");
    EACH("ret", "\x50\xc3");
    EACH("ret n", "\x50\xc2\x08\x00");
    EACH("call *mem", "\x50\xff\x14\x24");
    PART("data");
    EACH("load", "\x8a\x00");
    EACH("store", "\x88\x00");
    EACH("exchange", "\x87\x00");
    EACH("movsb", "\xa4");
    EACH("movaps", "\x0f\x28\x00");
    EACH("clflush", "\x0f\xae\x38");
    EACH("prefetch", "\x0f\x18\x08");
    EACH("xsave", "\x0f\xae\x20");
    PART("stack");
    EACH("push", "\x48\x94\x50\x48\x94");
    EACH("pop", "\x48\x94\x58\x48\x94");
    EACH("call with such a stack", "\x48\x94\xe8\x00\x00\x00\x00");
    EACH("int3 with such a stack", "\x48\x94\xcc");
    EACH("ud2 with such a stack", "\x48\x94\x0f\x0b");
    EACH("pushf with such a stack", "\x48\x94\x9c");
    EACH("enter with such a stack", "\x48\x94\xc8\x10\x00\x00");
    EACH("base pointer", "\x48\x95\x8a\x45\x00");
}

static void instructions(void) {
    PART("instructions");
    RUN("hlt", "\xf4");
    RUN("cli", "\xfa");
    RUN("sti", "\xfb");
    RUN("in imm", "\xe4\x80");
    RUN("in dx", "\xec");
    RUN("out imm", "\xe6\x80");
    RUN("out dx", "\xee");
    RUN("insb", "\x6c");
    RUN("outsb", "\x6e");
    RUN("rep outsb, 0 times", "\xf3\x6e");
    RUN("invd", "\x0f\x08");
    RUN("wbinvd", "\x0f\x09");
    RUN("clts", "\x0f\x06");
    RUN("mov rax, cr0", "\x0f\x20\xc0");
    RUN("mov cr3, rax", "\x0f\x22\xd8");
    RUN("mov rax, cr8", "\x44\x0f\x20\xc0");
    RUN("mov rax, dr7", "\x0f\x21\xf8");
    RUN("mov dr0, rax", "\x0f\x23\xc0");
    RUN("rdmsr", "\x0f\x32");
    RUN("wrmsr", "\x0f\x30");
    RUN("lgdt", "\x0f\x01\x14\x24");
    RUN("lidt", "\x0f\x01\x1c\x24");
    RUN("lmsw", "\x0f\x01\xf0");
    RUN("invlpg", "\x0f\x01\x38");
    RUN("lldt", "\x0f\x00\xd0");
    RUN("ltr", "\x0f\x00\xd8");
    RUN("swapgs", "\x0f\x01\xf8");
    RUN("sysret", "\x48\x0f\x07");
    RUN("sysexit", "\x0f\x35");
    RUN("xsetbv", "\x0f\x01\xd1");
    RUN("clac", "\x0f\x01\xca");
    RUN("rsm", "\x0f\xaa");
    RUN("into", "\xce");
    RUN("bound", "\x62\x00");
    RUN("daa", "\x27");
    RUN("push cs", "\x0e");
    RUN("les", "\xc4\x00");
    RUN("far jump", "\xea\x00\x00\x00\x00\x33\x00");
    RUN("ud0", "\x0f\xff\xc0");
    RUN("ud1", "\x0f\xb9\xc0");
    RUN("ud2", "\x0f\x0b");
    RUN("lock nop", "\xf0\x90");
    RUN("lock int", "\xf0\xcd\x05");
    RUN("int3", "\xcc");
    RUN("prefixed int3", "\x66\xcc");
    RUN("prefixed int", "\x66\x48\xcd\x07");
    RUN("too long", "\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90");
    RUN("div 0", "\xf7\xf1");
    RUN("idiv 0", "\x48\xf7\xf9");
    RUN("cmpxchg16b, not aligned", "\x48\x8d\x7c\x24\xf1\x48\x0f\xc7\x0f");
    RUN("movaps, not aligned", "\x48\x8d\x7c\x24\xf1\x0f\x29\x07");
    RUN("mov cs, ax", "\x8e\xc8");
    RUN("mov ss, 0", "\x8e\xd0");
    WITH(0x10, "mov ss", "\x8e\xd0");
    WITH(0x33, "mov ss", "\x8e\xd0");
    WITH(0xfff3, "mov ss", "\x8e\xd0");
    WITH(0x10, "mov ds", "\x8e\xd8");
    WITH(0xfff3, "mov es", "\x8e\xc0");
    WITH(0xfff3, "mov gs", "\x8e\xe8");
    WITH(0x2b, "mov ss", "\x8e\xd0");
    // push 0x2b; push rsp; pushf; push rax (cs); push rip; iretq
    WITH(0, "iretq, cs", "\x48\x89\xe1\x6a\x2b\x51\x9c\x50\x6a\x10\x48\xcf");
    WITH(0x10, "iretq, cs", "\x48\x89\xe1\x6a\x2b\x51\x9c\x50\x6a\x10\x48\xcf");
    WITH(0xfff3, "iretq, cs", "\x48\x89\xe1\x6a\x2b\x51\x9c\x50\x6a\x10\x48\xcf");
    WITH(0x10, "iretq, ss", "\x48\x89\xe1\x50\x51\x9c\x6a\x33\x6a\x10\x48\xcf");
    WITH(0, "lretq, cs", "\x50\x6a\x10\x48\xcb");
    WITH(0x10, "lretq, cs", "\x50\x6a\x10\x48\xcb");
    // NT: pushf; or word [rsp], 0x4000; popf; iretq
    RUN("iretq, nested task", "\x9c\x66\x81\x0c\x24\x00\x40\x9d\x48\xcf");
    RUN("x87 divide", "\x9b\xdb\xe3\x48\x83\xec\x08\x66\xc7\x04\x24\x7b\x03\xd9\x2c\x24\x48\x83\xc4\x08\xd9\xe8\xd9\xee\xde\xf9\x9b");
    __asm__ volatile("fninit");
    RUN("x87 stack", "\x9b\xdb\xe3\x48\x83\xec\x08\x66\xc7\x04\x24\x7e\x03\xd9\x2c\x24\x48\x83\xc4\x08\xdd\xd8\x9b");
    __asm__ volatile("fninit");
    PART("alignment check");
    // pushf; or dword [rsp], 0x40000; popf; mov rdi, rsp; inc rdi; mov eax, [rdi]
    RUN("a load", "\x9c\x81\x0c\x24\x00\x00\x04\x00\x9d\x48\x89\xe7\x48\xff\xc7\x8b\x07");
    RUN("a push", "\x9c\x81\x0c\x24\x00\x00\x04\x00\x9d\x48\x89\xe7\x48\xff\xcc\x50");
}

// Where software-nested KVM decodes the instruction itself, code and address may be others, but the signal comes.
static void strange(void) {
    PART("some signal");
    quiet = true;
    // push ss; push rsp+8; pushf; push cs 0x33; push rax; iretq
    EACH("iretq", "\x48\x89\xe1\x6a\x2b\x51\x9c\x6a\x33\x50\x48\xcf");
    EACH("lretq", "\x6a\x33\x50\x48\xcb\x90");
    EACH("fxrstor", "\x0f\xae\x08");
    RUN("mov rax, cr1", "\x0f\x20\xc8");
    RUN("monitor", "\x0f\x01\xc8");
    RUN("mwait", "\x0f\x01\xc9");
    RUN("int1", "\xf1");
    RUN("int 0x17", "\xcd\x17");
    RUN("int 0x19", "\xcd\x19");
    RUN("int 0x1a", "\xcd\x1a");
    RUN("vmcall", "\x0f\x01\xc1");
    RUN("vmmcall", "\x0f\x01\xd9");
    RUN("sysenter", "\x0f\x34");
    // push 0x2b; push rsp; pushf; push rax (cs); push rip; iretq
    WITH(0x2b, "iretq, cs", "\x48\x89\xe1\x6a\x2b\x51\x9c\x50\x6a\x10\x48\xcf");
    WITH(0x33, "iretq, ss", "\x48\x89\xe1\x50\x51\x9c\x6a\x33\x6a\x10\x48\xcf");
    quiet = false;
}

static void interrupts(void) {
    PART("int n");
    for (int n = 0; n < 256; n++) {
        // These are for 32-bit programs and for virtual machines.
        if (n == 0x80 || n == 0x17 || n == 0x19 || n == 0x1a) continue;
        char code[] = {(char)0xcd, (char)n}, what[16];
        sprintf(what, "int %#x", n);
        run(what, code, 2, 0);
    }
}

int main(void) {
    no_core_files();
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    listen();
    ways_to_bad_places();
    instructions();
    interrupts();
    strange();
    return 0;
}

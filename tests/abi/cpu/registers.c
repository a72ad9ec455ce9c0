// What a system call preserves: every general register but rax, rcx and r11, the vector registers, the x87 state, the
// flags, and the red zone below the stack pointer. First through the site's first run, then through later ones.
#include "check.h"

struct state {
    unsigned long rbx, rbp, rdi, rsi, rdx, r8, r9, r10, r12, r13, r14, r15, rsp_change, flags;
    unsigned char xmm[16][16] __attribute__((aligned(16)));
    unsigned long red_zone[16];
    long result;
};

// Fills everything with a pattern, runs one system call, and stores what it finds.
// rdi: struct state *out, rsi: number of the call, rdx: pointer to patterns (16 vectors).
asm(".text\n"
    ".globl probe\n"
    "probe:\n"
    "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "  mov %rdi, saved_out(%rip)\n"
    "  mov %rsi, %rax\n"
    "  movdqa 0x00(%rdx), %xmm0; movdqa 0x10(%rdx), %xmm1; movdqa 0x20(%rdx), %xmm2; movdqa 0x30(%rdx), %xmm3\n"
    "  movdqa 0x40(%rdx), %xmm4; movdqa 0x50(%rdx), %xmm5; movdqa 0x60(%rdx), %xmm6; movdqa 0x70(%rdx), %xmm7\n"
    "  movdqa 0x80(%rdx), %xmm8; movdqa 0x90(%rdx), %xmm9; movdqa 0xa0(%rdx), %xmm10; movdqa 0xb0(%rdx), %xmm11\n"
    "  movdqa 0xc0(%rdx), %xmm12; movdqa 0xd0(%rdx), %xmm13; movdqa 0xe0(%rdx), %xmm14; movdqa 0xf0(%rdx), %xmm15\n"
    "  mov $0x1111, %ebx; mov $0x2222, %ebp; mov $0x6666, %r8d; mov $0x7777, %r9d; mov $0x8888, %r10d\n"
    "  mov $0x9999, %r12d; mov $0xaaaa, %r13d; mov $0xbbbb, %r14d; mov $0xcccc, %r15d\n"
    "  mov $-1, %rdi; mov $0x4444, %esi; mov $0x5555, %edx\n"
    "  movq $0xaa01, -8(%rsp); movq $0xaa02, -16(%rsp); movq $0xaa03, -24(%rsp); movq $0xaa04, -32(%rsp)\n"
    "  movq $0xaa05, -40(%rsp); movq $0xaa06, -48(%rsp); movq $0xaa07, -56(%rsp); movq $0xaa08, -64(%rsp)\n"
    "  movq $0xaa09, -72(%rsp); movq $0xaa0a, -80(%rsp); movq $0xaa0b, -88(%rsp); movq $0xaa0c, -96(%rsp)\n"
    "  movq $0xaa0d, -104(%rsp); movq $0xaa0e, -112(%rsp); movq $0xaa0f, -120(%rsp); movq $0xaa10, -128(%rsp)\n"
    "  mov %rsp, saved_sp(%rip)\n"
    "  stc\n"
    "  std\n"
    "  syscall\n"
    "  mov saved_out(%rip), %rcx\n"
    "  mov %rax, 496(%rcx)\n"
    "  mov %rsp, %rax\n"
    "  lea 1024(%rsp), %rsp\n"
    "  lea -1024(%rsp), %rsp\n"
    "  mov %rbx, 0(%rcx); mov %rbp, 8(%rcx); mov %rdi, 16(%rcx); mov %rsi, 24(%rcx); mov %rdx, 32(%rcx)\n"
    "  mov %r8, 40(%rcx); mov %r9, 48(%rcx); mov %r10, 56(%rcx); mov %r12, 64(%rcx); mov %r13, 72(%rcx)\n"
    "  mov %r14, 80(%rcx); mov %r15, 88(%rcx)\n"
    "  mov -8(%rsp), %rdx; mov %rdx, 368(%rcx); mov -16(%rsp), %rdx; mov %rdx, 376(%rcx)\n"
    "  mov -24(%rsp), %rdx; mov %rdx, 384(%rcx); mov -32(%rsp), %rdx; mov %rdx, 392(%rcx)\n"
    "  mov -40(%rsp), %rdx; mov %rdx, 400(%rcx); mov -48(%rsp), %rdx; mov %rdx, 408(%rcx)\n"
    "  mov -56(%rsp), %rdx; mov %rdx, 416(%rcx); mov -64(%rsp), %rdx; mov %rdx, 424(%rcx)\n"
    "  mov -72(%rsp), %rdx; mov %rdx, 432(%rcx); mov -80(%rsp), %rdx; mov %rdx, 440(%rcx)\n"
    "  mov -88(%rsp), %rdx; mov %rdx, 448(%rcx); mov -96(%rsp), %rdx; mov %rdx, 456(%rcx)\n"
    "  mov -104(%rsp), %rdx; mov %rdx, 464(%rcx); mov -112(%rsp), %rdx; mov %rdx, 472(%rcx)\n"
    "  mov -120(%rsp), %rdx; mov %rdx, 480(%rcx); mov -128(%rsp), %rdx; mov %rdx, 488(%rcx)\n"
    "  pushf; pop %rdx; mov %rdx, 104(%rcx)\n"
    "  cld\n"
    "  sub saved_sp(%rip), %rax; mov %rax, 96(%rcx)\n"
    "  movdqa %xmm0, 0x70(%rcx); movdqa %xmm1, 0x80(%rcx); movdqa %xmm2, 0x90(%rcx); movdqa %xmm3, 0xa0(%rcx)\n"
    "  movdqa %xmm4, 0xb0(%rcx); movdqa %xmm5, 0xc0(%rcx); movdqa %xmm6, 0xd0(%rcx); movdqa %xmm7, 0xe0(%rcx)\n"
    "  movdqa %xmm8, 0xf0(%rcx); movdqa %xmm9, 0x100(%rcx); movdqa %xmm10, 0x110(%rcx); movdqa %xmm11, 0x120(%rcx)\n"
    "  movdqa %xmm12, 0x130(%rcx); movdqa %xmm13, 0x140(%rcx); movdqa %xmm14, 0x150(%rcx); movdqa %xmm15, 0x160(%rcx)\n"
    "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
    "  ret\n"
    ".data\n"
    "saved_out: .quad 0\n"
    "saved_sp: .quad 0\n"
    ".text\n");
_Static_assert(offsetof(struct state, xmm) == 112 && offsetof(struct state, red_zone) == 368 && offsetof(struct state, result) == 496, "layout");
void probe(struct state *out, long number, const void *patterns);

static void check(const char *name, long number, const unsigned char patterns[16][16]) {
    struct state s;
    memset(&s, 0xee, sizeof s);
    probe(&s, number, patterns);
    int general = s.rbx == 0x1111 && s.rbp == 0x2222 && s.rdi == (unsigned long)-1 && s.rsi == 0x4444 && s.rdx == 0x5555 && s.r8 == 0x6666 &&
                  s.r9 == 0x7777 && s.r10 == 0x8888 && s.r12 == 0x9999 && s.r13 == 0xaaaa && s.r14 == 0xbbbb && s.r15 == 0xcccc;
    int vectors = memcmp(s.xmm, patterns, 256) == 0, zone = 1;
    for (int i = 0; i < 16; i++) zone &= s.red_zone[i] == 0xaa01 + (unsigned long)i;
    printf("%s: general %s, stack %s, vectors %s, red zone %s, carry %lu, direction %lu, result %s\n", name, general ? "kept" : "LOST",
           s.rsp_change == 0 ? "kept" : "LOST", vectors ? "kept" : "LOST", zone ? "kept" : "LOST", s.flags & 1, s.flags >> 10 & 1,
           s.result < 0 ? check_error(-s.result) : "a number");
}

int main(void) {
    unsigned char patterns[16][16] __attribute__((aligned(16)));
    for (int i = 0; i < 256; i++) patterns[i / 16][i % 16] = i * 37 + 11;
    for (int round = 0; round < 3; round++) {
        check("getppid", SYS_getppid, patterns);
        check("close", SYS_close, patterns);
        check("no such call", 9999, patterns);
        check("read", SYS_read, patterns);
        check("sched_yield", SYS_sched_yield, patterns);
        check("stat", SYS_stat, patterns);
        check("rt_sigprocmask", SYS_rt_sigprocmask, patterns);
    }
    for (int i = 0; i < 1000; i++) {
        struct state s;
        probe(&s, SYS_getppid, patterns);
        if (s.rbx != 0x1111 || memcmp(s.xmm, patterns, 256)) {
            puts("lost in the loop");
            break;
        }
    }
    PART("x87 and control words");
    unsigned short control = 0x0f7f, now;
    unsigned mxcsr = 0x7f80, got;
    double top = 0;
    asm volatile("fldcw %0; fldpi; ldmxcsr %1" : : "m"(control), "m"(mxcsr));
    syscall(SYS_getppid);
    syscall(SYS_stat, "/", BAD);
    asm volatile("fnstcw %0; fstpl %1; stmxcsr %2" : "=m"(now), "=m"(top), "=m"(got));
    control = 0x37f;
    mxcsr = 0x1f80;
    asm volatile("fldcw %0; ldmxcsr %1" : : "m"(control), "m"(mxcsr));
    printf("%#x %f %#x\n", now, top, got & ~0x3f);
    PART("rcx and r11 tell of the return");
    unsigned long rcx, r11;
    asm volatile("syscall; 1: lea 1b(%%rip), %%rdx; sub %%rdx, %%rcx" : "=c"(rcx), "=a"(r11) : "a"(SYS_getppid) : "rdx", "r11", "memory");
    N(rcx);
    return 0;
}

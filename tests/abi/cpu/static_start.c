// A static program without the C library's help: the bare entry.
// cflags: -static -nostdlib -nostartfiles -fno-stack-protector -fno-builtin -O1 -DBARE
#ifdef BARE
typedef unsigned long word;
static long call(long n, long a, long b, long c) {
    long r;
    asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
static void say(const char *text) {
    long n = 0;
    while (text[n]) n++;
    call(1, 1, (long)text, n);
}
static void yes(const char *what, int condition) {
    say(what);
    say(condition ? ": yes\n" : ": no\n");
}
asm(".globl _start\n_start: mov %rsp, %rdi; mov %rdx, %rsi; pushf; pop %rdx; mov %rbp, %rcx; and $-16, %rsp; call begin; ud2");
static char zeros[10000];
static int data = 42;
__attribute__((used)) void begin(word *sp, word rdx, word flags, word rbp) {
    yes("the stack is aligned", ((word)sp & 15) == 0);
    yes("argc is 1", sp[0] == 1);
    yes("argv ends", sp[2] == 0);
    yes("rdx is zero", rdx == 0);
    yes("rbp is zero", rbp == 0);
    yes("the direction flag is clear", (flags & 0x400) == 0);
    yes("data is loaded", data == 42);
    int sum = 0;
    for (int i = 0; i < 10000; i++) sum += zeros[i];
    yes("bss is zero", sum == 0);
    word fs;
    call(158, 0x1003, (long)&fs, 0);
    yes("fs is zero", fs == 0);
    unsigned mxcsr;
    asm volatile("stmxcsr %0" : "=m"(mxcsr));
    yes("mxcsr is the default", mxcsr == 0x1f80);
    unsigned short control;
    asm volatile("fnstcw %0" : "=m"(control));
    yes("the x87 control word is the default", control == 0x37f);
    call(231, 0, 0, 0);
}
#endif

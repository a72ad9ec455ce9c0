// Segment registers that a program loads, and the base of GS that it writes: calls, faults, traps, the vDSO and interrupts go
// on as before. What it finds through GS afterwards is not asked for.
// cflags: -mno-red-zone
#include "check.h"

#define NONE 0
#define DATA 0x2b

static sig_atomic_t signals;

static void on_signal(int number) {
    (void)number;
    signals++;
}

static void use_kernel(const char *how) {
    struct timespec now = {0};
    int pair[2];
    char byte = 0;
    bool good = getppid() == syscall(SYS_getppid);
    good &= clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_sec + now.tv_nsec > 0;
    good &= pipe(pair) == 0 && write(pair[1], "x", 1) == 1 && read(pair[0], &byte, 1) == 1 && byte == 'x';
    close(pair[0]);
    close(pair[1]);
    printf("%s: %s\n", how, good ? "all well" : "something failed");
}

static void load(const char *name, int which, unsigned short selector) {
    printf("%s = %#x\n", name, selector);
    switch (which) {
    case 0: __asm__ volatile("mov %0, %%ds" ::"r"(selector)); break;
    case 1: __asm__ volatile("mov %0, %%es" ::"r"(selector)); break;
    case 2: __asm__ volatile("mov %0, %%gs" ::"r"(selector)); break;
    }
}

// Loads GS, or writes its base, and does one thing at once.
static void lose(unsigned long base, bool write) {
    if (write) __asm__ volatile("wrgsbase %0" ::"r"(base) : "memory");
    else __asm__ volatile("mov %0, %%gs" ::"r"((unsigned short)base));
}

static unsigned long words[512] __attribute__((aligned(4096)));

static void each_way(const char *what, unsigned long base, bool write) {
    PART(what);
    long result;
    lose(base, write);
    __asm__ volatile("mov $39, %%eax\n syscall" : "=a"(result)::"rcx", "r11", "memory");
    printf("getpid: %s\n", result == getpid() ? "right" : "wrong");
    signals = 0;
    lose(base, write);
    __asm__ volatile("int3" ::: "memory");
    printf("after int3: %d signals\n", signals);
    lose(base, write);
    unsigned char *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    lose(base, write);
    *fresh = 1;
    munmap(fresh, 4096);
    use_kernel("after a page fault");
    // Long enough for the timer to interrupt.
    lose(base, write);
    for (volatile long i = 0; i < 20 * 1000 * 1000; i++)
        ;
    use_kernel("after interrupts");
    lose(base, write);
    YES(sched_getcpu() >= 0);
    CHILD("a child", {
        lose(base, write);
        raise(SIGTRAP);
        use_kernel("in a child");
    });
}

int main(void) {
    signal(SIGTRAP, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const unsigned short selectors[] = {NONE, 3, DATA};
    static const char *const names[] = {"ds", "es", "gs"};
    for (int which = 0; which < 3; which++) {
        for (size_t i = 0; i < COUNT(selectors); i++) {
            load(names[which], which, selectors[i]);
            use_kernel(names[which]);
            CHILD("a child", use_kernel("in a child"););
        }
    }
    each_way("gs = 0", NONE, false);
    each_way("gs = 0x2b", DATA, false);
    each_way("a base of 0", 0, true);
    each_way("a base where nothing is", 0x10000, true);
    each_way("a base in the upper half", 0xffffffff80000000ul, true);
    PART("a base in the program's own memory");
    signals = 0;
    // Each word leads nowhere: no stack, no gate.
    memset(words, 0x90, sizeof words);
    lose((unsigned long)words, true);
    __asm__ volatile("int3" ::: "memory");
    printf("after int3: %d signals\n", signals);
    use_kernel("then");
    return 0;
}

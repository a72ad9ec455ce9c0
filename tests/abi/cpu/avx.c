// The upper halves of the vector registers survive system calls, signals and switches between processes.
// cflags: -mavx
#include "check.h"

static void handler(int number) {
    (void)number;
    asm volatile("vzeroall" : : : "memory");
}

static int round_trip(int seed, long number) {
    unsigned char in[8][32] __attribute__((aligned(32))), out[8][32] __attribute__((aligned(32)));
    for (int i = 0; i < 256; i++) in[i / 32][i % 32] = i * 7 + seed;
    long result = number;
    asm volatile("vmovdqa 0(%1), %%ymm0; vmovdqa 32(%1), %%ymm1; vmovdqa 64(%1), %%ymm2; vmovdqa 96(%1), %%ymm3;"
                 "vmovdqa 128(%1), %%ymm8; vmovdqa 160(%1), %%ymm9; vmovdqa 192(%1), %%ymm14; vmovdqa 224(%1), %%ymm15;"
                 "syscall;"
                 "vmovdqa %%ymm0, 0(%2); vmovdqa %%ymm1, 32(%2); vmovdqa %%ymm2, 64(%2); vmovdqa %%ymm3, 96(%2);"
                 "vmovdqa %%ymm8, 128(%2); vmovdqa %%ymm9, 160(%2); vmovdqa %%ymm14, 192(%2); vmovdqa %%ymm15, 224(%2);"
                 : "+a"(result)
                 : "r"(in), "r"(out), "D"(0L), "S"(0L), "d"(0L)
                 : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm8", "xmm9", "xmm14", "xmm15");
    return memcmp(in, out, 256) == 0;
}

int main(void) {
    if (!__builtin_cpu_supports("avx")) {
        puts("no AVX");
        return 0;
    }
    int good = 0;
    for (int i = 0; i < 1000; i++) good += round_trip(i, i % 2 ? SYS_getppid : SYS_sched_yield);
    N(good);
    PART("two processes take turns");
    pid_t children[2];
    for (int c = 0; c < 2; c++) {
        children[c] = MUST(fork());
        if (children[c] == 0) {
            good = 0;
            for (int i = 0; i < 2000; i++) good += round_trip(c * 100 + i, SYS_sched_yield);
            _exit(good == 2000 ? 0 : 1);
        }
    }
    for (int c = 0; c < 2; c++) reap("child", children[c]);
    PART("under signals");
    signal(SIGALRM, handler);
    struct itimerval timer = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &timer, NULL);
    good = 0;
    for (int i = 0; i < 3000; i++) good += round_trip(i, SYS_getppid);
    int spins = 0;
    long long end = now_ms() + 150;
    while (now_ms() < end) {
        unsigned char in[32] __attribute__((aligned(32))), out[32] __attribute__((aligned(32)));
        memset(in, 0x5a, 32);
        asm volatile("vmovdqa (%0), %%ymm5; mov $100000, %%ecx; 1: dec %%ecx; jnz 1b; vmovdqa %%ymm5, (%1)" : : "r"(in), "r"(out) : "rcx", "memory", "xmm5");
        spins += memcmp(in, out, 32) != 0;
    }
    printf("%d good, %d spoilt\n", good, spins);
    return 0;
}

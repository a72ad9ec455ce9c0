// Signals of the processor's exceptions, and what siginfo and the context say.
// cflags: -mno-red-zone
#include "check.h"
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static void *expected;

static void handler(int number, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    printf("SIG%s code %d, address %s, trap %lld\n", signal_name(number), info->si_code,
           info->si_addr == expected ? "as expected" : info->si_addr == NULL ? "zero" : (void *)u->uc_mcontext.gregs[REG_RIP] == info->si_addr ? "the instruction" : "other",
           (long long)u->uc_mcontext.gregs[REG_TRAPNO]);
    siglongjmp(back, 1);
}
#define TRY(code) do { printf("%s: ", #code); if (sigsetjmp(back, 1) == 0) { code; puts("nothing"); } } while (0)

static void stepper(int number, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    printf("SIG%s code %d\n", signal_name(number), info->si_code);
    u->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < COUNT(numbers); i++) sigaction(numbers[i], &action, NULL);
    volatile int zero = 0, one = 1;
    expected = (void *)0x1234;
    TRY(*(volatile char *)0x1234 = 1);
    TRY(one = *(volatile char *)0x1234);
    expected = (void *)-1;
    TRY(asm volatile("divl %1" : : "a"(1), "r"(0), "d"(0)));
    TRY(one = one / zero);
    TRY(one = INT_MIN / (zero - 1));
    TRY(asm volatile("ud2"));
    TRY(asm volatile(".byte 0x0f, 0x0b"));
    TRY(asm volatile("int3"));
    TRY(asm volatile("hlt"));
    TRY(asm volatile("cli"));
    TRY(asm volatile("mov %%cr0, %%rax" : : : "rax"));
    TRY(asm volatile("inb $0x80, %%al" : : : "rax"));
    TRY(asm volatile("movb $1, (%0)" : : "r"(0x8000000000000000ul)));
    TRY(((void (*)(void))0x5678)());
    TRY(asm volatile("lidt (%rsp)"));
    TRY(asm volatile("movaps (%0), %%xmm0" : : "r"((char *)__builtin_frame_address(0) + 1)));
    PART("floating point");
    unsigned mxcsr = 0x1f80 & ~0x200;
    volatile double a = 1, b = 0;
    TRY({ asm volatile("ldmxcsr %0" : : "m"(mxcsr)); a = a / b; });
    mxcsr = 0x1f80;
    asm volatile("ldmxcsr %0" : : "m"(mxcsr));
    PART("single step");
    sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = stepper, .sa_flags = SA_SIGINFO}, NULL);
    asm volatile("pushf; orl $0x100, (%%rsp); popf; nop; nop" : : : "memory", "cc");
    puts("stepped");
    PART("without handlers");
    no_core_files();
    for (size_t i = 0; i < COUNT(numbers); i++) signal(numbers[i], SIG_DFL);
    CHILD("divide", asm volatile("divl %1" : : "a"(1), "r"(0), "d"(0)));
    CHILD("ud2", asm volatile("ud2"));
    CHILD("int3", asm volatile("int3"));
    CHILD("null", *(volatile char *)8 = 1);
    CHILD("hlt", asm volatile("hlt"));
    CHILD("trap", __builtin_trap());
    return 0;
}

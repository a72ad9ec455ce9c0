// The main stack grows on demand, ends at its limit, and is not executable.
// cflags: -Wno-infinite-recursion
#include "check.h"
#include <setjmp.h>
#include <sys/resource.h>

static int deep(int depth) {
    volatile char frame[4096];
    memset((char *)frame, depth, sizeof frame);
    if (depth == 0) return frame[100];
    return deep(depth - 1) + (frame[5] == (char)depth);
}

static sigjmp_buf back;
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    siglongjmp(back, number);
}
__attribute__((noinline)) static int endless(int n) {
    volatile char frame[1024];
    frame[0] = n;
    return endless(n + 1) + frame[0];
}

int main(void) {
    N(deep(1000));
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    YES(limit.rlim_cur >= (8 << 20) || limit.rlim_cur == RLIM_INFINITY);
    PART("far below the stack pointer");
    volatile char here;
    volatile char *far = &here - (2 << 20);
    *far = 1;
    N(*far);
    PART("a large system call buffer on untouched stack");
    char big[1 << 20];
    int fd = MUST(open("/dev/zero", O_RDONLY));
    T(read(fd, big, sizeof big));
    N(big[0] + big[sizeof big - 1]);
    PART("overflow");
    no_core_files();
    CHILD("without a handler", endless(0));
    char *other = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = other, .ss_size = 65536};
    T(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    int number = sigsetjmp(back, 1);
    if (number == 0) endless(0);
    printf("SIG%s on the other stack\n", signal_name(number));
    number = sigsetjmp(back, 1);
    if (number == 0) endless(0);
    printf("and again SIG%s\n", signal_name(number));
    PART("no execution");
    unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
    number = sigsetjmp(back, 1);
    if (number == 0) printf("ran %d\n", ((int (*)(void))(void *)code)());
    else printf("SIG%s\n", signal_name(number));
    return 0;
}

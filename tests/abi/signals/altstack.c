// The alternate signal stack.
#include "check.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif
#include <setjmp.h>

static char *area;
static int on_it, in_status;
static sigjmp_buf back;

static void handler(int number) {
    (void)number;
    char here;
    on_it = &here >= area && &here < area + 65536;
    stack_t now;
    sigaltstack(NULL, &now);
    in_status = now.ss_flags;
    stack_t none = {.ss_flags = SS_DISABLE};
    if (on_it) T(sigaltstack(&none, NULL));
}
static void jump(int number) { siglongjmp(back, number); }

int main(void) {
    stack_t stack = {0}, old;
    area = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T(sigaltstack(NULL, &old));
    N(old.ss_flags);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    printf("on it %d, flags %d\n", on_it, in_status);
    stack.ss_sp = area;
    stack.ss_size = 65536;
    T(sigaltstack(&stack, &old));
    raise(SIGUSR1);
    printf("on it %d, flags %d\n", on_it, in_status);
    T(sigaltstack(NULL, &old));
    printf("flags %d size %zu same %d\n", old.ss_flags, old.ss_size, old.ss_sp == area);
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    printf("on it %d, flags %d\n", on_it, in_status);
    PART("errors");
    stack.ss_size = 100;
    T(sigaltstack(&stack, NULL));
    stack.ss_size = 65536;
    stack.ss_flags = 0x100;
    T(sigaltstack(&stack, NULL));
    T(sigaltstack(BAD, NULL));
    T(sigaltstack(NULL, BAD));
    PART("disabled while used");
    stack.ss_flags = SS_AUTODISARM;
    T(sigaltstack(&stack, NULL));
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    printf("on it %d, flags %#x\n", on_it, in_status);
    T(sigaltstack(NULL, &old));
    printf("flags %#x\n", old.ss_flags);
    PART("left by a jump");
    stack.ss_flags = 0;
    sigaltstack(&stack, NULL);
    action.sa_handler = jump;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
    T(sigaltstack(NULL, &old));
    printf("flags %#x\n", old.ss_flags);
    CHILD("kept by fork", { sigaltstack(NULL, &old); printf("flags %#x same %d\n", old.ss_flags, old.ss_sp == area); });
    PART("no room");
    no_core_files();
    CHILD("a stack that is not there", {
        munmap(area, 65536);
        raise(SIGUSR1);
    });
    return 0;
}

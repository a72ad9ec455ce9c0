// Futexes with priority inheritance.
#include "check.h"
#include <linux/futex.h>

static long futex(int *at, int operation, int value, void *timeout, int *second, int third) {
    return syscall(SYS_futex, at, operation, value, timeout, second, third);
}

int main(void) {
    int pi = 0;
    T(futex(&pi, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    YES((pi & FUTEX_TID_MASK) == getpid());
    T(futex(&pi, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    T(futex(&pi, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    N(pi);
    T(futex(&pi, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    return 0;
}

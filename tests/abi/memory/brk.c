// The program break.
// cflags: -static
#include "check.h"

int main(void) {
    char *start = (char *)syscall(SYS_brk, 0);
    YES(start != NULL);
    YES((char *)syscall(SYS_brk, start + 100000) == start + 100000);
    memset(start, 1, 100000);
    YES((char *)syscall(SYS_brk, start + 50000) == start + 50000);
    N(start[49999]);
    YES((char *)syscall(SYS_brk, start + 100000) == start + 100000);
    N(start[57344]);
    N(start[99999]);
    YES((char *)syscall(SYS_brk, 1) == start + 100000);
    YES((char *)syscall(SYS_brk, -1L) == start + 100000);
    YES((char *)syscall(SYS_brk, KERNEL_ADDRESS) == start + 100000);
    YES((char *)syscall(SYS_brk, start + 100000 + (64 << 20)) == start + 100000 + (64 << 20));
    start[100000 + (64 << 20) - 1] = 1;
    char *top = (char *)syscall(SYS_brk, 0);
    char *wall = mmap((void *)(((uintptr_t)top + 8191) & ~4095UL), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    YES(wall != MAP_FAILED);
    YES((char *)syscall(SYS_brk, top + (1 << 20)) == top);
    CHILD("child", {
        YES((char *)syscall(SYS_brk, 0) == top);
        YES((char *)syscall(SYS_brk, start) == start);
    });
    N(start[0]);
    YES((char *)syscall(SYS_brk, 0) == top);
    YES((char *)syscall(SYS_brk, start) == start);
    struct { unsigned long current, maximum; } limit = {1 << 20, -1UL};
    T(syscall(SYS_prlimit64, 0, 2, &limit, NULL));
    YES((char *)syscall(SYS_brk, start + (4 << 20)) == start);
    return 0;
}

// The GS base belongs to the program: arch_prctl and the fsgsbase instructions.
#include "check.h"
#include <sys/auxv.h>

int main(void) {
    unsigned long fs = 0, gs = 99, self;
    T(syscall(SYS_arch_prctl, 0x1003, &fs));
    static unsigned long data[4] = {11, 22, 33, 44};
    T(syscall(SYS_arch_prctl, 0x1001, data));
    T(syscall(SYS_arch_prctl, 0x1004, &gs));
    YES(gs == (unsigned long)data);
    asm("mov %%gs:8, %0" : "=r"(self));
    YES(self == 22);
    sleep_ms(10);
    sched_yield();
    asm("mov %%gs:16, %0" : "=r"(self));
    YES(self == 33);
    CHILD("child", {
        asm("mov %%gs:24, %0" : "=r"(self));
        YES(self == 44);
    });
    PART("fsgsbase instructions");
    if (getauxval(AT_HWCAP2) & 2) {
        asm volatile("rdfsbase %0" : "=r"(self));
        YES(self == fs);
        asm volatile("wrgsbase %0" : : "r"(data + 1));
        syscall(SYS_getppid);
        sched_yield();
        asm volatile("mov %%gs:8, %0" : "=r"(self));
        YES(self == 33);
        asm volatile("wrgsbase %0" : : "r"(0UL));
    }
    return 0;
}

// What the kernel hands to a new program: the auxiliary vector, the vDSO, the initial registers' effects.
#include "check.h"
#include <elf.h>
#include <sys/auxv.h>

extern char **environ;

int main(int argc, char **argv) {
    printf("argc %d\n", argc);
    char **e = environ;
    while (*e) e++;
    Elf64_auxv_t *a = (Elf64_auxv_t *)(e + 1);
    int seen[64] = {0};
    for (; a->a_type != AT_NULL; a++)
        if (a->a_type < 64) seen[a->a_type]++;
    int wanted[] = {AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_FLAGS, AT_ENTRY, AT_UID, AT_EUID, AT_GID, AT_EGID, AT_PLATFORM, AT_HWCAP, AT_CLKTCK, AT_SECURE, AT_RANDOM, AT_HWCAP2, AT_EXECFN, AT_SYSINFO_EHDR};
    for (size_t i = 0; i < COUNT(wanted); i++) printf("type %d: %d times\n", wanted[i], seen[wanted[i]]);
    N(getauxval(AT_PAGESZ));
    N(getauxval(AT_PHENT));
    N(getauxval(AT_CLKTCK));
    N(getauxval(AT_SECURE));
    N(getauxval(AT_FLAGS));
    YES(getauxval(AT_UID) == getuid() && getauxval(AT_EGID) == getegid());
    puts((char *)getauxval(AT_PLATFORM));
    YES(strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0);
    unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
    int sum = 0;
    for (int i = 0; i < 16; i++) sum += random[i];
    YES(sum > 0);
    Elf64_Ehdr *vdso = (Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    YES(vdso && memcmp(vdso->e_ident, ELFMAG, SELFMAG) == 0);
    YES(((uintptr_t)environ & 7) == 0);
    YES(argv[argc] == NULL && (char **)environ == argv + argc + 1);
    PART("arch_prctl");
    unsigned long fs = 0, gs = 99;
    T(syscall(SYS_arch_prctl, 0x1003, &fs));
    unsigned long self;
    asm("mov %%fs:0, %0" : "=r"(self));
    YES(fs == self && fs != 0);
    T(syscall(SYS_arch_prctl, 0x1004, &gs));
    N(gs);
    T(syscall(SYS_arch_prctl, 0x9999, &gs));
    T(syscall(SYS_arch_prctl, 0x1002, KERNEL_ADDRESS));
    PART("processor");
    unsigned short cs, ss;
    asm("mov %%cs, %0; mov %%ss, %1" : "=r"(cs), "=r"(ss));
    printf("%#x %#x\n", cs, ss);
    unsigned eax = 0, ebx, ecx, edx;
    asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx));
    YES(eax >= 7);
    unsigned long long t1, t2;
    t1 = __builtin_ia32_rdtsc();
    t2 = __builtin_ia32_rdtsc();
    YES(t2 >= t1);
    return 0;
}

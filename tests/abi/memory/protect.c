// mprotect: what is allowed afterwards, and what the signal tells of a forbidden access.
#include "check.h"
#include <setjmp.h>

static sigjmp_buf back;
static char *base;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    const char *code = number == SIGSEGV ? (info->si_code == SEGV_MAPERR ? "MAPERR" : info->si_code == SEGV_ACCERR ? "ACCERR" : "?")
                                         : (info->si_code == BUS_ADRERR ? "ADRERR" : "?");
    printf("SIG%s %s", signal_name(number), code);
    if ((char *)info->si_addr >= base && (char *)info->si_addr < base + 65536)
        printf(" at +%ld\n", (long)((char *)info->si_addr - base));
    else printf(" at %p\n", info->si_addr);
    siglongjmp(back, 1);
}

static void try_read(char *at) {
    if (sigsetjmp(back, 1) == 0) printf("read %d\n", *(volatile char *)at);
}
static void try_write(char *at) {
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)at = 9;
        puts("written");
    }
}
static void try_run(char *at) {
    if (sigsetjmp(back, 1) == 0) printf("ran %d\n", ((int (*)(void))at)());
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    base = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base[0] = 1;
    T(mprotect(base, 4096, PROT_READ));
    try_read(base);
    try_write(base + 5);
    T(mprotect(base, 4096, PROT_NONE));
    try_read(base + 7);
    try_write(base + 8);
    T(mprotect(base, 4096, PROT_READ | PROT_WRITE));
    try_write(base);
    try_read(base);
    PART("never touched");
    T(mprotect(base + 8192, 8192, PROT_READ));
    try_read(base + 8192);
    try_write(base + 8193);
    T(mprotect(base + 8192, 4096, PROT_WRITE));
    try_write(base + 8192);
    try_write(base + 12288);
    PART("unmapped");
    munmap(base + 16384, 4096);
    try_read(base + 16384);
    try_write(base + 20479);
    try_read(base + 20480);
    T(mprotect(base + 12288, 12288, PROT_READ | PROT_WRITE));
    try_write(base + 12289);
    try_write(base + 20480);
    try_read((char *)0);
    try_read((char *)8);
    PART("execution");
    memcpy(base + 24576, "\xb8\x2a\x00\x00\x00\xc3", 6);
    try_run(base + 24576);
    T(mprotect(base + 24576, 4096, PROT_READ | PROT_EXEC));
    try_run(base + 24576);
    try_write(base + 24577);
    T(mprotect(base + 24576, 4096, PROT_READ));
    try_run(base + 24576);
    PART("errors");
    T(mprotect(base + 1, 4096, PROT_READ));
    T(mprotect(base, 0, PROT_READ));
    T(mprotect(base, 4096, 0x1000));
    T(mprotect(base, SIZE_MAX, PROT_READ));
    T(mprotect((void *)0x10000000000, 4096, PROT_READ));
    T(mprotect(base, 4096, PROT_READ | PROT_GROWSDOWN));
    put_file("f", "file");
    int fd = MUST(open("f", O_RDONLY));
    char *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    T(mprotect(shared, 4096, PROT_READ | PROT_WRITE));
    char *private = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    T(mprotect(private, 4096, PROT_READ | PROT_WRITE));
    private[0] = 'F';
    printf("%.4s\n", private);
    PART("a system call meets protected memory");
    T(mprotect(base + 32768, 4096, PROT_NONE));
    T(read(fd, base + 32768, 4));
    T(mprotect(base + 32768, 4096, PROT_READ));
    T(read(fd, base + 32768, 4));
    T(write(1, base + 36864 - 4, 0));
    T(lseek(fd, 0, SEEK_CUR));
    T(read(fd, base + 32768 - 2, 4));
    T(lseek(fd, 0, SEEK_CUR));
    PART("without a handler");
    no_core_files();
    signal(SIGSEGV, SIG_DFL);
    CHILD("read", *(volatile char *)base = *(volatile char *)8);
    CHILD("write", base[32768] = 1);
    CHILD("ignored", { signal(SIGSEGV, SIG_IGN); base[32768] = 1; });
    CHILD("blocked", {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGSEGV);
        sigprocmask(SIG_BLOCK, &set, NULL);
        sigaction(SIGSEGV, &action, NULL);
        base[32768] = 1;
    });
    return 0;
}

// Memory of other processes, and limits of locked memory.
#include "check.h"
#include <sys/resource.h>

static long advise(int pidfd, struct iovec *vector, size_t count, int advice, unsigned flags) {
    return syscall(SYS_process_madvise, pidfd, vector, count, advice, flags);
}

int main(void) {
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(page + 4096, 4096));
    strcpy(page, "the parent's text");
    int go[2];
    MUST(pipe(go));
    pid_t child = MUST(fork());
    if (child == 0) {
        char byte;
        strcpy(page, "the child's text");
        close(go[1]);
        if (read(go[0], &byte, 1) < 0) _exit(1);
        printf("child: %s\n", page);
        _exit(0);
    }
    while (1) {
        char seen[4] = "";
        struct iovec to = {seen, 4}, from = {page + 4, 4};
        if (process_vm_readv(child, &to, 1, &from, 1, 0) == 4 && memcmp(seen, "chil", 4) == 0) break;
        sleep_ms(1);
    }

    PART("reading");
    char a[10] = "", b[20] = "";
    struct iovec to[3] = {{a, 4}, {NULL, 0}, {b, 12}}, from[2] = {{page + 4, 7}, {page, 3}};
    T(process_vm_readv(child, to, 3, from, 2, 0));
    printf("\"%s\" \"%s\"\n", a, b);
    struct iovec beyond[2] = {{page + 4090, 12}, {page, 3}};
    T(process_vm_readv(child, to, 3, beyond, 2, 0) > 0);
    struct iovec bad = {BAD, 4};
    T(process_vm_readv(child, to, 1, &bad, 1, 0));
    T(process_vm_readv(child, &bad, 1, from, 1, 0));
    T(process_vm_readv(child, BAD, 1, from, 1, 0));
    T(process_vm_readv(child, to, 1, BAD, 1, 0));
    T(process_vm_readv(child, to, 1, from, 1, 1));
    T(process_vm_readv(child, to, 2000, from, 1, 0));
    T(process_vm_readv(child, to, 1, from, 0, 0));
    T(process_vm_readv(child, to, 0, BAD, 1, 0));
    T(process_vm_readv(1 << 30, to, 1, from, 1, 0));
    T(process_vm_readv(getpid(), to, 1, from, 1, 0));
    if (getuid() == 0)
        CHILD("nobody", MUST(setgid(65534)); MUST(setuid(65534)); T(process_vm_readv(child, to, 1, from, 1, 0)));
    else
        puts("not root");

    PART("writing");
    struct iovec text = {"CHILD", 5}, place = {page + 4, 5};
    T(process_vm_writev(child, &text, 1, &place, 1, 0));
    T(process_vm_writev(child, &text, 1, &bad, 1, 0));
    printf("parent: %s\n", page);

    PART("advice");
    int pidfd = MUST(syscall(SYS_pidfd_open, child, 0));
    struct iovec range = {page, 4096}, odd = {page + 1, 4096};
    T(advise(pidfd, &range, 1, MADV_COLD, 0));
    T(advise(pidfd, &range, 1, MADV_COLD, 1));
    T(advise(pidfd, &odd, 1, MADV_COLD, 0));
    T(advise(pidfd, &range, 1, 99, 0));
    T(advise(-1, &range, 1, MADV_COLD, 0));
    T(advise(0, &range, 1, MADV_COLD, 0));
    T(syscall(SYS_process_mrelease, pidfd, 1));
    T(syscall(SYS_process_mrelease, pidfd, 0));
    T(syscall(SYS_process_mrelease, -1, 0));
    MUST(write(go[1], "x", 1));
    reap("child", child);
    T(process_vm_readv(child, to, 1, from, 1, 0));

    PART("locked");
    struct rlimit none = {0, 0}, some = {8192, 8192};
    char *room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (getuid() == 0) {
        CHILD("nothing", setrlimit(RLIMIT_MEMLOCK, &none); MUST(setuid(65534)); T(mlock(room, 1)); T(mlockall(MCL_FUTURE));
              T(munlock(room, 1)));
        CHILD("little", setrlimit(RLIMIT_MEMLOCK, &some); MUST(setuid(65534)); T(mlock(room, 8192)); T(mlock(room, 16384));
              T(mlock(room + 8192, 4096)); T(munlock(room, 4096)); T(mlock(room + 8192, 4096)));
    } else
        puts("not root");
    return 0;
}

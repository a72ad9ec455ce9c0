// System calls in code that did not come with the program: written at run time, changed, moved, loaded, unmapped.
// cflags: -ldl
#include "check.h"
#include <dlfcn.h>

// mov eax, number; syscall; ret
static void write_call(unsigned char *at, int number) {
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
    memcpy(code + 1, &number, 4);
    memcpy(at, code, sizeof code);
}
typedef long (*call)(void);
typedef long (*call1)(long);

int main(void) {
    long parent = getppid(), self = getpid();
    PART("anonymous memory, writable and executable");
    unsigned char *rwx = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_call(rwx, SYS_getppid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)rwx)() == parent);
    unsigned char back[8] = {0};
    memcpy(back, rwx, 8);
    PART("changed in place");
    write_call(rwx, SYS_getpid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)rwx)() == self);
    memcpy(rwx, "\xb8\x2a\x00\x00\x00\xc3", 6);
    for (int i = 0; i < 2; i++) N(((call)(void *)rwx)());
    write_call(rwx, SYS_getppid);
    YES(((call)(void *)rwx)() == parent);
    PART("only what follows is changed");
    unsigned char follow[] = {0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0xb8, 1, 0, 0, 0, 0xc3};
    memcpy(rwx + 64, follow, sizeof follow);
    for (int i = 0; i < 2; i++) N(((call)(void *)(rwx + 64))());
    rwx[64 + 8] = 2;
    for (int i = 0; i < 2; i++) N(((call)(void *)(rwx + 64))());
    PART("copied to another place");
    memcpy(rwx + 4096, rwx, 128);
    for (int i = 0; i < 2; i++) YES(((call)(void *)(rwx + 4096))() == parent);
    PART("written, then made executable");
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        write_call(page, i % 2 ? SYS_getpid : SYS_getppid);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        for (int j = 0; j < 3; j++)
            if (((call)(void *)page)() != (i % 2 ? self : parent)) puts("wrong");
    }
    puts("five times");
    PART("unmapped, and something else put there");
    munmap(page, 4096);
    unsigned char *again = mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    N(again[0] + again[5]);
    write_call(again, SYS_getpid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)again)() == self);
    PART("two mappings of the same file");
    int fd = MUST(memfd_create("code", 0));
    MUST(ftruncate(fd, 4096));
    unsigned char *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    write_call(w, SYS_getppid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)x)() == parent);
    unsigned char expected[8] = {0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0xc3};
    YES(memcmp(w, expected, 8) == 0);
    write_call(w, SYS_getpid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)x)() == self);
    char bytes[8];
    T(pread(fd, bytes, 8, 0));
    YES(bytes[5] == 0x0f && bytes[6] == 0x05);
    PART("a private file mapping does not change the file");
    fd = MUST(open("code", O_CREAT | O_RDWR, 0755));
    MUST(ftruncate(fd, 4096));
    unsigned char file_code[8];
    write_call(file_code, SYS_getppid);
    pwrite(fd, file_code, 8, 0);
    x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    for (int i = 0; i < 3; i++) YES(((call)(void *)x)() == parent);
    T(pread(fd, bytes, 8, 0));
    YES(memcmp(bytes, file_code, 8) == 0);
    PART("moved by mremap");
    x = mremap(x, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int i = 0; i < 2; i++) YES(((call)(void *)x)() == parent);
    PART("far away from everything");
    unsigned char *far = mmap((void *)0x123456780000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    write_call(far, SYS_getppid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)far)() == parent);
    unsigned char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    write_call(low, SYS_getppid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)low)() == parent);
    PART("in a child");
    CHILD("child", {
        YES(((call)(void *)far)() == self);
        write_call(far, SYS_getpid);
        YES(((call)(void *)far)() == getpid());
    });
    YES(((call)(void *)far)() == parent);
    PART("on the stack");
    unsigned char stack_code[16] __attribute__((aligned(16)));
    uintptr_t stack_page = (uintptr_t)stack_code & ~4095UL;
    T(mprotect((void *)stack_page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
    write_call(stack_code, SYS_getppid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)stack_code)() == parent);
    PART("a loaded library");
    void *library = dlopen("libm.so.6", RTLD_NOW);
    YES(library != NULL);
    double (*cosine)(double) = library ? (double (*)(double))dlsym(library, "cos") : NULL;
    if (cosine) printf("%.3f\n", cosine(0));
    PART("thousands of sites");
    size_t count = 5000;
    unsigned char *many = mmap(NULL, count * 8, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < count; i++) write_call(many + i * 8, SYS_getppid);
    size_t good = 0;
    for (size_t i = 0; i < count; i++) good += ((call)(void *)(many + i * 8))() == parent;
    for (size_t i = 0; i < count; i++) good += ((call)(void *)(many + i * 8))() == parent;
    N(good);
    PART("a site that cannot be read");
    unsigned char *only = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_call(only, SYS_getppid);
    mprotect(only, 4096, PROT_EXEC);
    for (int i = 0; i < 2; i++) YES(((call)(void *)only)() == parent);
    PART("at the end of a mapping");
    unsigned char *pair = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pair + 4096, 4096);
    write_call(pair + 4096 - 8, SYS_getppid);
    for (int i = 0; i < 3; i++) YES(((call)(void *)(pair + 4096 - 8))() == parent);
    (void)back;
    return 0;
}

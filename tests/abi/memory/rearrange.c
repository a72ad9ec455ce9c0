// remap_file_pages(2): pages of a shared mapping in another order.
#include "check.h"

#define PAGE 4096

static char *mapping;

static void show(void) {
    for (int i = 0; i < 6; i++) putchar(mapping[i * PAGE]);
    putchar('\n');
}

static long rearrange(int page, int pages, int prot, unsigned long from, int flags) {
    return syscall(SYS_remap_file_pages, mapping + page * PAGE, pages * PAGE, prot, from, flags);
}

static void all(void) {
    show();
    T(rearrange(0, 1, 0, 5, 0));
    T(rearrange(5, 1, 0, 0, MAP_NONBLOCK));
    show();
    T(rearrange(1, 3, 0, 2, 0));
    show();
    mapping[0] = 'X';
    mapping[2 * PAGE] = 'Y';
    show();
    T(rearrange(0, 6, 0, 0, 0));
    show();
    T(rearrange(0, 2, 0, 1, 0));
    show();
    T(rearrange(0, 1, PROT_READ, 0, 0));
    T(rearrange(0, 0, 0, 0, 0));
    T(rearrange(0, 1, 0, -1UL, 0));
    T(rearrange(0, 1, 0, -2UL, 0));
    T(rearrange(0, 1, 0, (1UL << 51) - 1, 0));
    // Sizes and places that no mapping has.
    T(syscall(SYS_remap_file_pages, mapping, -1UL / 2 + 1, 0, 0, 0));
    T(syscall(SYS_remap_file_pages, mapping, -1UL / 4 * 3, 0, 0, 0));
    T(syscall(SYS_remap_file_pages, PAGE, -1UL - 4 * PAGE, 0, 0, 0));
    T(syscall(SYS_remap_file_pages, PAGE, PAGE, 0, 1UL << 52, 0));
    T(rearrange(4, 3, 0, 0, 0));
    T(rearrange(6, 1, 0, 0, 0));
    T(rearrange(6, 1, 0, -2UL, 0));
    MUST(mprotect(mapping + PAGE, PAGE, PROT_READ));
    T(rearrange(0, 2, 0, 0, 0));
    T(rearrange(1, 1, 0, 3, 0));
    show();
    CHILD("store", mapping[PAGE] = 1);
    MUST(munmap(mapping + 3 * PAGE, PAGE));
    T(rearrange(2, 3, 0, 0, 0));
    T(rearrange(3, 1, 0, 0, 0));
}

int main(void) {
    no_core_files();
    PART("file");
    int fd = MUST(open("pages", O_CREAT | O_RDWR, 0600));
    for (int i = 0; i < 6; i++) MUST(pwrite(fd, &"abcdef"[i], 1, i * PAGE));
    MUST(ftruncate(fd, 6 * PAGE));
    mapping = mmap(NULL, 7 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(munmap(mapping + 6 * PAGE, PAGE));
    all();
    char byte;
    MUST(pread(fd, &byte, 1, 5 * PAGE));
    printf("%c\n", byte);

    PART("memory");
    mapping = mmap(NULL, 7 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(mapping + 6 * PAGE, PAGE));
    for (int i = 0; i < 6; i++) mapping[i * PAGE] = 'a' + i;
    all();

    PART("private");
    mapping = mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T(rearrange(0, 1, 0, 1, 0));
    mapping = mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    T(rearrange(0, 1, 0, 1, 0));
    return 0;
}

// Times of a file that a program stores to through a shared mapping. Linux changes them at the first store to a page that is
// clean and not yet writable in the mapping; what later stores change depends on the file system, and is not asked here. The
// pages lie far from each other.
#include "check.h"

enum { FAR = 2 << 20, SIZE = 8 * FAR };
static int fd;

static void set_old(void) {
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    MUST(futimens(fd, times));
}

static void show(void) {
    struct stat open, named;
    MUST(fstat(fd, &open));
    MUST(stat("f", &named));
    printf("modified %s, by name %s\n", open.st_mtime == 2000 ? "before" : "now", named.st_mtime == 2000 ? "before" : "now");
}

int main(void) {
    fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
    MUST(ftruncate(fd, SIZE));
    for (int round = 0; round < 3; round++) {
        PART("a new mapping, a store");
        char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        set_old();
        show();
        p[0] = round + 1;
        show();
        T(msync(p, SIZE, MS_SYNC));
        show();
        PART("no store");
        set_old();
        T(msync(p, SIZE, MS_SYNC));
        show();
        PART("a store to another page");
        p[FAR] = 1;
        show();
        T(msync(p, SIZE, MS_SYNC));
        show();
        PART("a store, unmapped");
        set_old();
        p[2 * FAR] = 1;
        MUST(munmap(p, SIZE));
        show();
    }
    PART("a store by a child");
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    set_old();
    show();
    CHILD("child", { p[4 * FAR] = 1; });
    show();
    PART("a private mapping");
    char *own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    set_old();
    own[5 * FAR] = 1;
    show();
    return 0;
}

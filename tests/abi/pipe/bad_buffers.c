// Buffers of pipe calls of which a part is bad: what is moved, and what stays.
#include "../check.h"

int main(void) {
    int p[2];
    MUST(pipe(p));
    char *page = mmap(NULL, 3 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(page + 4096, 4096));
    memset(page, 'a', 4096);
    memset(page + 8192, 'b', 4096);
    int n;
#define LEFT() (ioctl(p[0], FIONREAD, &n), printf("   in the pipe %d\n", n))
    char rest[65536];
#define DRAIN() do { ioctl(p[0], FIONREAD, &n); if (n > 0) MUST(read(p[0], rest, sizeof rest)); } while (0)
    PART("vmsplice");
    struct iovec bad2[] = {{page, 100}, {page + 4096, 100}, {page + 8192, 100}};
    T(vmsplice(p[1], bad2, 2, 0)); LEFT(); DRAIN();
    T(vmsplice(p[1], bad2, 3, 0)); LEFT(); DRAIN();
    T(vmsplice(p[1], bad2 + 1, 2, 0)); LEFT(); DRAIN();
    struct iovec cross[] = {{page + 4000, 200}};
    T(vmsplice(p[1], cross, 1, 0)); LEFT(); DRAIN();
    struct iovec cross2[] = {{page, 100}, {page + 4000, 200}, {page + 8192, 100}};
    T(vmsplice(p[1], cross2, 3, 0)); LEFT(); DRAIN();
    struct iovec kernel[] = {{page, 100}, {KERNEL_ADDRESS, 100}};
    T(vmsplice(p[1], kernel, 2, 0)); LEFT(); DRAIN();
    struct iovec null[] = {{page, 100}, {NULL, 0}, {page + 8192, 10}};
    T(vmsplice(p[1], null, 3, 0)); LEFT(); DRAIN();
    struct iovec nulls[] = {{page, 100}, {NULL, 10}, {page + 8192, 10}};
    T(vmsplice(p[1], nulls, 3, 0)); LEFT(); DRAIN();
    // Out of the pipe.
    MUST(write(p[1], rest, 250));
    T(vmsplice(p[0], bad2, 2, 0)); LEFT();
    T(vmsplice(p[0], bad2 + 1, 2, 0)); LEFT();
    DRAIN();
    MUST(write(p[1], rest, 250));
    T(vmsplice(p[0], cross, 1, 0)); LEFT();
    DRAIN();
    MUST(write(p[1], rest, 250));
    T(readv(p[0], bad2, 2)); LEFT();
    T(readv(p[0], bad2 + 1, 2)); LEFT();
    DRAIN();
    T(writev(p[1], bad2, 3)); LEFT(); DRAIN();
    T(writev(p[1], cross, 1)); LEFT(); DRAIN();
    return 0;
}

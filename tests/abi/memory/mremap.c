// mremap: shrinking, growing in place, moving, fixed targets, files.
#include "check.h"

#define M(call) check_ok(#call, (errno = 0, (call) == MAP_FAILED ? -1L : 0L))

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, prot = PROT_READ | PROT_WRITE;
    char *area = mmap(NULL, 1 << 20, prot, flags, -1, 0);
    munmap(area, 1 << 20);
    char *p = mmap(area, 16384, prot, flags | MAP_FIXED, -1, 0);
    for (int i = 0; i < 16384; i++) p[i] = i / 4096 + 1;
    YES(mremap(p, 16384, 8192, 0) == p);
    T(munmap(p + 8192, 8192));
    N(p[8191]);
    YES(mremap(p, 8192, 32768, 0) == p);
    N(p[0] + p[4096] + p[8192]);
    mmap(p + 32768, 4096, prot, flags | MAP_FIXED, -1, 0);
    M(mremap(p, 32768, 65536, 0));
    char *q = mremap(p, 32768, 65536, MREMAP_MAYMOVE);
    YES(q != MAP_FAILED && q != p);
    N(q[0] + q[4096]);
    T(mprotect(p, 4096, PROT_READ));
    q[65535] = 5;
    PART("fixed");
    char *target = mmap(NULL, 65536, prot, flags, -1, 0);
    target[0] = 99;
    YES(mremap(q, 65536, 65536, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    N(target[0] + target[65535]);
    M(mremap(target, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, target + 4096));
    M(mremap(target, 8192, 8192, MREMAP_FIXED, area));
    M(mremap(target, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, area + 1));
    PART("a part of a mapping");
    char *part = mremap(target + 4096, 4096, 8192, MREMAP_MAYMOVE);
    YES(part != MAP_FAILED);
    N(part[0]);
    T(mprotect(target + 4096, 4096, PROT_READ));
    N(target[0]);
    PART("errors");
    M(mremap(target + 1, 4096, 8192, MREMAP_MAYMOVE));
    M(mremap(target, 4096, 0, MREMAP_MAYMOVE));
    M(mremap(target, 4096, 8192, 0x100));
    M(mremap((void *)0x10000000000, 4096, 8192, MREMAP_MAYMOVE));
    M(mremap(target, SIZE_MAX - 8191, 8192, MREMAP_MAYMOVE));
    M(mremap(target, 0, 4096, MREMAP_MAYMOVE));
    PART("files");
    int fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
    T(ftruncate(fd, 16384));
    pwrite(fd, "zero", 4, 0);
    pwrite(fd, "one", 3, 4096);
    pwrite(fd, "two", 3, 8192);
    char *s = mmap(NULL, 4096, prot, MAP_SHARED, fd, 4096);
    s = mremap(s, 4096, 8192, MREMAP_MAYMOVE);
    printf("%s %s\n", s, s + 4096);
    char *twin = mremap(s, 0, 4096, MREMAP_MAYMOVE);
    YES(twin != MAP_FAILED && twin != s);
    twin[0] = 'O';
    printf("%s\n", s);
    PART("keeping the old place");
    char *old = mmap(NULL, 8192, prot, flags, -1, 0);
    old[0] = 7;
    char *new = mremap(old, 8192, 8192, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    YES(new != MAP_FAILED && new != old);
    if (new != MAP_FAILED) printf("%d %d\n", new[0], old[0]);
    PART("growing step by step, as realloc does");
    size_t size = 4096;
    char *grow = mmap(NULL, size, prot, flags, -1, 0);
    for (int i = 0; i < 200; i++) {
        memset(grow + size - 4096, i, 4096);
        grow = mremap(grow, size, size + 4096, MREMAP_MAYMOVE);
        size += 4096;
    }
    int good = 0;
    for (int i = 0; i < 200; i++) good += grow[i * 4096 + 100] == (char)i;
    N(good);
    return 0;
}

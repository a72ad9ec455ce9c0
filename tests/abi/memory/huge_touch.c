// Many pages touched in several orders, given back and touched again.
#include "check.h"

int main(void) {
    size_t pages = 16384;
    unsigned *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < pages; i++) p[i * 1024] = i;
    unsigned long sum = 0;
    for (size_t i = 0; i < pages; i++) sum += p[i * 1024];
    N(sum);
    for (size_t i = 0; i < pages; i++) {
        size_t j = i * 7919 % pages;
        if (p[j * 1024] != j || p[j * 1024 + 1023] != 0) {
            puts("wrong content");
            break;
        }
    }
    T(madvise(p + pages / 2 * 1024, pages / 2 * 4096, MADV_DONTNEED));
    sum = 0;
    for (size_t i = 0; i < pages; i++) sum += p[i * 1024];
    N(sum);
    for (int round = 0; round < 20; round++) {
        char *q = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (q == MAP_FAILED) puts("no memory");
        for (size_t i = 0; i < 8 << 20; i += 4096) {
            if (q[i]) puts("not zero");
            q[i] = round;
        }
        munmap(q, 8 << 20);
    }
    CHILD("child", {
        unsigned long s = 0;
        for (size_t i = 0; i < pages; i++) s += p[i * 1024];
        N(s);
        p[0] = 5;
    });
    N(p[0]);
    return 0;
}

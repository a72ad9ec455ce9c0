// Anonymous mappings, their hints, and the errors of mmap and munmap.
#include "check.h"

static void *map(void *at, size_t length, int prot, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, at, length, prot, flags, fd, offset);
}
#define M(call) check_ok(#call, (errno = 0, (call) == MAP_FAILED ? -1L : 0L))

int main(void) {
    int anon = MAP_PRIVATE | MAP_ANONYMOUS;
    char *p = map(NULL, 16384, PROT_READ | PROT_WRITE, anon, -1, 0);
    YES(p != MAP_FAILED && (uintptr_t)p % 4096 == 0);
    int zeros = 0;
    for (int i = 0; i < 16384; i++) zeros += p[i] == 0;
    N(zeros);
    memset(p, 7, 16384);
    T(munmap(p + 4096, 4096));
    N(p[0] + p[8192]);
    T(munmap(p + 4096, 4096));
    YES(map(p + 4096, 4096, PROT_READ | PROT_WRITE, anon | MAP_FIXED, -1, 0) == p + 4096);
    N(p[4096]);
    N(p[0] + p[4096] + p[8192]);
    YES(map(p, 4096, PROT_READ | PROT_WRITE, anon | MAP_FIXED, -1, 0) == p);
    N(p[0]);
    T(map(p, 4096, PROT_READ, anon | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? -1 : 0);
    T(munmap(p, 16384));
    YES(map(p, 4096, PROT_READ | PROT_WRITE, anon | MAP_FIXED_NOREPLACE, -1, 0) == p);
    YES(map(p + 8192, 4096, PROT_READ, anon, -1, 0) == p + 8192);
    PART("errors");
    M(map(NULL, 0, PROT_READ, anon, -1, 0));
    M(map(NULL, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0));
    M(map(NULL, 4096, PROT_READ, anon, -1, 100));
    M(map(p + 1, 4096, PROT_READ, anon | MAP_FIXED, -1, 0));
    M(map(NULL, SIZE_MAX, PROT_READ, anon, -1, 0));
    M(map(NULL, 1UL << 47, PROT_READ, anon, -1, 0));
    M(map((void *)(1UL << 47), 4096, PROT_READ, anon | MAP_FIXED, -1, 0));
    M(map((void *)0x7ffffffff000, 8192, PROT_READ, anon | MAP_FIXED, -1, 0));
    M(map(KERNEL_ADDRESS, 4096, PROT_READ, anon, -1, 0));
    M(map(NULL, 4096, PROT_READ, anon | 0x40000000, -1, 0));
    M(map(NULL, 4096, 0x100, anon, -1, 0));
    M(map(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    int pipes[2], dir = MUST(open(".", O_RDONLY)), out = MUST(open("f", O_CREAT | O_WRONLY, 0644));
    MUST(pipe(pipes));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, pipes[0], 0));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, dir, 0));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, out, 0));
    int in = MUST(open("f", O_RDONLY));
    M(map(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, in, 0));
    M(map(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, in, 0));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, in, 4097));
    M(map(NULL, 4096, PROT_READ, MAP_PRIVATE, in, LONG_MAX & ~4095));
    M(map(NULL, 4096, PROT_READ, MAP_SHARED_VALIDATE | 0x10000000, in, 0));
    T(munmap(p + 1, 4096));
    T(munmap(p, 0));
    T(munmap(p, SIZE_MAX));
    T(munmap((void *)0x7ffffffff000, 1UL << 40));
    T(munmap(KERNEL_ADDRESS, 4096));
    T(munmap((void *)0x10000000000, 4096));
    PART("large and sparse");
    size_t large = 1UL << 34;
    char *sparse = map(NULL, large, PROT_READ | PROT_WRITE, anon | MAP_NORESERVE, -1, 0);
    YES(sparse != MAP_FAILED);
    for (size_t i = 0; i < 16; i++) sparse[i << 30] = i + 1;
    int sum = 0;
    for (size_t i = 0; i < 16; i++) sum += sparse[i << 30];
    N(sum);
    T(munmap(sparse, large));
    PART("many");
    int made = 0;
    void *pages[2000];
    for (int i = 0; i < 2000; i++) {
        pages[i] = map(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, anon, -1, 0);
        made += pages[i] != MAP_FAILED;
    }
    N(made);
    for (int i = 0; i < 2000; i += 2) *(int *)pages[i] = i;
    int good = 0;
    for (int i = 0; i < 2000; i += 2) good += *(int *)pages[i] == i;
    N(good);
    for (int i = 0; i < 2000; i++) made -= munmap(pages[i], 4096) == 0;
    N(made);
    PART("populated and low");
    char *now = map(NULL, 1 << 20, PROT_READ | PROT_WRITE, anon | MAP_POPULATE, -1, 0);
    N(now[0] + now[(1 << 20) - 1]);
    void *low = map(NULL, 4096, PROT_READ, anon | MAP_32BIT, -1, 0);
    YES(low != MAP_FAILED && (uintptr_t)low < (1UL << 32));
    return 0;
}

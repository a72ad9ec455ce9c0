// Mappings that are larger than all memory: refused where all of them could be written, and memory was to be had for it.
#include "../check.h"
#include <sys/sysinfo.h>
#include <sys/shm.h>
static size_t large;
static void attempt(const char *what, int prot, int flags, int fd) {
    errno = 0;
    void *at = mmap(NULL, large, prot, flags, fd, 0);
    printf("%s: %s\n", what, at == MAP_FAILED ? check_error(errno) : "mapped");
    if (at != MAP_FAILED) MUST(munmap(at, large));
}
int main(void) {
    struct sysinfo info;
    MUST(sysinfo(&info));
    large = ((info.totalram + info.totalswap) * info.mem_unit * 4 + (1 << 21)) & ~((size_t)(1 << 21) - 1);
    int fd = MUST(memfd_create("large", 0));
    MUST(ftruncate(fd, large));
    static const struct { const char *name; int prot; } prots[] = {{"none", 0}, {"read", 1}, {"write", 2}, {"read and write", 3}, {"execute", 5}};
    static const struct { const char *name; int flags; } kinds[] = {{"private", MAP_PRIVATE}, {"shared", MAP_SHARED}};
    for (size_t k = 0; k < 2; k++) for (int n = 0; n < 2; n++) for (int f = 0; f < 2; f++) for (size_t p = 0; p < COUNT(prots); p++) {
        char name[100];
        snprintf(name, sizeof name, "%s %s %s%s", kinds[k].name, f ? "file" : "anonymous", prots[p].name, n ? " unreserved" : "");
         attempt(name, prots[p].prot, kinds[k].flags | (f ? 0 : MAP_ANONYMOUS) | (n ? MAP_NORESERVE : 0), f ? fd : -1);
    }
     attempt("stack", 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1);
     attempt("/dev/zero", 3, MAP_PRIVATE, MUST(open("/dev/zero", O_RDWR)));
     attempt("/dev/zero shared", 3, MAP_SHARED, MUST(open("/dev/zero", O_RDWR)));
    PART("mprotect");
    char *none = mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T(mprotect(none, large, PROT_READ));
    T(mprotect(none, large, PROT_READ | PROT_WRITE));
    T(mprotect(none, 1 << 20, PROT_READ | PROT_WRITE));
    T(mprotect(none, large, PROT_READ | PROT_WRITE));
    T(mprotect(none + (1 << 20), large - (1 << 20), PROT_READ | PROT_WRITE));
    T(madvise(none, large, MADV_DONTNEED));
    YES(mmap(none, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
    YES(mmap(none, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == none);
    T(mprotect(none, large, PROT_READ));
    T(mprotect(none, large, PROT_READ | PROT_WRITE));
    none[large - 1] = 1;
    MUST(munmap(none, large));
    char *unreserved = mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    T(mprotect(unreserved, large, PROT_READ | PROT_WRITE));
    MUST(munmap(unreserved, large));
    char *file = mmap(NULL, large, PROT_READ, MAP_PRIVATE, fd, 0);
    T(mprotect(file, large, PROT_READ | PROT_WRITE));
    MUST(munmap(file, large));
    file = mmap(NULL, large, PROT_READ, MAP_SHARED, fd, 0);
    T(mprotect(file, large, PROT_READ | PROT_WRITE));
    MUST(munmap(file, large));
    PART("mremap");
    char *small = mmap(NULL, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    YES(mremap(small, 4096, large, MREMAP_MAYMOVE) == MAP_FAILED);
    N(errno == ENOMEM);
    small = mmap(NULL, 4096, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    YES(mremap(small, 4096, large, MREMAP_MAYMOVE) == MAP_FAILED);
    small = mmap(NULL, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    YES(mremap(small, 4096, large, MREMAP_MAYMOVE) == MAP_FAILED);
    small = mmap(NULL, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    YES(mremap(small, 4096, large, MREMAP_MAYMOVE) == MAP_FAILED);
    PART("others");
    char *old = sbrk(0);
    YES(sbrk(large) == (void *)-1);
    N(errno == ENOMEM);
    YES(sbrk(0) == old);
    int id;
    id = OK(shmget(IPC_PRIVATE, large, IPC_CREAT | 0600));
    if (id != -1) shmctl(id, IPC_RMID, NULL);
    id = OK(shmget(IPC_PRIVATE, large, IPC_CREAT | 0600 | SHM_NORESERVE));
    if (id != -1) shmctl(id, IPC_RMID, NULL);
    YES(malloc(large) == NULL);
    return 0;
}

// RLIMIT_MEMLOCK and its calls: mlock(2), mmap(2) MAP_LOCKED, mremap(2), brk(2), getrlimit(2), shmctl(2) SHM_LOCK.
#include "check.h"
#include <grp.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>

static long locked(void) {
    char line[256];
    long kilobytes = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) sscanf(line, "VmLck: %ld", &kilobytes);
    fclose(status);
    return kilobytes;
}
static void *map(size_t size, int flags) { return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0); }
#define MAP(...) ({ void *at_ = (errno = 0, __VA_ARGS__); printf("%s: %s\n", #__VA_ARGS__, at_ == MAP_FAILED ? check_error(errno) : "mapped"); at_; })
static void limit(rlim_t to) { MUST(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){to, 1 << 20})); }

int main(void) {
    char *area;
    T(mlock(NULL, 0));
    N(locked());
    PART("the superuser");
    limit(8192);
    area = MAP(map(65536, MAP_LOCKED));
    N(locked());
    T(mlockall(MCL_FUTURE));
    char *more = MAP(map(65536, 0));
    N(locked());
    T(munlockall());
    N(locked());
    munmap(area, 65536);
    munmap(more, 65536);
    MUST(setgroups(0, NULL));
    MUST(setresgid(54322, 54322, 54322));
    MUST(setresuid(54322, 54322, 54322));

    PART("mlock");
    limit(16384);
    area = map(65536, 0);
    T(mlock(area, 16384));
    T(mlock(area, 16384));
    T(mlock(area + 16384, 1));
    T(mlock(area, 16385));
    N(locked());
    T(mlock2(area, 8192, MLOCK_ONFAULT));
    T(mlock2(area, 8192, 2));
    T(mlock2(area + 8192, 8192, 0));
    N(locked());
    T(munlock(area + 4096, 4096));
    N(locked());
    T(mlock(area + 16384, 4096));
    T(mlock(area + 20480, 4096));
    N(locked());
    T(munlock(area, 65536));
    T(mlock(area, 0));
    T(mlock(area + 65536 * 4096L, 0));
    T(mlock(area, -1));
    T(mlock((void *)-4096, 8192));
    limit(0);
    T(mlock(area, 4096));
    T(mlock(area, 0));
    T(mlockall(MCL_CURRENT));
    T(mlockall(MCL_FUTURE));
    T(munlockall());
    T(munlock(area, 4096));
    MAP(map(4096, MAP_LOCKED));

    PART("MAP_LOCKED");
    limit(16384);
    char *first = MAP(map(12288, MAP_LOCKED));
    MAP(map(8192, MAP_LOCKED));
    N(locked());
    char *second = MAP(map(4096, MAP_LOCKED));
    MAP(map(4096, MAP_LOCKED));
    munmap(second, 4096);
    N(locked());

    PART("mremap");
    first = MAP(mremap(first, 12288, 16384, MREMAP_MAYMOVE));
    MAP(mremap(first, 16384, 20480, MREMAP_MAYMOVE));
    N(locked());
    first = MAP(mremap(first, 16384, 8192, 0));
    N(locked());
    char *moved = MAP(mremap(first, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, area));
    N(locked());
    munlockall();

    PART("mlockall");
    limit(16384);
    T(mlockall(MCL_CURRENT));
    T(mlockall(MCL_CURRENT | MCL_FUTURE));
    T(mlockall(MCL_ONFAULT));
    T(mlockall(0));
    T(mlockall(8));
    T(mlockall(MCL_FUTURE));
    MAP(map(32768, 0));
    char *one = MAP(map(8192, 0));
    MAP(map(16384, 0));
    N(locked());
    void *end = sbrk(0);
    YES(sbrk(65536) == (void *)-1);
    YES(sbrk(0) == end);
    MAP(mremap(one, 8192, 65536, MREMAP_MAYMOVE));
    CHILD("a child's", N(locked()); MAP(map(32768, 0)));
    T(munlockall());
    N(locked());
    limit(1 << 20);
    T(mlockall(MCL_FUTURE | MCL_ONFAULT));
    MAP(map(8192, 0));
    N(locked());
    T(munlockall());

    PART("shared memory");
    limit(8192);
    int id = MUST(shmget(IPC_PRIVATE, 16384, 0600));
    T(shmctl(id, SHM_LOCK, NULL));
    limit(16384);
    T(shmctl(id, SHM_LOCK, NULL));
    T(mlock(area, 4096));
    T(shmctl(id, SHM_UNLOCK, NULL));
    T(shmctl(id, IPC_RMID, NULL));
    PART("limits");
    T(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){4096, 2 << 20}));
    T(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){8192, 4096}));
    T(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){4096, 4096}));
    T(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){8192, 8192}));
    return 0;
}

// Mappings in the corners: odd addresses, odd lengths, what is there and what is not.
#include "check.h"
#include <sys/resource.h>

#define PAGE 4096UL
static char *fresh(size_t pages, int prot) {
    return mmap(NULL, pages * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
#define FAILS(call) YES((errno = 0, (call)) == MAP_FAILED); printf("  %s\n", check_error(errno))

static void placing(void) {
    PART("placing");
    char *there = fresh(4, PROT_READ | PROT_WRITE);
    FAILS(mmap(there, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    munmap(there + PAGE, PAGE);
    YES(mmap(there + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == there + PAGE);
    FAILS(mmap(there + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    FAILS(mmap(there + 1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    FAILS(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    FAILS(mmap(NULL, -1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    FAILS(mmap(NULL, 1L << 47, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    FAILS(mmap((void *)(1L << 47), PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    FAILS(mmap((void *)-PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 1));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 1000, PAGE));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0));
    int fd = open("file", O_CREAT | O_RDWR, 0600), reading = open("file", O_RDONLY), writing = open("file", O_WRONLY);
    ftruncate(fd, 2 * PAGE);
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, writing, 0));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, writing, 0));
    FAILS(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, reading, 0));
    YES(mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE, reading, 0) != MAP_FAILED);
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x1000000, fd, 0));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0));
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, -PAGE));
    FAILS(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, LONG_MAX & ~(PAGE - 1)));
    T(munmap(there + 1, PAGE));
    T(munmap(there, 0));
    T(munmap((void *)(1L << 47), PAGE));
    T(munmap(there, -PAGE));
    T(munmap(there, PAGE - 1));
    T(munmap(there, 4 * PAGE));
    T(munmap(there, 4 * PAGE));
}

static void protecting(void) {
    PART("protecting");
    char *p = fresh(4, PROT_READ | PROT_WRITE);
    T(mprotect(p + 1, PAGE, PROT_READ));
    T(mprotect(p, 0, PROT_READ));
    T(mprotect(p, -1, PROT_READ));
    T(mprotect(p, PAGE, 0x80));
    T(mprotect(p, PAGE, PROT_READ | 8));
    T(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN));
    T(mprotect(p, PAGE, PROT_READ | PROT_GROWSUP));
    T(mprotect(p, PAGE, PROT_READ | PROT_GROWSDOWN | PROT_GROWSUP));
    T(mprotect((void *)(1L << 47), PAGE, PROT_READ));
    munmap(p + 2 * PAGE, PAGE);
    T(mprotect(p, 4 * PAGE, PROT_READ));
    CHILD("below the hole", *p = 1);
    CHILD("above the hole", p[3 * PAGE] = 1);
    T(mprotect(p + 2 * PAGE, PAGE, PROT_READ));
    T(mprotect(p, PAGE, PROT_WRITE));
    N(*p);
    T(mprotect(p, PAGE, PROT_NONE));
    CHILD("nothing allowed", printf("%d\n", *p));
    T(syscall(SYS_pkey_mprotect, p, PAGE, PROT_READ, -1));
    char *grows = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    T(mprotect(grows + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN));
    CHILD("the start of a stack", grows[PAGE] = 1);
}

static void locking(void) {
    PART("locking");
    char *p = fresh(4, PROT_READ | PROT_WRITE);
    T(mlock(p + 1, 1));
    T(mlock(p, 0));
    T(mlock(p, 4 * PAGE));
    T(madvise(p, PAGE, MADV_DONTNEED));
    T(madvise(p, PAGE, 24 /* MADV_DONTNEED_LOCKED */));
    T(msync(p, PAGE, MS_INVALIDATE));
    T(munlock(p + PAGE, 1));
    munmap(p + 2 * PAGE, PAGE);
    T(mlock(p, 4 * PAGE));
    T(munlock(p, 4 * PAGE));
    T(mlock((void *)(1L << 47), PAGE));
    T(mlock((void *)-PAGE, 2 * PAGE));
    T(syscall(SYS_mlock2, p, PAGE, 2));
    T(syscall(SYS_mlock2, p, PAGE, 1));
    T(mlockall(0));
    T(mlockall(8));
    T(mlockall(4));
    char *none = fresh(1, PROT_NONE);
    T(mlock(none, PAGE));
    T(munlockall());
    CHILD("a limit", {
        struct rlimit limit = {2 * PAGE, 2 * PAGE};
        setrlimit(RLIMIT_MEMLOCK, &limit);
        MUST(syscall(SYS_setresuid, 65534, 65534, 65534));
        char *q = fresh(4, PROT_READ | PROT_WRITE);
        T(mlock(q, 2 * PAGE));
        T(mlock(q, 2 * PAGE));
        T(mlock(q, 3 * PAGE));
        T(mlockall(MCL_CURRENT));
        FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
        FAILS(mremap(q, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE));
        T(munlock(q, 2 * PAGE));
        limit = (struct rlimit){0, 0};
        setrlimit(RLIMIT_MEMLOCK, &limit);
        T(mlock(q, PAGE));
        T(mlockall(MCL_FUTURE));
        T(munlockall());
    });
}

static void moving(void) {
    PART("moving");
    char *p = fresh(4, PROT_READ | PROT_WRITE);
    p[0] = 7;
    FAILS(mremap(p + 1, PAGE, PAGE, 0));
    FAILS(mremap(p, PAGE, 0, 0));
    FAILS(mremap(p, PAGE, PAGE, 8));
    FAILS(mremap(p, PAGE, PAGE, MREMAP_FIXED, p));
    FAILS(mremap(p, PAGE, 2 * PAGE, MREMAP_FIXED | MREMAP_MAYMOVE, p + 1));
    FAILS(mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_FIXED | MREMAP_MAYMOVE, p + PAGE));
    FAILS(mremap(p, PAGE, -PAGE, MREMAP_MAYMOVE));
    FAILS(mremap(p, 0, PAGE, MREMAP_MAYMOVE));
    FAILS(mremap(p, PAGE, 2 * PAGE, 4 /* MREMAP_DONTUNMAP */));
    FAILS(mremap(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE | 4));
    char *kept = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | 4, NULL);
    N(kept[0]);
    N(p[0]);
    munmap(p + PAGE, PAGE);
    FAILS(mremap(p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE));
    FAILS(mremap(p + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
    YES(mremap(p, 4 * PAGE, PAGE, 0) == p);
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[0] = 5;
    char *twin = mremap(shared, 0, PAGE, MREMAP_MAYMOVE);
    N(twin[0]);
    twin[0] = 6;
    N(shared[0]);
    char *grown = mremap(shared, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    N(grown[0]);
    CHILD("beyond what was shared", grown[PAGE] = 1);
    char *back = mremap(grown, 3 * PAGE, PAGE, 0);
    back = mremap(back, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    CHILD("beyond again", printf("%d\n", back[PAGE]));
    char *bigger = mremap(twin, PAGE, PAGE, MREMAP_MAYMOVE | 4, NULL);
    YES(bigger != MAP_FAILED && bigger[0] == 6 && twin[0] == 6);
    int fd = open("grows", O_CREAT | O_RDWR, 0600);
    ftruncate(fd, PAGE);
    char *file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    file = mremap(file, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    CHILD("beyond the file", file[PAGE] = 1);
    ftruncate(fd, 2 * PAGE);
    file[PAGE] = 9;
    char got = 0;
    pread(fd, &got, 1, PAGE);
    N(got);
}

static void asking(void) {
    PART("asking");
    unsigned char present[8];
    char *p = fresh(4, PROT_READ | PROT_WRITE);
    T(mincore(p + 1, PAGE, present));
    T(mincore(p, 0, present));
    T(mincore(p, PAGE, BAD));
    T(mincore(p, -1, present));
    munmap(p + 2 * PAGE, PAGE);
    T(mincore(p, 4 * PAGE, present));
    T(mincore(p, 2 * PAGE, present));
    T(mincore((void *)(1L << 47), PAGE, present));
    PART("writing back");
    T(msync(p + 1, PAGE, MS_SYNC));
    T(msync(p, PAGE, MS_SYNC | MS_ASYNC));
    T(msync(p, PAGE, 8));
    T(msync(p, PAGE, 0));
    T(msync(p, 0, MS_SYNC));
    T(msync(p, 4 * PAGE, MS_SYNC));
    T(msync(p, 4 * PAGE, MS_ASYNC));
    T(msync(p, -1, MS_SYNC));
    PART("advice");
    T(madvise(p + 1, PAGE, MADV_NORMAL));
    T(madvise(p, 0, MADV_NORMAL));
    T(madvise(p, 0, 77));
    T(madvise(p, -1, MADV_NORMAL));
    T(madvise(p, 4 * PAGE, MADV_DONTNEED));
    T(madvise(p, 4 * PAGE, MADV_WILLNEED));
    T(madvise(p, PAGE, MADV_REMOVE));
    T(madvise(p, PAGE, 22 /* MADV_POPULATE_READ */));
    T(madvise(p, 4 * PAGE, 23 /* MADV_POPULATE_WRITE */));
    char *none = fresh(1, PROT_NONE), *reading = fresh(1, PROT_READ);
    T(madvise(none, PAGE, 22));
    T(madvise(reading, PAGE, 22));
    T(madvise(reading, PAGE, 23));
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[0] = 3;
    T(madvise(shared, PAGE, MADV_FREE));
    T(madvise(shared, PAGE, MADV_WIPEONFORK));
    T(madvise(shared, PAGE, MADV_REMOVE));
    N(shared[0]);
    T(madvise(shared, PAGE, MADV_DONTFORK));
    CHILD("not forked", printf("%d\n", shared[0]));
    p[0] = 4;
    T(madvise(p, PAGE, MADV_WIPEONFORK));
    CHILD("wiped", printf("%d\n", p[0]); CHILD("again", printf("%d\n", p[0])));
    N(p[0]);
    T(madvise(p, PAGE, MADV_KEEPONFORK));
    CHILD("kept", printf("%d\n", p[0]));
}

int main(void) {
    no_core_files();
    placing();
    protecting();
    locking();
    moving();
    asking();
    return 0;
}

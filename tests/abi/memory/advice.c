// madvise(2) of each number on each kind of mapping, process_madvise(2) of the own memory, flags of mappings in smaps,
// locks on fault, RLIMIT_DATA, MAP_FIXED_NOREPLACE before other checks.
#include "check.h"
#include <sys/resource.h>
#include <sys/shm.h>

#define RW (PROT_READ | PROT_WRITE)
enum { size = 16384, nr_process_madvise = 440 };

static int file, reading, memory;

static char *make(int kind) {
    switch (kind) {
    case 0: return mmap(NULL, size, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    case 1: return mmap(NULL, size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    case 2: return mmap(NULL, size, RW, MAP_PRIVATE, file, 0);
    case 3: return mmap(NULL, size, RW, MAP_SHARED, file, 0);
    case 4: return mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    case 5: return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    case 6: return mmap(NULL, size, RW, MAP_SHARED, memory, 0);
    case 7: return mmap(NULL, size, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    case 8: return mmap(NULL, size, PROT_READ, MAP_PRIVATE, reading, 0);
    case 9: return mmap(NULL, size, PROT_READ, MAP_SHARED, reading, 0);
    default: {
        int segment = MUST(shmget(IPC_PRIVATE, size, 0600));
        char *at = shmat(segment, NULL, 0);
        shmctl(segment, IPC_RMID, NULL);
        return at;
    }
    }
}

// The flags, but for that of guard pages, which differs from version to version.
static void show_flags(const char *what, const void *at) {
    char line[512];
    bool inside = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, smaps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2)
            inside = start <= (uintptr_t)at && (uintptr_t)at < end;
        else if (inside && strncmp(line, "VmFlags: ", 9) == 0)
            printf("%s: %s", what, line + 9);
    }
    fclose(smaps);
}

static const char *answer(long result) { return result == -1 ? check_error(errno) : "ok"; }

int main(void) {
    put_file("file", "content");
    MUST(truncate("file", 4 * size));
    file = MUST(open("file", O_RDWR));
    reading = MUST(open("file", O_RDONLY));
    memory = MUST(syscall(SYS_memfd_create, "memory", 0));
    MUST(ftruncate(memory, size));

    PART("advice");
    // Not those that few kernels know: same-page merging, failing pages, collapsing.
    const int advice[] = {MADV_NORMAL,
                          MADV_RANDOM,
                          MADV_SEQUENTIAL,
                          MADV_WILLNEED,
                          MADV_DONTNEED,
                          MADV_FREE,
                          MADV_REMOVE,
                          MADV_DONTFORK,
                          MADV_DOFORK,
                          MADV_HUGEPAGE,
                          MADV_NOHUGEPAGE,
                          MADV_DONTDUMP,
                          MADV_DODUMP,
                          MADV_WIPEONFORK,
                          MADV_KEEPONFORK,
                          MADV_COLD,
                          MADV_PAGEOUT,
                          MADV_POPULATE_READ,
                          MADV_POPULATE_WRITE,
                          24,
                          -1,
                          5,
                          7,
                          63,
                          104};
    for (int kind = 0; kind <= 10; kind++) {
        char *at = make(kind), name[32];
        sprintf(name, "kind %d", kind);
        show_flags(name, at);
        for (size_t i = 0; i < COUNT(advice); i++) printf("%d: %s\n", advice[i], answer(madvise(at, 8192, advice[i])));
    }
    char *device = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, MUST(open("/dev/zero", O_RDONLY)), 0);
    T(madvise(device, 4096, MADV_FREE));

    PART("of the own process");
    int self = MUST(syscall(SYS_pidfd_open, getpid(), 0));
    char *own = make(0);
    struct iovec part = {own, 8192};
    const int all[] = {MADV_NORMAL,
                       MADV_RANDOM,
                       MADV_DONTNEED,
                       MADV_FREE,
                       MADV_REMOVE,
                       MADV_DONTFORK,
                       MADV_DOFORK,
                       MADV_WIPEONFORK,
                       MADV_COLD,
                       MADV_PAGEOUT,
                       MADV_POPULATE_READ,
                       MADV_POPULATE_WRITE,
                       24,
                       5,
                       26};
    for (size_t i = 0; i < COUNT(all); i++) printf("%d: %s\n", all[i], answer(syscall(nr_process_madvise, self, &part, 1, all[i], 0)));
    own[0] = 5;
    T(syscall(nr_process_madvise, self, &part, 1, MADV_DONTNEED, 0));
    N(own[0]);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int other = MUST(syscall(SYS_pidfd_open, child, 0));
    T(syscall(nr_process_madvise, other, &part, 1, MADV_DONTNEED, 0));
    T(syscall(nr_process_madvise, other, &part, 1, MADV_COLD, 0));
    kill(child, SIGKILL);
    reap("child", child);

    PART("accounted");
    char *at = make(5);
    MUST(mprotect(at, 4096, RW));
    show_flags("made writable", at);
    show_flags("the rest", at + 4096);
    at[0] = 1;
    MUST(mprotect(at, 4096, PROT_READ));
    show_flags("touched, then not writable", at);
    at = mmap(NULL, size, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    show_flags("not reserved", at);

    PART("locked on fault");
    CHILD("a child", char *locked = make(0); T(syscall(SYS_mlock2, locked, 4096, 1)); show_flags("one page", locked); T(mlock(locked, 4096));
          show_flags("without", locked); T(mlockall(MCL_FUTURE | MCL_ONFAULT)); char *next = make(3); show_flags("later", next); unsigned char present[4];
          T(mincore(make(0), 4096, present)); T(mlockall(MCL_FUTURE)); next = make(3); show_flags("without", next); T(munlockall());
          show_flags("unlocked", next); T(mlockall(MCL_CURRENT | MCL_ONFAULT)); show_flags("all", next); T(munlockall()));

    PART("RLIMIT_DATA");
    CHILD("a child", char *reserved = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          char *small = mmap(NULL, 4096, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); struct rlimit limit = {4096, RLIM_INFINITY}; setrlimit(RLIMIT_DATA, &limit);
          YES(sbrk(1 << 20) == (void *)-1); T(mmap(NULL, 1 << 20, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
          T(mmap(NULL, 1 << 20, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
          T(mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED); T(mmap(NULL, size, RW, MAP_PRIVATE, file, 0) == MAP_FAILED);
          T(mmap(NULL, size, RW, MAP_SHARED, file, 0) == MAP_FAILED);
          T(mmap(NULL, 1 << 20, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0) == MAP_FAILED); T(mprotect(reserved, 4 << 20, RW));
          T(mprotect(reserved, 4096, PROT_READ)); T(mremap(small, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED);
          T(mmap(small, 4096, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED); T(munmap(small, 4096)); limit.rlim_cur = RLIM_INFINITY;
          setrlimit(RLIMIT_DATA, &limit); T(mprotect(reserved, 4 << 20, RW)); YES(sbrk(1 << 20) != (void *)-1));

    PART("no replacement");
    char *used = make(0);
    T(mmap(used, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_FIXED_NOREPLACE, file, 0) == MAP_FAILED);
    T(mmap(used, 4096, PROT_READ, MAP_FIXED_NOREPLACE, file, 0) == MAP_FAILED);
    T(mmap(used + 1, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0) == MAP_FAILED);
    return 0;
}

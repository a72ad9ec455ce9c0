// Writes, and stores into shared mappings of files, on a full disk: `full DIRECTORY`, where `sparse` and `eater` are files of holes, `whole` has
// blocks, and removing `fill` makes room. tests/tests/disks.rs prepares them.
#include "check.h"
#include <setjmp.h>
#include <sys/sendfile.h>

enum { PAGE = 4096, PAGES = 256 };
static int directory;
static sigjmp_buf back;
static int code;
static void *where;

static void on_bus(int signal, siginfo_t *info, void *context) {
    (void)context, (void)signal;
    code = info->si_code;
    where = info->si_addr;
    siglongjmp(back, 1);
}

static void store(const char *name, volatile char *mapping, int page) {
    if (sigsetjmp(back, 1)) {
        printf("%s, store to page %d: SIGBUS, code %d, %s\n", name, page, code, where == mapping + page * PAGE + 1 ? "there" : "elsewhere");
    } else {
        mapping[page * PAGE + 1] = '!';
        printf("%s, store to page %d: %d%c\n", name, page, mapping[page * PAGE], mapping[page * PAGE + 1]);
    }
}

static char *map(const char *name, int flags) {
    int fd = MUST(openat(directory, name, O_RDWR));
    char *mapping = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    close(fd);
    return mapping;
}

// Each write has cached pages behind it that could be given up: that makes no room on the disk.
static void writes(void) {
    static char bytes[3 * PAGE];
    int data = MUST(openat(directory, "whole", O_RDONLY)), self = MUST(open("/proc/self/exe", O_RDONLY));
    int file = MUST(openat(directory, "new", O_RDWR | O_CREAT, 0600)), end = MUST(openat(directory, "new", O_WRONLY | O_APPEND));
    int synced = MUST(openat(directory, "new", O_WRONLY | O_DSYNC)), ends[2];
    MUST(pipe(ends));
    MUST(write(ends[1], bytes, PAGE));
#define CACHED(call) (pread(data, bytes, PAGE, 50 * PAGE), pread(self, bytes, sizeof bytes, 0), T(call))
    CACHED(write(file, bytes, 1));
    CACHED(write(file, bytes, sizeof bytes));
    CACHED(pwrite(file, bytes, 100, PAGE));
    CACHED(write(end, bytes, 100));
    CACHED(pwrite(end, bytes, 100, 0));
    CACHED(write(synced, bytes, 100));
    CACHED(sendfile(file, data, NULL, 2 * PAGE));
    CACHED(splice(ends[0], NULL, file, NULL, PAGE, 0));
    T(lseek(file, 0, SEEK_CUR));
    T(fsync(file));
    T(close(file));
    close(end), close(synced), close(data), close(self), close(ends[0]), close(ends[1]);
}

int main(int argc, char **argv) {
    if (argc < 2) return 99;
    directory = MUST(open(argv[1], O_DIRECTORY));
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGBUS, &action, NULL));
    char *sparse = map("sparse", MAP_SHARED), *whole = map("whole", MAP_SHARED), *own = map("whole", MAP_PRIVATE);
    char *eater = map("eater", MAP_SHARED);
    store("whole", whole, 7);
    // A file system keeps some room back, and gives it to stores.
    volatile int failed = 0;
    for (volatile int page = 0; page < PAGES; page++) {
        if (sigsetjmp(back, 1))
            failed++;
        else
            eater[page * PAGE] = 1;
    }
    YES(failed > 200);

    PART("writes");
    writes();

    PART("holes");
    store("sparse", sparse, 0);
    store("sparse", sparse, 0);
    for (int page = 5; page < PAGES; page += 50) store("sparse", sparse, page);
    store("whole", whole, 7);
    store("whole", whole, 9);
    CHILD("a child without a handler", signal(SIGBUS, SIG_DFL); sparse[PAGE] = 1);

    PART("by calls");
    int data = MUST(openat(directory, "whole", O_RDONLY));
    T(pread(data, sparse + 20 * PAGE, 16, 0));
    T(pread(data, sparse + 20 * PAGE, 3 * PAGE, 0));
    T(pread(data, whole + 20 * PAGE, 16, 0));
    T(madvise(sparse + 30 * PAGE, 2 * PAGE, MADV_POPULATE_WRITE));
    T(madvise(whole + 30 * PAGE, 2 * PAGE, MADV_POPULATE_WRITE));

    PART("private");
    store("private", own, 102);

    PART("removed");
    MUST(unlinkat(directory, "whole", 0));
    store("whole", whole, 11);
    store("sparse", sparse, 1);

    PART("room again");
    MUST(unlinkat(directory, "fill", 0));
    store("sparse", sparse, 0);
    store("sparse", sparse, 200);
    T(msync(sparse, PAGES * PAGE, MS_SYNC));
    char page[PAGE];
    T(pread(MUST(openat(directory, "sparse", O_RDONLY)), page, PAGE, 200 * PAGE));
    printf("%d%c\n", page[0], page[1]);
    return 0;
}

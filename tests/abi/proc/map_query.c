// PROCMAP_QUERY of /proc/PID/maps: the mapping at an address, the next one, and what it refuses.
#include "check.h"
#include <sys/ioctl.h>

struct query {
    uint64_t size, flags, address, start, end, rights, page_size, offset, inode;
    uint32_t major, minor, name_size, build_size;
    uint64_t name, build;
};
#define QUERY _IOWR('f', 17, struct query)
#define READ 1
#define WRITE 2
#define EXEC 4
#define SHARED 8
#define OR_NEXT 0x10
#define OF_FILE 0x20

static int maps;
static char name[300];
static struct query q;

static int ask(const void *address, uint64_t flags) {
    q = (struct query){.size = sizeof q, .flags = flags, .address = (uintptr_t)address};
    q.name = (uintptr_t)name;
    q.name_size = sizeof name;
    memset(name, 0, sizeof name);
    return ioctl(maps, QUERY, &q);
}

static void show(const char *what, const void *address, uint64_t flags) {
    errno = 0;
    if (ask(address, flags) < 0) {
        printf("%s: %s\n", what, check_error(errno));
        return;
    }
    const char *last = strrchr(name, '/');
    printf("%s: %s, rights %llu, page %llu, offset %llu", what, q.start <= q.address && q.address < q.end ? "covers" : "above",
           (unsigned long long)q.rights, (unsigned long long)q.page_size, (unsigned long long)q.offset);
    // The numbers of shared memory without a file are the kernel's own.
    if (!strstr(name, "(deleted)")) printf(", inode %s", q.inode ? "known" : "0");
    if (q.start >> 28 == 1 && q.end >> 28 == 1)
        printf(", %lld bytes from the start of %lld", (long long)(q.address - q.start), (long long)(q.end - q.start));
    printf(", name \"%s\"\n", last ? last + 1 : name);
    YES(q.name_size == (name[0] ? strlen(name) + 1 : 0));
}

int main(void) {
    long page = 4096;
    int fd = MUST(open("a file", O_RDWR | O_CREAT, 0600));
    MUST(ftruncate(fd, 4 * page));
    char *low = (char *)0x10000000;
    MUST(mmap(low, 16 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    MUST(munmap(low + 2 * page, page));
    MUST(mmap(low + 4 * page, 2 * page, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, page));
    MUST(mmap(low + 6 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
    MUST(mmap(low + 8 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_ANONYMOUS, -1, 0));
    maps = MUST(open("/proc/self/maps", O_RDONLY));

    PART("one address");
    show("none", low, 0);
    show("hole", low + 2 * page, 0);
    show("hole or next", low + 2 * page, OR_NEXT);
    show("file", low + 5 * page + 5, 0);
    show("shared file", low + 6 * page, 0);
    show("shared memory", low + 8 * page, OF_FILE);
    show("stack", &page, 0);
    show("zero", NULL, 0);
    show("beyond all", (void *)0x7ffffffff000, OR_NEXT);
    show("upper half", KERNEL_ADDRESS, OR_NEXT);

    PART("rights");
    show("file wanted", low, OF_FILE | OR_NEXT);
    show("file wanted here", low, OF_FILE);
    show("writable", low, WRITE | OR_NEXT);
    show("shared", low, SHARED | OR_NEXT);
    show("writable shared", low + 7 * page, WRITE | SHARED | OR_NEXT);
    show("not executable", low + 4 * page, EXEC);

    PART("refused");
    show("unknown flag", low, 0x40);
    ask(low, 0);
    q.size = 8;
    T(ioctl(maps, QUERY, &q));
    q.size = 5000;
    T(ioctl(maps, QUERY, &q));
    q = (struct query){.size = 24, .address = (uintptr_t)low};
    T(ioctl(maps, QUERY, &q));
    YES(q.start == 0);
    q.size = sizeof q;
    q.name_size = 10;
    T(ioctl(maps, QUERY, &q));
    q.name = (uintptr_t)name;
    q.address = (uintptr_t)low + 4 * page;
    T(ioctl(maps, QUERY, &q));
    q.name = (uintptr_t)BAD;
    q.name_size = 300;
    T(ioctl(maps, QUERY, &q));
    T(ioctl(maps, QUERY, BAD));
    struct { struct query query; uint64_t more; } longer = {.query = {.size = sizeof longer, .address = (uintptr_t)low}};
    T(ioctl(maps, QUERY, &longer));
    longer.more = 1;
    T(ioctl(maps, QUERY, &longer));
    q = (struct query){.size = sizeof q, .address = (uintptr_t)low};
    T(ioctl(MUST(open("/proc/self/status", O_RDONLY)), QUERY, &q));
    T(ioctl(fd, QUERY, &q));

    PART("another process");
    int ready[2];
    MUST(pipe(ready));
    pid_t child = MUST(fork());
    if (child == 0) {
        close(ready[1]);
        char byte;
        _exit(read(ready[0], &byte, 1) != 0);
    }
    maps = MUST(open(proc_path(child, "maps"), O_RDONLY));
    show("child's", low + 4 * page, 0);
    close(ready[1]);
    reap("child", child);
    show("ended", low + 4 * page, 0);
    unlink("a file");
    return 0;
}

// mmap of every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"

static long map(int fd, int protection, int flags, long offset) {
    void *place = mmap(NULL, 4096, protection, flags, fd, offset);
    if (place == MAP_FAILED) return -1;
    munmap(place, 4096);
    return 0;
}

// TCP sockets can be mapped where the kernel receives without copies, which a pod does not.
#define EACH_MAP(...) EACH_BUT(INTERNET_STREAM, map(fd, __VA_ARGS__))

int main(void) {
    objects_start();
    EACH_MAP(PROT_READ, MAP_SHARED, 0);
    EACH_MAP(PROT_READ, MAP_PRIVATE, 0);
    EACH_MAP(PROT_WRITE, MAP_SHARED, 0);
    EACH_MAP(PROT_WRITE, MAP_PRIVATE, 0);
    EACH_MAP(PROT_READ | PROT_WRITE, MAP_SHARED, 0);
    EACH_MAP(PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, 0);
    EACH_MAP(PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
    EACH_MAP(PROT_EXEC, MAP_PRIVATE, 0);
    EACH_MAP(PROT_READ | PROT_EXEC, MAP_SHARED, 0);
    EACH_MAP(PROT_NONE, MAP_PRIVATE, 0);
    EACH_MAP(PROT_NONE, MAP_SHARED, 0);
    EACH_MAP(PROT_READ, 0, 0);
    EACH_MAP(PROT_READ, MAP_SHARED, 1);
    EACH_MAP(PROT_READ, MAP_SHARED_VALIDATE | 0x80000000, 0);
    // File systems on disks know the flag, for persistent memory.
    EACH_BUT(INTERNET_STREAM | STORED, map(fd, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, 0));
    // Whether the file of a process is regular depends on the version.
    EACH_BUT(INTERNET_STREAM | PROCESS, map(fd, PROT_READ, MAP_SHARED, 0x7ffffffffffff000));
    EACH_MAP(PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, 0);
    EACH(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
    EACH_MAP(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, 0);
    return 0;
}

// The device files that every program expects.
#include "check.h"

static int all(const char *bytes, size_t count, char value) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value) return 0;
    return 1;
}

int main(void) {
    char buffer[5000];
    int null = MUST(open("/dev/null", O_RDWR)), zero = MUST(open("/dev/zero", O_RDWR));
    int full = MUST(open("/dev/full", O_RDWR)), random = MUST(open("/dev/urandom", O_RDONLY));
    PART("null");
    T(read(null, buffer, 100));
    T(write(null, buffer, 5000));
    T(write(null, BAD, 100));
    T(read(null, BAD, 100));
    T(lseek(null, 100, SEEK_SET));
    T(lseek(null, 0, SEEK_CUR));
    T(ftruncate(null, 0));
    T(pread(null, buffer, 10, 5));
    T(ioctl(null, TCGETS, buffer));
    T(fsync(null));
    T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, null, 0) == MAP_FAILED ? -1 : 0);
    PART("zero");
    memset(buffer, 'x', sizeof buffer);
    T(read(zero, buffer, 5000));
    YES(all(buffer, 5000, 0));
    T(write(zero, buffer, 5000));
    T(read(zero, BAD, 100));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    YES(map != MAP_FAILED && all(map, 8192, 0));
    map[5000] = 1;
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0);
    YES(shared != MAP_FAILED);
    CHILD("child", shared[0] = 42);
    N(shared[0]);
    PART("full");
    T(read(full, buffer, 100));
    T(write(full, buffer, 1));
    T(write(full, buffer, 0));
    PART("random");
    memset(buffer, 0, sizeof buffer);
    T(read(random, buffer, 5000));
    YES(!all(buffer, 5000, 0));
    T(read(random, BAD, 100));
    T(write(random, buffer, 100));
    int other = MUST(open("/dev/random", O_RDONLY));
    T(read(other, buffer, 16));
    T(lseek(random, 0, SEEK_SET));
    PART("opening");
    OK(open("/dev/null", O_RDONLY | O_CREAT | O_TRUNC, 0600));
    T(open("/dev/null", O_DIRECTORY));
    T(open("/dev/null/x", O_RDONLY));
    T(open("/dev/nothing", O_RDONLY));
    T(access("/dev/fd", F_OK));
    T(access("/dev/stdin", F_OK));
    T(access("/dev/shm", W_OK));
    T(access("/dev/ptmx", F_OK));
    T(open("/dev/tty", O_RDWR));
    struct pollfd poller = {null, POLLIN | POLLOUT, 0};
    T(poll(&poller, 1, 0));
    N(poller.revents);
    return 0;
}

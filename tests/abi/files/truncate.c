// truncate and ftruncate.
#include "check.h"

static void size(const char *name) {
    struct stat st;
    if (stat(name, &st) == 0) printf("%s: %lld bytes\n", name, (long long)st.st_size);
}

int main(void) {
    put_file("f", "0123456789");
    MUST(mkdir("d", 0755));
    T(truncate("f", 5));
    size("f");
    show_file("f");
    T(truncate("f", 8));
    char buffer[16];
    int fd = MUST(open("f", O_RDWR));
    T(read(fd, buffer, 16));
    YES(memcmp(buffer, "01234\0\0\0", 8) == 0);
    T(ftruncate(fd, 100000));
    size("f");
    T(ftruncate(fd, 3));
    T(lseek(fd, 0, SEEK_CUR));
    T(write(fd, "z", 1));
    T(pread(fd, buffer, 16, 0));
    YES(memcmp(buffer, "012\0\0\0\0\0z", 9) == 0);
    T(ftruncate(fd, 0));
    size("f");
    PART("errors");
    T(truncate("f", -1));
    T(ftruncate(fd, -1));
    T(truncate("d", 0));
    T(truncate("nothing", 0));
    T(truncate("", 0));
    T(truncate("f/x", 0));
    T(syscall(SYS_truncate, BAD, 0));
    T(ftruncate(99, 0));
    T(ftruncate(99, -1));
    int in = MUST(open("f", O_RDONLY)), dir = MUST(open("d", O_RDONLY));
    T(ftruncate(in, 0));
    T(ftruncate(dir, 0));
    int pipes[2];
    MUST(pipe(pipes));
    T(ftruncate(pipes[1], 0));
    T(ftruncate(fd, LONG_MAX));
    size("f");
    T(ftruncate(fd, 0));
    PART("zeros after shrinking and growing across pages");
    char page[8192];
    memset(page, 'x', sizeof page);
    T(pwrite(fd, page, sizeof page, 0));
    T(ftruncate(fd, 100));
    T(ftruncate(fd, 8192));
    T(pread(fd, page, sizeof page, 0));
    int zeros = 0;
    for (int i = 100; i < 8192; i++) zeros += page[i] == 0;
    N(zeros);
    return 0;
}

// fallocate, SEEK_HOLE and SEEK_DATA on a tmpfs.
#include "check.h"
#include <linux/falloc.h>

static long size(int fd) {
    struct stat st;
    fstat(fd, &st);
    return st.st_size;
}

int main(void) {
    int fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
    T(fallocate(fd, 0, 0, 10000));
    N(size(fd));
    T(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 50000));
    N(size(fd));
    T(fallocate(fd, 0, 0, 100));
    N(size(fd));
    char buffer[16384];
    memset(buffer, 'x', sizeof buffer);
    T(pwrite(fd, buffer, 16384, 0));
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 8192));
    N(size(fd));
    T(pread(fd, buffer, 16384, 0));
    int zeros = 0;
    for (int i = 0; i < 16384; i++) zeros += buffer[i] == 0;
    N(zeros);
    YES(buffer[99] == 'x' && buffer[100] == 0 && buffer[8291] == 0 && buffer[8292] == 'x');
    PART("errors");
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10));
    T(fallocate(fd, 0, -1, 10));
    T(fallocate(fd, 0, 0, 0));
    T(fallocate(fd, 0, 0, -1));
    T(fallocate(fd, 0x1000, 0, 10));
    T(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    T(fallocate(fd, 0, LONG_MAX, 10));
    T(fallocate(99, 0, 0, 10));
    T(fallocate(99, 0, 0, -1));
    int in = MUST(open("f", O_RDONLY)), dir = MUST(open(".", O_RDONLY)), pipes[2];
    MUST(pipe(pipes));
    T(fallocate(in, 0, 0, 10));
    T(fallocate(dir, 0, 0, 10));
    T(fallocate(pipes[1], 0, 0, 10));
    PART("holes");
    int sparse = MUST(open("sparse", O_CREAT | O_RDWR, 0644));
    T(ftruncate(sparse, 65536));
    T(lseek(sparse, 0, SEEK_DATA));
    T(lseek(sparse, 0, SEEK_HOLE));
    T(pwrite(sparse, "x", 1, 20480));
    T(lseek(sparse, 0, SEEK_DATA));
    T(lseek(sparse, 20480, SEEK_HOLE));
    T(lseek(sparse, 24576, SEEK_DATA));
    T(lseek(sparse, 24576, SEEK_HOLE));
    T(lseek(sparse, 65536, SEEK_HOLE));
    T(lseek(sparse, 65536, SEEK_DATA));
    T(lseek(sparse, -1, SEEK_HOLE));
    struct stat st;
    fstat(sparse, &st);
    N(st.st_blocks);
    return 0;
}

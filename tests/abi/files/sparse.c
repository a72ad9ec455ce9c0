// Holes and ranges: what fallocate(2) does to them, SEEK_DATA and SEEK_HOLE, copies of large holes. The file systems differ
// in what they can, so what one refuses is compared, too.
#include "check.h"
#include <linux/falloc.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#define BLOCK 4096L

static void map(int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    printf("  size %ld:", (long)st.st_size);
    for (off_t at = 0;;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0) {
            printf(" %s\n", check_error(errno));
            break;
        }
        at = lseek(fd, data, SEEK_HOLE);
        printf(" %ld..%ld", (long)data, (long)at);
    }
}

// All that is in the file, block by block.
static void content(int fd) {
    char block[BLOCK];
    ssize_t got;
    printf("  ");
    for (off_t at = 0; (got = pread(fd, block, BLOCK, at)) > 0; at += got) {
        int zeros = 0;
        for (int i = 0; i < got; i++) zeros += block[i] == 0;
        printf("%c/%d ", block[0] ? block[0] : '0', zeros);
    }
    puts("");
}

static int filled(const char *name, int blocks) {
    int fd = MUST(open(name, O_CREAT | O_TRUNC | O_RDWR, 0644));
    char block[BLOCK];
    for (int i = 0; i < blocks; i++) {
        memset(block, 'a' + i, BLOCK);
        MUST(pwrite(fd, block, BLOCK, i * BLOCK));
    }
    fsync(fd);
    return fd;
}

static void change(const char *what, int mode, off_t at, off_t len) {
    int fd = filled("f", 8);
    printf("%s at %ld, %ld: ", what, (long)at, (long)len);
    int result = fallocate(fd, mode, at, len);
    puts(result < 0 ? check_error(errno) : "ok");
    struct stat st;
    MUST(fstat(fd, &st));
    printf("  size %ld\n", (long)st.st_size);
    content(fd);
    close(fd);
}

int main(void) {
    PART("ranges");
    int keep = FALLOC_FL_KEEP_SIZE;
    off_t ranges[][2] = {{BLOCK, BLOCK}, {100, 50}, {100, 2 * BLOCK}, {7 * BLOCK, 4 * BLOCK}, {8 * BLOCK, BLOCK}};
    for (size_t i = 0; i < COUNT(ranges); i++) {
        off_t at = ranges[i][0], len = ranges[i][1];
        change("punch", FALLOC_FL_PUNCH_HOLE | keep, at, len);
        change("zero", FALLOC_FL_ZERO_RANGE, at, len);
        change("zero, keep", FALLOC_FL_ZERO_RANGE | keep, at, len);
        change("collapse", FALLOC_FL_COLLAPSE_RANGE, at, len);
        change("insert", FALLOC_FL_INSERT_RANGE, at, len);
        change("unshare", FALLOC_FL_UNSHARE_RANGE, at, len);
        change("allocate", 0, at, len);
        change("allocate, keep", keep, at, len);
    }
    change("collapse, keep", FALLOC_FL_COLLAPSE_RANGE | keep, BLOCK, BLOCK);
    change("punch and zero", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | keep, BLOCK, BLOCK);
    change("punch without keep", FALLOC_FL_PUNCH_HOLE, BLOCK, BLOCK);
    PART("data and holes");
    int fd = MUST(open("sparse", O_CREAT | O_RDWR, 0644));
    map(fd);
    MUST(ftruncate(fd, 64 * BLOCK));
    map(fd);
    MUST(pwrite(fd, "x", 1, 16 * BLOCK));
    MUST(pwrite(fd, "x", 1, 48 * BLOCK + 100));
    map(fd);
    T(lseek(fd, 16 * BLOCK + 7, SEEK_DATA));
    T(lseek(fd, 16 * BLOCK + 7, SEEK_HOLE));
    T(lseek(fd, 64 * BLOCK, SEEK_HOLE));
    T(lseek(fd, 64 * BLOCK - 1, SEEK_HOLE));
    T(lseek(fd, 0, SEEK_CUR));
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | keep, 16 * BLOCK, BLOCK));
    map(fd);
    int other = MUST(open("sparse", O_RDONLY));
    map(other);
    int writer = MUST(open("sparse", O_WRONLY));
    T(lseek(writer, 0, SEEK_DATA));
    PART("copies");
    MUST(ftruncate(fd, 64L << 20));
    int copy = MUST(open("copy", O_CREAT | O_RDWR, 0644));
    loff_t from = 0, to = 0;
    ssize_t done, total = 0;
    while ((done = copy_file_range(fd, &from, copy, &to, 64L << 20, 0)) > 0) total += done;
    N(total);
    struct stat st;
    MUST(fstat(copy, &st));
    N(st.st_size);
    char byte = 0;
    T(pread(copy, &byte, 1, 48 * BLOCK + 100));
    printf("%c\n", byte);
    from = 32L << 20;
    to = 4;
    T(copy_file_range(fd, &from, fd, &to, BLOCK, 0));
    from = 0;
    T(copy_file_range(fd, &from, fd, &to, BLOCK, 0));
    T(copy_file_range(fd, NULL, copy, NULL, 10, 1));
    return 0;
}

// Calls about space, durability and attributes on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"
#include <sys/statfs.h>

static int advice;
static struct stat status;
static struct statx more;
static struct statfs place;
static struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};

int main(void) {
    objects_start();
    EACH(ftruncate(fd, 5));
    EACH(ftruncate(fd, -1));
    EACH(fallocate(fd, 0, 0, 10));
    EACH(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 20));
    EACH(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 5));
    EACH(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 5));
    EACH(fallocate(fd, 0x100, 0, 10));
    EACH(fallocate(fd, 0, -1, 10));
    EACH(fallocate(fd, 0, 0, 0));
    EACH(fallocate(fd, 0, 0x7fffffffffffffff, 10));
    EACH(fsync(fd));
    EACH(fdatasync(fd));
    EACH(sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE));
    EACH(sync_file_range(fd, 0, 10, 0));
    EACH(sync_file_range(fd, -1, 10, 0));
    EACH(sync_file_range(fd, 0, 10, 8));
    EACH(syncfs(fd));
    EACH(readahead(fd, 0, 10));
    EACH(readahead(fd, -1, 10));
    for (advice = 0; advice <= 6; advice++) {
        long advise(int fd) { return syscall(SYS_fadvise64, fd, 0, 10, advice); }
        long advise_negative(int fd) { return syscall(SYS_fadvise64, fd, 0, -1, advice); }
        printf("advice %d\n", advice);
        on_each("fadvise", advise);
        on_each("fadvise of a negative length", advise_negative);
    }
    PART("attributes");
    EACH(fchown(fd, -1, -1));
    EACH_BUT(DEVICE | TERMINAL | GENERATED | NAMESPACE, fchmod(fd, 0600));
    EACH(fstat(fd, &status));
    EACH(fstat(fd, BAD));
    EACH(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more));
    EACH(statx(fd, "", 0, STATX_BASIC_STATS, &more));
    EACH(statx(fd, "x", 0, STATX_BASIC_STATS, &more));
    EACH(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, BAD));
    EACH(statx(fd, "", AT_EMPTY_PATH, 0x80000000U, &more));
    EACH(fstatfs(fd, &place));
    EACH(fstatfs(fd, BAD));
    EACH(futimens(fd, times));
    EACH(utimensat(fd, "", times, AT_EMPTY_PATH));
    EACH(utimensat(fd, "x", times, 0));
    // Nothing that changes devices of the host. Linux keeps times of files in /proc for a while.
    EACH_BUT(DEVICE | TERMINAL | NAMESPACE | GENERATED, futimens(fd, NULL));
    EACH(fchmodat(fd, "x", 0600, 0));
    EACH(fchownat(fd, "", -1, -1, AT_EMPTY_PATH));
    EACH(fchownat(fd, "x", -1, -1, 0));
    EACH(faccessat(fd, "x", R_OK, 0));
    EACH(faccessat(fd, "", R_OK, AT_EMPTY_PATH));
    EACH(faccessat(fd, "", X_OK, AT_EMPTY_PATH));
    return 0;
}

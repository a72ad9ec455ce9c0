// stat and its relatives: what they tell of each type of file, and their errors.
#include "check.h"
#include <sys/sysmacros.h>

static void show(const char *name) {
    struct stat st;
    if (lstat(name, &st)) {
        printf("%s: %s\n", name, check_error(errno));
        return;
    }
    printf("%s: mode %06o links %ld size %lld uid %s rdev %u:%u\n", name, st.st_mode,
           S_ISDIR(st.st_mode) ? -1L : (long)st.st_nlink, S_ISDIR(st.st_mode) ? -1LL : (long long)st.st_size,
           st.st_uid == geteuid() ? "own" : "other", major(st.st_rdev), minor(st.st_rdev));
}

int main(void) {
    umask(022);
    put_file("file", "hello world");
    MUST(mkdir("dir", 0750));
    MUST(symlink("file", "link"));
    MUST(link("file", "hard"));
    MUST(mkfifo("fifo", 0640));
    show("file");
    show("hard");
    show("dir");
    show("link");
    show("fifo");
    show("/dev/null");
    show("/dev/zero");
    show("/dev/full");
    show("/dev/random");
    show("/dev/urandom");
    show("/dev/tty");
    struct stat st, other;
    T(stat("link", &st));
    N(st.st_size);
    T(stat("hard", &other));
    YES(st.st_ino == other.st_ino && st.st_dev == other.st_dev);
    T(stat("dir", &other));
    YES(st.st_ino != other.st_ino && st.st_dev == other.st_dev);
    N(other.st_nlink);
    MUST(mkdir("dir/sub", 0755));
    stat("dir", &other);
    N(other.st_nlink);
    N(st.st_blksize);
    N(st.st_blocks);
    YES(st.st_mtime == st.st_ctime && llabs(time(NULL) - st.st_mtime) < 5);
    PART("errors");
    T(stat("nothing", &st));
    T(stat("", &st));
    T(stat("file/", &st));
    T(stat("file/.", &st));
    T(lstat("link/", &st));
    T(stat("dir/", &st));
    T(syscall(SYS_stat, NULL, &st));
    T(syscall(SYS_stat, "file", NULL));
    T(syscall(SYS_stat, "file", BAD));
    T(syscall(SYS_stat, "nothing", BAD));
    T(syscall(SYS_fstat, 0, BAD));
    T(syscall(SYS_fstat, 99, BAD));
    T(fstatat(99, "file", &st, 0));
    T(fstatat(AT_FDCWD, "file", &st, 0x80000));
    T(fstatat(AT_FDCWD, "link", &st, AT_SYMLINK_NOFOLLOW));
    YES(S_ISLNK(st.st_mode));
    N(st.st_size);
    int pipes[2];
    MUST(pipe(pipes));
    T(fstat(pipes[0], &st));
    printf("%o %ld\n", st.st_mode, (long)st.st_size);
    PART("statx");
    struct statx sx;
    memset(&sx, 0, sizeof sx);
    T(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &sx));
    printf("mask %x mode %o size %lld links %u\n", sx.stx_mask & STATX_BASIC_STATS, sx.stx_mode, (long long)sx.stx_size,
           sx.stx_nlink);
    YES(sx.stx_ino == (unsigned long long)({ stat("file", &st); st.st_ino; }));
    T(statx(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, STATX_TYPE, &sx));
    YES(S_ISLNK(sx.stx_mode));
    T(statx(AT_FDCWD, "file", 0x10, STATX_BASIC_STATS, &sx));
    T(statx(AT_FDCWD, "file", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &sx));
    T(statx(AT_FDCWD, "file", 0, 0x80000000, &sx));
    T(statx(AT_FDCWD, "nothing", 0, STATX_BASIC_STATS, &sx));
    T(statx(pipes[0], "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx));
    T(statx(99, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx));
    T(syscall(SYS_statx, AT_FDCWD, "file", 0, STATX_BASIC_STATS, BAD));
    T(syscall(SYS_statx, AT_FDCWD, NULL, 0, STATX_BASIC_STATS, &sx));
    return 0;
}

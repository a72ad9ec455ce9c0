// Files of /proc: reads of any size, offsets, writes where nothing can be written, names that can't be made.
#include "check.h"

static char whole[1 << 16], part[1 << 16];

static void pieces(const char *name, size_t size) {
    int fd = MUST(open(name, O_RDONLY)), again = MUST(open(name, O_RDONLY));
    ssize_t total = 0, sum = 0, got;
    while ((got = read(fd, whole + total, sizeof whole - total)) > 0) total += got;
    while ((got = read(again, part + sum, size)) > 0) sum += got;
    printf("%s by %zu: %s\n", name, size, total == sum && memcmp(whole, part, sum) == 0 ? "the same" : "different");
    YES(pread(fd, part, 10, 5) == 10 && memcmp(part, whole + 5, 10) == 0);
    T(lseek(fd, 0, SEEK_SET));
    YES(read(fd, part, 8) == 8 && memcmp(part, whole, 8) == 0);
    T(lseek(fd, 0, SEEK_END));
    T(lseek(fd, -1, SEEK_SET));
    struct stat st;
    MUST(fstat(fd, &st));
    printf("mode %o, size %lld, %lld blocks of %ld\n", st.st_mode, (long long)st.st_size, (long long)st.st_blocks,
           (long)st.st_blksize);
    close(fd);
    close(again);
}

static void write_to(const char *name, const char *data) {
    int fd = open(name, O_WRONLY | O_TRUNC);
    if (fd < 0) {
        printf("%s: open: %s\n", name, check_error(errno));
        return;
    }
    ssize_t put = write(fd, data, strlen(data));
    printf("%s <- \"%s\": %s\n", name, data, put < 0 ? check_error(errno) : "ok");
    close(fd);
}

int main(void) {
    pieces("/proc/self/limits", 1);
    pieces("/proc/filesystems", 7);
    pieces("/proc/self/mounts", 100);
    PART("writes");
    write_to("/proc/self/stat", "x");
    write_to("/proc/uptime", "x");
    write_to("/proc/self/oom_score_adj", "300\n");
    show_file("/proc/self/oom_score_adj");
    write_to("/proc/self/oom_score_adj", " 301 ");
    write_to("/proc/self/oom_score_adj", "1001");
    write_to("/proc/self/oom_score_adj", "x");
    write_to("/proc/self/oom_score_adj", "");
    show_file("/proc/self/oom_score_adj");
    write_to("/proc/self/comm", "a name of more than 15 bytes");
    show_file("/proc/self/comm");
    PART("names");
    T(open("/proc/self/new", O_CREAT | O_WRONLY, 0644));
    T(unlink("/proc/self/stat"));
    T(rename("/proc/self/stat", "/proc/self/new"));
    T(rename("/proc/self/stat", "/proc/self/status"));
    T(symlink("x", "/proc/self/new"));
    T(chmod("/proc/self/stat", 0777));
    T(open("/proc/self/exe", O_RDONLY | O_NOFOLLOW));
    T(open("/proc/self/stat/", O_RDONLY));
    T(access("/proc/self/root/proc/self/cwd/..", F_OK));
    T(readlink("/proc/self/stat", part, sizeof part));
    T(access("/proc/0", F_OK));
    T(access("/proc/-1", F_OK));
    T(access("/proc/02", F_OK));
    struct stat first, second;
    MUST(stat("/proc/self/stat", &first));
    MUST(stat("/proc/self/stat", &second));
    YES(first.st_ino == second.st_ino && first.st_dev == second.st_dev);
    PART("memory");
    int fd = MUST(open("/proc/self/mem", O_RDWR));
    static char mine[] = "written here";
    YES(pread(fd, part, sizeof mine, (off_t)(uintptr_t)mine) == sizeof mine && strcmp(part, mine) == 0);
    T(pwrite(fd, "changed", 7, (off_t)(uintptr_t)mine));
    puts(mine);
    T(pread(fd, part, 1, 0));
    T(pread(fd, part, 1, 1L << 62));
    return 0;
}

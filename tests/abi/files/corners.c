// Files in the corners: what the manual pages promise for odd arguments and odd states.
#include "check.h"
#include <dirent.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>

static void unnamed(void) {
    PART("O_TMPFILE");
    char path[64];
    T(open(".", O_TMPFILE | O_RDONLY, 0600));
    T(open("missing", O_TMPFILE | O_RDWR, 0600));
    put_file("plain", "text");
    T(open("plain", O_TMPFILE | O_RDWR, 0600));
    T(open(".", O_TMPFILE | O_RDWR | O_CREAT, 0600));
    T(open(".", __O_TMPFILE | O_RDWR, 0600));
    int fd = MUST(open(".", O_TMPFILE | O_RDWR, 0640));
    struct stat info;
    fstat(fd, &info);
    N(info.st_nlink);
    printf("%o\n", info.st_mode);
    T(write(fd, "hello", 5));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    T(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    fstat(fd, &info);
    N(info.st_nlink);
    show_file("named");
    T(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    T(linkat(fd, "", AT_FDCWD, "again", AT_EMPTY_PATH));
    T(linkat(fd, "", AT_FDCWD, "third", 0));
    T(linkat(fd, "", AT_FDCWD, "third", 0x4000));
    T(linkat(-1, "", AT_FDCWD, "third", AT_EMPTY_PATH));
    int dir = open(".", O_RDONLY);
    T(linkat(dir, "", AT_FDCWD, "third", AT_EMPTY_PATH));
    int exclusive = MUST(open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600));
    snprintf(path, sizeof path, "/proc/self/fd/%d", exclusive);
    T(linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW));
    int gone = open("gone", O_CREAT | O_RDWR, 0600);
    unlink("gone");
    snprintf(path, sizeof path, "/proc/self/fd/%d", gone);
    T(linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW));
    T(linkat(gone, "", AT_FDCWD, "never", AT_EMPTY_PATH));
}

static void seeking(void) {
    PART("seeking");
    int fd = MUST(open("sparse", O_CREAT | O_RDWR, 0600));
    T(pwrite(fd, "x", 1, 4096 * 10));
    T(lseek(fd, 0, SEEK_DATA));
    T(lseek(fd, 0, SEEK_HOLE));
    T(lseek(fd, 4096 * 10, SEEK_HOLE));
    T(lseek(fd, 4096 * 10 + 1, SEEK_DATA));
    T(lseek(fd, 4096 * 10 + 1, SEEK_HOLE));
    T(lseek(fd, 4096 * 20, SEEK_DATA));
    T(lseek(fd, -1, SEEK_DATA));
    T(lseek(fd, -1, SEEK_HOLE));
    T(lseek(fd, -1, SEEK_SET));
    T(lseek(fd, LONG_MAX, SEEK_SET));
    T(lseek(fd, LONG_MAX, SEEK_CUR));
    T(lseek(fd, 1, SEEK_CUR));
    T(lseek(fd, LONG_MAX, SEEK_END));
    T(lseek(fd, -100000, SEEK_END));
    T(lseek(fd, 0, 5));
    T(lseek(fd, 0, -1));
    T(ftruncate(fd, 4096 * 20));
    T(lseek(fd, 4096 * 11, SEEK_DATA));
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096 * 10, 4096));
    T(lseek(fd, 0, SEEK_DATA));
    T(lseek(fd, 0, SEEK_HOLE));
    static const char *const files[] = {"/proc/self/stat",  "/proc/self/maps",   "/proc/cpuinfo", "/proc/meminfo",
                                        "/proc/sys/kernel/osrelease",
                                        "/proc/self/status", "/proc/mounts",      "/dev/null",     "/dev/zero"};
    for (size_t i = 0; i < COUNT(files); i++) {
        printf("%s\n", files[i]);
        int proc = open(files[i], O_RDONLY);
        T(lseek(proc, 0, SEEK_END));
        T(lseek(proc, -1, SEEK_SET));
        T(lseek(proc, 5, SEEK_SET));
        T(lseek(proc, 0, SEEK_DATA));
        T(lseek(proc, 0, SEEK_HOLE));
        close(proc);
    }
}

static void listing(void) {
    PART("listing into too little");
    mkdir("many", 0755);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/%02d", i);
        close(open(name, O_CREAT, 0600));
    }
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    int fd = MUST(open("many", O_RDONLY));
    T(syscall(SYS_getdents64, fd, pages + 4096 - 100, 4096) > 0);
    T(syscall(SYS_getdents64, fd, pages + 4096 - 100, 4096) > 0);
    T(syscall(SYS_getdents64, fd, pages + 4096 - 10, 4096));
    T(syscall(SYS_getdents64, fd, pages, 10));
    T(syscall(SYS_getdents64, fd, pages, 0));
    T(syscall(SYS_getdents64, fd, BAD, 4096));
    T(syscall(SYS_getdents, fd, pages, 10));
    long total = 0, got;
    while ((got = syscall(SYS_getdents64, fd, pages, 200)) > 0)
        for (long at = 0; at < got; at += ((struct dirent64 *)(pages + at))->d_reclen) total++;
    N(total);
    T(syscall(SYS_getdents64, fd, BAD, 4096));
    T(lseek(fd, 0, SEEK_SET));
    T(read(fd, pages, 10));
    T(write(fd, pages, 10));
    T(pread(fd, pages, 10, 0));
    T(ftruncate(fd, 0));
    T(fallocate(fd, 0, 0, 1));
    T(fsync(fd));
    T(fdatasync(fd));
    T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
    int plain = open("plain", O_RDONLY);
    T(syscall(SYS_getdents64, plain, pages, 100));
    rmdir("many");
    mkdir("removed", 0755);
    fd = MUST(open("removed", O_RDONLY));
    rmdir("removed");
    T(syscall(SYS_getdents64, fd, pages, 100));
    T(openat(fd, "x", O_CREAT | O_RDWR, 0600));
    T(openat(fd, ".", O_RDONLY) >= 0);
    T(mkdirat(fd, "x", 0700));
}

static void opening(void) {
    PART("opening");
    T(open(".", O_DIRECT | O_RDONLY));
    T(open(".", O_DIRECTORY | O_DIRECT));
    T(open("/proc/sys/kernel/osrelease", O_RDWR));
    T(open("/proc/sys/kernel/osrelease", O_WRONLY));
    T(open("/proc/sys/kernel/ostype", O_RDWR | O_TRUNC));
    T(open("/proc/self/stat", O_RDWR) >= 0);
    T(open("/proc/cpuinfo", O_WRONLY) >= 0);
    T(open("/proc/self/maps", O_WRONLY) >= 0);
    T(access("/proc/sys/kernel/osrelease", W_OK));
    T(open("plain", O_CREAT | O_DIRECTORY, 0600));
    T(open("newdir", O_CREAT | O_DIRECTORY, 0600));
    T(open("plain", O_RDONLY | O_DIRECTORY));
    T(open("plain/", O_RDONLY));
    T(open("plain/.", O_RDONLY));
    T(open("new/", O_CREAT | O_RDWR, 0600));
    T(open(".", O_CREAT | O_RDONLY, 0600));
    T(open("..", O_WRONLY));
    T(open("", O_RDONLY));
    T(open("plain", O_CREAT | O_EXCL, 0600));
    symlink("nowhere", "dangling");
    T(open("dangling", O_RDONLY));
    T(open("dangling", O_CREAT | O_EXCL | O_RDWR, 0600));
    T(open("dangling", O_NOFOLLOW));
    T(open("dangling", O_PATH | O_NOFOLLOW) >= 0);
    T(open("dangling", O_PATH));
    T(open("dangling", O_DIRECTORY | O_NOFOLLOW));
    T(open("plain", 3) >= 0);
    T(open("plain", O_RDONLY | O_TRUNC) >= 0);
    show_file("plain");
    put_file("plain", "text");
    int odd = open("plain", 3);
    T(read(odd, BAD, 0));
    T(write(odd, BAD, 0));
    T(fcntl(odd, F_GETFL) & O_ACCMODE);
    T(open("plain", O_RDONLY | O_DIRECT) >= 0);
    T(open("plain", O_PATH | O_RDWR | O_TRUNC | O_CREAT) >= 0);
    T(open("plain", 0x40000000) >= 0);
    PART("openat2");
    struct open_how how = {.flags = O_RDONLY};
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how) >= 0);
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how - 1));
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, 4097));
    T(syscall(SYS_openat2, AT_FDCWD, "plain", BAD, sizeof how));
    how.flags = O_RDONLY | 0x40000000;
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how));
    how.flags = O_RDONLY, how.mode = 0600;
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how));
    how.flags = O_CREAT, how.mode = 0100600;
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how));
    how.flags = O_PATH | O_RDWR, how.mode = 0;
    T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how));
    how.flags = O_PATH;
    for (unsigned bit = 0; bit < 7; bit++) {
        how.resolve = 1 << bit;
        printf("resolve %#llx\n", (long long)how.resolve);
        T(syscall(SYS_openat2, AT_FDCWD, "plain", &how, sizeof how) >= 0);
        T(syscall(SYS_openat2, AT_FDCWD, "dangling", &how, sizeof how) >= 0);
        // The directory may be a mount point.
        if (bit) T(syscall(SYS_openat2, AT_FDCWD, "..", &how, sizeof how) >= 0);
        T(syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, sizeof how) >= 0);
        T(syscall(SYS_openat2, AT_FDCWD, "/plain", &how, sizeof how) >= 0);
    }
}

static void offsets(void) {
    PART("large offsets");
    int fd = MUST(open("large", O_CREAT | O_RDWR, 0600)), pipes[2], other = MUST(open("other", O_CREAT | O_RDWR, 0600));
    MUST(pipe(pipes));
    MUST(write(pipes[1], "data", 4));
    MUST(write(fd, "0123456789", 10));
    off_t last = LONG_MAX, negative = -1, zero = 0;
    T(pwrite(fd, "x", 1, LONG_MAX));
    T(pwrite(fd, "x", 1, LONG_MAX - 1));
    T(pread(fd, &zero, 1, LONG_MAX));
    zero = 0;
    T(pread(fd, &zero, 2, LONG_MAX));
    T(pread(fd, &zero, 1, -1));
    zero = 0;
    T(splice(pipes[0], NULL, fd, &last, 4, 0));
    T(splice(pipes[0], NULL, fd, &negative, 4, 0));
    T(splice(fd, &last, pipes[1], NULL, 4, 0));
    T(splice(fd, &negative, pipes[1], NULL, 4, 0));
    T(splice(fd, &zero, pipes[1], NULL, 0, 0));
    T(splice(fd, &zero, other, NULL, 4, 0));
    T(splice(pipes[0], &zero, fd, NULL, 4, 0));
    T(splice(fd, &zero, pipes[1], NULL, 4, 64));
    T(copy_file_range(fd, &last, other, NULL, 4, 0));
    T(copy_file_range(fd, NULL, other, &last, 4, 0));
    T(copy_file_range(fd, &negative, other, NULL, 4, 0));
    T(copy_file_range(fd, &zero, fd, &zero, 4, 0));
    zero = LONG_MAX - 1;
    T(copy_file_range(fd, &zero, other, NULL, LONG_MAX, 0));
    zero = 0;
    T(copy_file_range(fd, &zero, other, NULL, 4, 1));
    T(copy_file_range(pipes[0], NULL, other, NULL, 4, 0));
    int dir = open(".", O_RDONLY), reading = open("large", O_RDONLY), appending = open("other", O_WRONLY | O_APPEND);
    T(copy_file_range(dir, NULL, other, NULL, 4, 0));
    T(copy_file_range(fd, NULL, reading, NULL, 4, 0));
    T(copy_file_range(fd, NULL, appending, NULL, 4, 0));
    T(sendfile(other, fd, &last, 4));
    T(sendfile(other, fd, &negative, 4));
    T(sendfile(appending, fd, &zero, 4));
    T(sendfile(reading, fd, &zero, 4));
    T(fallocate(fd, 0, 0, 0));
    T(fallocate(fd, 0, -1, 1));
    T(fallocate(fd, 0, 0, -1));
    T(fallocate(fd, 0, LONG_MAX, 1));
    T(fallocate(reading, 0, 0, 1));
    T(fallocate(pipes[1], 0, 0, 1));
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 1));
    T(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    T(fallocate(fd, FALLOC_FL_INSERT_RANGE, 0, 4096));
    T(fallocate(fd, FALLOC_FL_UNSHARE_RANGE, 0, 4096));
    T(fallocate(fd, 0x80, 0, 4096));
    T(fallocate(fd, FALLOC_FL_KEEP_SIZE, 8192, 4096));
    T(lseek(fd, 0, SEEK_END));
    T(ftruncate(fd, -1));
    T(ftruncate(fd, LONG_MAX));
    T(ftruncate(reading, 1));
    T(truncate("large", -1));
    T(truncate(".", 1));
    T(truncate("missing", 1));
    T(posix_fadvise(fd, 0, -1, 0));
    T(posix_fadvise(fd, -1, 0, 0));
    T(posix_fadvise(pipes[0], 0, 0, 0));
    T(posix_fadvise(fd, 0, 0, 9));
    T(syscall(SYS_readahead, fd, 0L, 10L));
    T(syscall(SYS_readahead, dir, 0L, 10L));
    T(syscall(SYS_readahead, pipes[0], 0L, 10L));
    T(syscall(SYS_sync_file_range, fd, -1L, 1L, 0));
    T(syscall(SYS_sync_file_range, pipes[0], 0L, 1L, 0));
    T(syscall(SYS_sync_file_range, fd, 0L, 1L, 8));
}

static void size_limit(void) {
    PART("RLIMIT_FSIZE");
    struct rlimit limit = {100, 100};
    signal(SIGXFSZ, SIG_IGN);
    int fd = MUST(open("limited", O_CREAT | O_RDWR | O_TRUNC, 0600));
    setrlimit(RLIMIT_FSIZE, &limit);
    char data[200] = {0};
    T(write(fd, data, 60));
    T(write(fd, data, 60));
    T(write(fd, data, 60));
    T(write(fd, data, 0));
    T(pwrite(fd, data, 10, 95));
    T(pwrite(fd, data, 10, 100));
    T(pwrite(fd, data, 0, 200));
    T(ftruncate(fd, 101));
    T(ftruncate(fd, 100));
    T(truncate("limited", 200));
    T(fallocate(fd, 0, 0, 101));
    T(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 200));
    int fd2 = open("plain", O_RDONLY), out = open("limited", O_WRONLY);
    lseek(out, 98, SEEK_SET);
    T(sendfile(out, fd2, NULL, 4));
    T(sendfile(out, fd2, NULL, 4));
    lseek(out, 99, SEEK_SET);
    T(copy_file_range(fd2, &(off_t){0}, out, NULL, 4, 0));
    T(copy_file_range(fd2, &(off_t){0}, out, NULL, 4, 0));
    int memory = syscall(SYS_memfd_create, "limited", 0);
    T(ftruncate(memory, 200));
    T(write(memory, data, 200));
    CHILD("by a signal", signal(SIGXFSZ, SIG_DFL); no_core_files(); ftruncate(fd, 200));
    limit.rlim_cur = RLIM_INFINITY;
    T(setrlimit(RLIMIT_FSIZE, &limit));
}

static void seals(void) {
    PART("seals");
    int fd = MUST(syscall(SYS_memfd_create, "sealed", MFD_ALLOW_SEALING));
    MUST(ftruncate(fd, 4096));
    T(fcntl(fd, F_GET_SEALS));
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    T(pwrite(fd, "0123456789", 10, 4090));
    T(pwrite(fd, "0123456789", 10, 4096));
    T(ftruncate(fd, 5000));
    T(fallocate(fd, 0, 4000, 1000));
    T(ftruncate(fd, 4000));
    T(pwrite(fd, "0123456789", 10, 3995));
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    T(ftruncate(fd, 3000));
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    T(fcntl(fd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */));
    T(write(fd, "x", 1));
    shared[0] = 'x';
    T(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    char *reading = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    T(mprotect(reading, 4096, PROT_READ | PROT_WRITE));
    T(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED);
    munmap(shared, 4096);
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    T(fcntl(fd, F_ADD_SEALS, 0x40));
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    T(fcntl(fd, F_GET_SEALS));
    fd = MUST(syscall(SYS_memfd_create, "plain", 0));
    T(fcntl(fd, F_GET_SEALS));
    T(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    int file = open("plain", O_RDWR);
    T(fcntl(file, F_GET_SEALS));
    T(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
    fd = MUST(syscall(SYS_memfd_create, "read-only", MFD_ALLOW_SEALING));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int reopened = open(path, O_RDONLY);
    T(fcntl(reopened, F_ADD_SEALS, F_SEAL_WRITE));
    T(fcntl(reopened, F_GET_SEALS));
}

int main(void) {
    umask(022);
    unnamed();
    seeking();
    listing();
    opening();
    offsets();
    seals();
    CHILD("limited", size_limit());
    return 0;
}

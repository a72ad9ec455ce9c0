// O_PATH descriptors and the *at calls with AT_EMPTY_PATH; openat2.
#include "check.h"
#include <linux/openat2.h>

static long openat2(int dir, const char *path, struct open_how *how, size_t size) {
    return syscall(SYS_openat2, dir, path, how, size);
}

int main(void) {
    put_file("file", "hello");
    MUST(mkdir("dir", 0755));
    put_file("dir/inner", "inner");
    MUST(symlink("file", "link"));
    MUST(symlink("/", "dir/root"));
    int fd = MUST(open("file", O_PATH));
    char buffer[16];
    struct stat st;
    PART("O_PATH");
    T(read(fd, buffer, 1));
    T(write(fd, "x", 1));
    T(lseek(fd, 0, SEEK_SET));
    T(ftruncate(fd, 0));
    T(fchmod(fd, 0600));
    T(fchown(fd, 0, 0));
    T(ioctl(fd, FIONREAD, &(int){0}));
    T(fstat(fd, &st));
    T(fsync(fd));
    T(fcntl(fd, F_SETFL, O_APPEND));
    printf("flags %#o\n", fcntl(fd, F_GETFL));
    T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    int copy = dup(fd);
    YES(copy >= 0);
    close(copy);
    PART("a link itself");
    int link = MUST(open("link", O_PATH | O_NOFOLLOW));
    T(fstat(link, &st));
    YES(S_ISLNK(st.st_mode));
    memset(buffer, 0, sizeof buffer);
    T(readlinkat(link, "", buffer, sizeof buffer));
    puts(buffer);
    PART("empty path");
    T(fstatat(fd, "", &st, AT_EMPTY_PATH));
    N(st.st_size);
    T(fstatat(fd, "", &st, 0));
    T(fstatat(fd, "", &st, 0x40000000));
    T(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
    YES(S_ISDIR(st.st_mode));
    T(linkat(fd, "", AT_FDCWD, "linked", AT_EMPTY_PATH));
    show_file("linked");
    PART("directory as a start");
    int dir = MUST(open("dir", O_PATH | O_DIRECTORY));
    int inner = OK(openat(dir, "inner", O_RDONLY));
    T(read(inner, buffer, 5));
    T(openat(fd, "inner", O_RDONLY));
    T(fchdir(fd));
    T(fchdir(dir));
    T(access("inner", R_OK));
    MUST(chdir(".."));
    PART("openat2");
    struct open_how how = {.flags = O_RDONLY};
    OK(openat2(AT_FDCWD, "file", &how, sizeof how));
    T(openat2(AT_FDCWD, "file", &how, 0));
    T(openat2(AT_FDCWD, "file", &how, 8));
    T(openat2(AT_FDCWD, "file", NULL, sizeof how));
    T(openat2(AT_FDCWD, "nothing", &how, sizeof how));
    how.mode = 0644;
    T(openat2(AT_FDCWD, "file", &how, sizeof how));
    how.mode = 0;
    how.flags = 0x20000000;
    T(openat2(AT_FDCWD, "file", &how, sizeof how));
    how.flags = O_RDONLY;
    how.resolve = 0x8000;
    T(openat2(AT_FDCWD, "file", &how, sizeof how));
    how.resolve = RESOLVE_NO_SYMLINKS;
    T(openat2(AT_FDCWD, "link", &how, sizeof how));
    OK(openat2(AT_FDCWD, "file", &how, sizeof how));
    how.resolve = RESOLVE_BENEATH;
    T(openat2(dir, "../file", &how, sizeof how));
    T(openat2(dir, "/etc", &how, sizeof how));
    T(openat2(dir, "root", &how, sizeof how));
    OK(openat2(dir, "inner", &how, sizeof how));
    OK(openat2(dir, "./../dir/inner", &how, sizeof how) == -1 ? 0 : -1);
    how.resolve = RESOLVE_IN_ROOT;
    OK(openat2(dir, "/inner", &how, sizeof how));
    OK(openat2(dir, "../inner", &how, sizeof how));
    OK(openat2(dir, "root/inner", &how, sizeof how));
    how.resolve = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    T(openat2(dir, "inner", &how, sizeof how));
    return 0;
}

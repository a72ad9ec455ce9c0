// Hard and symbolic links.
#include "check.h"

static long nlink_of(const char *name) {
    struct stat st;
    return lstat(name, &st) ? -1 : (long)st.st_nlink;
}

int main(void) {
    char buffer[PATH_MAX + 10];
    put_file("file", "content");
    MUST(mkdir("dir", 0755));
    PART("link");
    T(link("file", "hard"));
    N(nlink_of("file"));
    T(link("file", "hard"));
    T(link("nothing", "n"));
    T(link("dir", "dirlink"));
    T(link("file", "dir/inner"));
    T(link("file", "no/inner"));
    T(link("file", "file/x"));
    T(link("file", ""));
    T(link("", "x"));
    T(link("file", "newname/"));
    N(nlink_of("hard"));
    T(unlink("file"));
    N(nlink_of("hard"));
    show_file("dir/inner");
    T(syscall(SYS_link, BAD, "x"));
    T(syscall(SYS_link, "hard", BAD));
    PART("symlink");
    T(symlink("hard", "sym"));
    T(symlink("hard", "sym"));
    T(symlink("", "empty"));
    T(symlink("x", ""));
    T(symlink("x", "dir/"));
    T(symlink("x", "new/"));
    T(symlink("hard", "nothing/sym"));
    memset(buffer, 'y', sizeof buffer);
    buffer[PATH_MAX - 1] = 0;
    OK(symlink(buffer, "longest"));
    buffer[PATH_MAX - 1] = 'y';
    buffer[PATH_MAX] = 0;
    T(symlink(buffer, "toolong"));
    T(stat("longest", &(struct stat){0}));
    show_file("sym");
    PART("readlink");
    memset(buffer, 0, sizeof buffer);
    T(readlink("sym", buffer, sizeof buffer));
    puts(buffer);
    memset(buffer, 0, sizeof buffer);
    T(readlink("sym", buffer, 2));
    puts(buffer);
    T(readlink("sym", buffer, 0));
    T(readlink("sym", buffer, -1));
    T(readlink("hard", buffer, 10));
    T(readlink("dir", buffer, 10));
    T(readlink("nothing", buffer, 10));
    T(readlink("", buffer, 10));
    T(readlink("sym/", buffer, 10));
    T(syscall(SYS_readlink, "sym", BAD, 10));
    T(readlink("longest", buffer, sizeof buffer));
    PART("linkat");
    T(linkat(AT_FDCWD, "sym", AT_FDCWD, "hard-of-sym", 0));
    T(readlink("hard-of-sym", buffer, 100));
    N(nlink_of("sym"));
    T(linkat(AT_FDCWD, "sym", AT_FDCWD, "hard-of-target", AT_SYMLINK_FOLLOW));
    T(readlink("hard-of-target", buffer, 100));
    N(nlink_of("hard"));
    T(linkat(AT_FDCWD, "hard", AT_FDCWD, "x", 1));
    T(linkat(99, "hard", AT_FDCWD, "x", 0));
    PART("chains");
    char from[16], to[16];
    strcpy(to, "hard");
    for (int i = 0; i < 42; i++) {
        sprintf(from, "c%d", i);
        MUST(symlink(to, from));
        strcpy(to, from);
    }
    OK(open("c38", O_RDONLY));
    OK(open("c39", O_RDONLY));
    OK(open("c40", O_RDONLY));
    T(symlink("dir", "ldir"));
    T(access("ldir/inner", F_OK));
    T(access("ldir/../hard", F_OK));
    T(symlink("../hard", "dir/up"));
    show_file("dir/up");
    show_file("ldir/up");
    PART("an open file outlives its name");
    int fd = MUST(open("hard-of-target", O_RDWR));
    struct stat st;
    unlink("hard");
    unlink("hard-of-target");
    unlink("dir/inner");
    fstat(fd, &st);
    N(st.st_nlink);
    T(pread(fd, buffer, 100, 0));
    T(write(fd, "C", 1));
    OK(linkat(fd, "", AT_FDCWD, "revived", AT_EMPTY_PATH));
    close(fd);
    T(unlink("nothing"));
    T(unlink("sym/"));
    T(unlink("sym"));
    T(unlink(""));
    T(unlink("dir"));
    T(syscall(SYS_unlinkat, 99, "sym", 0));
    return 0;
}

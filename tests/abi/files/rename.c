// rename and renameat2.
#include "check.h"
#include <linux/fs.h>

static long rename2(const char *from, const char *to, unsigned flags) {
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

int main(void) {
    put_file("a", "A");
    put_file("b", "B");
    MUST(mkdir("d", 0755));
    MUST(mkdir("e", 0755));
    MUST(mkdir("d/sub", 0755));
    put_file("d/f", "F");
    MUST(symlink("a", "la"));
    PART("files");
    T(rename("a", "c"));
    T(access("a", F_OK));
    show_file("c");
    T(rename("c", "b"));
    show_file("b");
    T(rename("b", "b"));
    T(rename("nothing", "x"));
    T(rename("b", ""));
    T(rename("", "b"));
    T(rename("b", "no/x"));
    T(rename("b", "b/x"));
    T(rename("b", "d"));
    T(rename("d", "b"));
    T(rename("b", "new/"));
    T(rename("b/", "new"));
    T(syscall(SYS_rename, BAD, "x"));
    T(syscall(SYS_rename, "b", BAD));
    PART("directories");
    T(rename("d", "d/sub"));
    T(rename("d", "d/sub/x"));
    T(rename("d/sub", "d"));
    T(rename("e", "d"));
    T(rename("d", "e"));
    T(rename("e/", "g/"));
    T(access("g/f", F_OK));
    T(rename(".", "x"));
    T(rename("g", "."));
    T(rename("g/.", "x"));
    T(rename("g/..", "x"));
    T(rename("x", ".."));
    MUST(mkdir("empty", 0755));
    T(rename("empty", "g/sub"));
    T(rename("g", "h"));
    T(rename("h/sub", "moved"));
    struct stat up, here;
    stat("moved/..", &up);
    stat(".", &here);
    YES(up.st_ino == here.st_ino);
    PART("links");
    T(rename("la", "lb"));
    T(readlink("lb", (char[10]){0}, 10));
    MUST(link("b", "hard"));
    T(rename("b", "hard"));
    T(access("b", F_OK));
    T(rename("lb", "b"));
    show_file("hard");
    PART("renameat2");
    put_file("one", "1");
    put_file("two", "2");
    T(rename2("one", "two", RENAME_NOREPLACE));
    T(rename2("one", "three", RENAME_NOREPLACE));
    T(rename2("three", "two", RENAME_EXCHANGE));
    show_file("two");
    show_file("three");
    T(rename2("three", "h", RENAME_EXCHANGE));
    show_file("h");
    T(access("three/f", F_OK));
    T(rename2("three", "nothing", RENAME_EXCHANGE));
    T(rename2("two", "x", RENAME_EXCHANGE | RENAME_NOREPLACE));
    T(rename2("two", "x", 8));
    T(syscall(SYS_renameat2, 99, "two", AT_FDCWD, "x", 0));
    PART("an open file keeps its content");
    int fd = MUST(open("two", O_RDONLY));
    put_file("other", "other");
    T(rename("other", "two"));
    char byte;
    T(read(fd, &byte, 1));
    putchar(byte);
    puts("");
    fstat(fd, &here);
    N(here.st_nlink);
    PART("a working directory moves along");
    MUST(mkdir("w", 0755));
    MUST(chdir("w"));
    T(rename("../w", "../v"));
    char *cwd = getcwd(NULL, 0);
    puts(strrchr(cwd, '/'));
    return 0;
}

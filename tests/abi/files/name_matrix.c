// renameat2(2) with all flags but RENAME_WHITEOUT and linkat(2) between names of each kind: files, directories, links,
// dots, slashes, nothing.
#include "check.h"
int main(void) {
    put_file("f", "hello");
    mkdir("d", 0755);
    mkdir("d/e", 0755);
    put_file("d/g", "x");
    symlink("f", "l");
    symlink("d", "ld");
    mkfifo("p", 0644);
    int f = open("f", O_RDWR), d = open("d", O_RDONLY);
    PART("renameat2");
    const char *n[] = {"f", "d", "l", "p", "missing", "d/e", "d/g", ".", "..", "d/", "f/", "d/e/", "", "ld/", "d/.", "d/.."};
    for (int fl = 0; fl < 8; fl++)
        if (fl != 4 && fl != 5)
            for (int i = 0; i < 16; i++) {
                printf("%d %s:", fl, n[i]);
                for (int j = 0; j < 16; j++) {
                    mkdir("w", 0755);
                    chdir("w");
                    close(open("f", O_CREAT, 0644));
                    mkdir("d", 0755);
                    mkdir("d/e", 0755);
                    close(open("d/g", O_CREAT, 0644));
                    symlink("f", "l");
                    symlink("d", "ld");
                    mkfifo("p", 0644);
                    long r = syscall(316, AT_FDCWD, n[i], AT_FDCWD, n[j], fl);
                    printf(" %s", r ? check_error(errno) : "ok");
                    unlink("f");
                    rmdir("f");
                    unlink("l");
                    rmdir("l");
                    unlink("p");
                    rmdir("p");
                    unlink("missing");
                    rmdir("missing/e");
                    unlink("missing/g");
                    rmdir("missing");
                    unlink("f/g");
                    rmdir("f/e");
                    rmdir("f");
                    unlink("l/g");
                    rmdir("l/e");
                    rmdir("l");
                    unlink("p/g");
                    rmdir("p/e");
                    rmdir("p");
                    unlink("d/e/g");
                    unlink("d/e");
                    rmdir("d/e");
                    unlink("d/g");
                    rmdir("d/g");
                    unlink("d/g/e");
                    rmdir("d");
                    unlink("d");
                    unlink("ld");
                    rmdir("ld/e");
                    unlink("ld/g");
                    rmdir("ld");
                    rmdir("d");
                    chdir("..");
                }
                puts("");
            }
    system("rm -rf w");
    PART("linkat");
    for (int fl = 0; fl < 3; fl++) {
        int flag = fl == 0 ? 0 : fl == 1 ? AT_SYMLINK_FOLLOW : AT_EMPTY_PATH;
        for (int i = 0; i < 16; i++) {
            if (!strcmp(n[i], "..")) continue;
            printf("%d %s:", fl, n[i]);
            long r = linkat(AT_FDCWD, n[i], AT_FDCWD, "new", flag);
            printf(" %s", r ? check_error(errno) : "ok");
            unlink("new");
            r = linkat(AT_FDCWD, n[i], AT_FDCWD, "d/g", flag);
            printf(" %s", r ? check_error(errno) : "ok");
            r = linkat(f, n[i], d, "n2", flag);
            printf(" %s", r ? check_error(errno) : "ok");
            unlink("d/n2");
            r = linkat(AT_FDCWD, n[i], AT_FDCWD, "new/", flag);
            printf(" %s\n", r ? check_error(errno) : "ok");
        }
    }
    SYSCALL(265, f, "", AT_FDCWD, "viaempty", 0x1000);
    SYSCALL(265, d, "", AT_FDCWD, "viaempty2", 0x1000);
    SYSCALL(265, AT_FDCWD, "", AT_FDCWD, "viaempty3", 0x1000);
    SYSCALL(265, AT_FDCWD, "f", AT_FDCWD, "x", 1);
    int t = open(".", O_TMPFILE | O_RDWR, 0600);
    SYSCALL(265, t, "", AT_FDCWD, "tmp1", 0x1000);
    t = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    SYSCALL(265, t, "", AT_FDCWD, "tmp2", 0x1000);
    int u = open("u", O_CREAT | O_RDWR, 0600);
    unlink("u");
    SYSCALL(265, u, "", AT_FDCWD, "u2", 0x1000);
    char pn[64];
    sprintf(pn, "/proc/self/fd/%d", u);
    SYSCALL(265, AT_FDCWD, pn, AT_FDCWD, "u3", 0x400);
    unlink("viaempty");
    unlink("tmp1");
    return 0;
}

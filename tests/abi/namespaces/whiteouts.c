// RENAME_WHITEOUT of renameat2(2).
#include "../check.h"
#include <linux/fs.h>
#include <sys/sysmacros.h>
static void show(const char *name) {
    struct stat s;
    if (lstat(name, &s) == -1) { printf("   %s: %s\n", name, check_error(errno)); return; }
    printf("   %s: mode %o, nlink %d, device %d:%d, own %d\n", name, s.st_mode, (int)s.st_nlink, major(s.st_rdev), minor(s.st_rdev), s.st_uid == geteuid());
}
static int mv(const char *a, const char *b, unsigned flags) { return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags); }
int main(void) {
    put_file("a", "a");
    put_file("b", "b");
    MUST(mkdir("d", 0755));
    MUST(mkdir("e", 0755));
    put_file("d/f", "f");
    MUST(symlink("a", "l"));
    T(mv("a", "new", RENAME_WHITEOUT)); show("a"); show("new");
    T(mv("new", "b", RENAME_WHITEOUT)); show("new"); show("b");
    T(mv("b", "d/b", RENAME_WHITEOUT)); show("b"); show("d/b");
    T(mv("d", "e/d", RENAME_WHITEOUT)); show("d"); show("e/d"); show("e/d/f"); show("e"); show(".");
    T(mv("l", "m", RENAME_WHITEOUT)); show("l"); show("m");
    T(mv("a", "a2", RENAME_WHITEOUT)); show("a"); show("a2");
    T(mv("a", "a", RENAME_WHITEOUT)); show("a");
    T(mv("missing", "x", RENAME_WHITEOUT)); show("missing"); show("x");
    T(mv("m", "a2", RENAME_WHITEOUT | RENAME_NOREPLACE)); show("m");
    T(mv("m", "y", RENAME_WHITEOUT | RENAME_NOREPLACE)); show("m"); show("y");
    T(mv("y", "a2", RENAME_WHITEOUT | RENAME_EXCHANGE));
    T(mv("y", "a2", RENAME_NOREPLACE | RENAME_EXCHANGE));
    T(mv("y", "a2", 8));
    T(mv("e", "e/d/x", RENAME_WHITEOUT)); show("e");
    put_file("h", "h");
    MUST(link("h", "h2"));
    T(mv("h", "h2", RENAME_WHITEOUT)); show("h"); show("h2");
    T(open("a", O_RDONLY));
    T(unlink("a"));
    T(unlink("b"));
    T(rmdir("d"));
    T(unlink("d"));
    T(mknod("w", S_IFCHR, 0)); show("w");
    if (geteuid() == 0) CHILD("another user", {
        MUST(chmod(".", 0777));
        MUST(setgid(1234));
        MUST(setuid(1234));
        put_file("mine", "");
        T(mv("mine", "mine2", RENAME_WHITEOUT)); show("mine"); show("mine2");
        T(mv("h2", "mine3", RENAME_WHITEOUT)); show("h2"); show("mine3");
        T(unlink("mine"));
    });
    return 0;
}

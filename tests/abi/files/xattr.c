// Extended attributes in the user's namespace on a tmpfs.
#include "check.h"
#include <sys/xattr.h>

int main(void) {
    char buffer[256] = {0};
    put_file("f", "x");
    MUST(mkdir("d", 0755));
    MUST(symlink("f", "l"));
    int fd = MUST(open("f", O_RDWR));
    T(listxattr("f", buffer, sizeof buffer));
    T(getxattr("f", "user.a", buffer, sizeof buffer));
    T(setxattr("f", "user.a", "value", 5, 0));
    T(getxattr("f", "user.a", buffer, sizeof buffer));
    puts(buffer);
    T(getxattr("f", "user.a", NULL, 0));
    T(getxattr("f", "user.a", buffer, 2));
    T(setxattr("f", "user.a", "v2", 2, XATTR_CREATE));
    T(setxattr("f", "user.b", "v2", 2, XATTR_REPLACE));
    T(setxattr("f", "user.a", "v2", 2, XATTR_REPLACE));
    T(setxattr("f", "user.a", "v2", 2, 4));
    T(fsetxattr(fd, "user.empty", "", 0, 0));
    T(fgetxattr(fd, "user.empty", buffer, sizeof buffer));
    T(listxattr("f", NULL, 0));
    T(listxattr("f", buffer, 3));
    T(removexattr("f", "user.a"));
    T(removexattr("f", "user.a"));
    memset(buffer, 0, sizeof buffer);
    T(flistxattr(fd, buffer, sizeof buffer));
    puts(buffer);
    T(setxattr("d", "user.dir", "1", 1, 0));
    T(getxattr("l", "user.empty", buffer, sizeof buffer));
    T(lsetxattr("l", "user.x", "1", 1, 0));
    T(setxattr("f", "other.x", "1", 1, 0));
    T(setxattr("f", "noprefix", "1", 1, 0));
    T(setxattr("f", "", "1", 1, 0));
    T(setxattr("nothing", "user.x", "1", 1, 0));
    T(setxattr("f", "user.x", BAD, 1, 0));
    T(setxattr("f", "user.big", buffer, 70000, 0));
    T(syscall(SYS_getxattr, "f", BAD, buffer, 10));
    T(fgetxattr(99, "user.x", buffer, 10));
    return 0;
}

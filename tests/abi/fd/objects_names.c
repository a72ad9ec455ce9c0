// Calls about directories, names and attributes by name on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"
#include <linux/openat2.h>
#include <sys/fanotify.h>
#include <sys/xattr.h>

static long clean(long result) {
    int error = errno;
    unlink("dir/new");
    rmdir("dir/new");
    unlink("linked");
    errno = error;
    return result;
}

static long in_child(int fd, const char *name, int flags) {
    pid_t child = MUST(fork());
    if (child == 0) {
        char *arguments[] = {"x", NULL}, *none[] = {NULL};
        syscall(SYS_execveat, fd, name, arguments, none, flags);
        _exit(errno);
    }
    int status = 0;
    while (waitpid(child, &status, 0) == -1) {}
    errno = WEXITSTATUS(status);
    return WIFEXITED(status) && errno ? -1 : 0;
}

static long into(int fd) {
    int home = MUST(open(".", O_RDONLY));
    long result = fchdir(fd);
    int error = errno;
    MUST(fchdir(home));
    errno = error;
    return result;
}

static char buffer[4096];
static struct open_how how = {.flags = O_RDONLY};

int main(void) {
    objects_start();
    EACH_OK(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
    EACH(syscall(SYS_getdents64, fd, buffer, 1));
    EACH(syscall(SYS_getdents64, fd, buffer, 0));
    EACH(syscall(SYS_getdents64, fd, buffer, -1));
    EACH(syscall(SYS_getdents64, fd, BAD, sizeof buffer));
    EACH(syscall(SYS_getdents, fd, buffer, 0));
    EACH(openat(fd, "absent", O_RDONLY));
    EACH(openat(fd, "", O_RDONLY));
    EACH_OK(openat(fd, ".", O_RDONLY));
    EACH_OK(openat(fd, "..", O_RDONLY));
    EACH_OK(openat(fd, "/dev/null", O_RDONLY));
    EACH(openat(fd, BAD, O_RDONLY));
    EACH_BUT(GENERATED, clean(openat(fd, "new", O_CREAT | O_RDWR, 0600) < 0 ? -1 : 0));
    EACH(syscall(SYS_openat2, fd, "absent", &how, sizeof how));
    EACH(syscall(SYS_openat2, fd, "absent", &how, 8));
    EACH(mkdirat(fd, "", 0700));
    EACH_BUT(GENERATED, clean(mkdirat(fd, "new", 0700)));
    EACH(clean(mkdirat(fd, "absent/new", 0700)));
    EACH_BUT(GENERATED, clean(mknodat(fd, "new", S_IFIFO | 0600, 0)));
    EACH_BUT(GENERATED, clean(symlinkat("target", fd, "new")));
    EACH(symlinkat("", fd, "new"));
    EACH(unlinkat(fd, "absent", 0));
    EACH(unlinkat(fd, "absent", AT_REMOVEDIR));
    EACH(unlinkat(fd, "", 0));
    EACH(renameat(fd, "absent", AT_FDCWD, "new"));
    EACH(renameat(AT_FDCWD, "absent", fd, "new"));
    EACH(readlinkat(fd, "absent", buffer, sizeof buffer));
    EACH(readlinkat(fd, "", buffer, sizeof buffer));
    EACH(linkat(fd, "absent", AT_FDCWD, "linked", 0));
    EACH_BUT(GENERATED, clean(linkat(AT_FDCWD, "file", fd, "new", 0)));
    EACH_BUT(PATH, clean(linkat(fd, "", AT_FDCWD, "linked", AT_EMPTY_PATH)));
    EACH(linkat(fd, "", AT_FDCWD, "linked", 0));
    EACH(into(fd));
    EACH(syscall(SYS_name_to_handle_at, fd, "absent", BAD, buffer, 0));
    PART("programs");
    EACH(in_child(fd, "", AT_EMPTY_PATH));
    EACH(in_child(fd, "", 0));
    EACH(in_child(fd, "absent", 0));
    EACH(in_child(fd, "absent", AT_EMPTY_PATH));
    PART("extended attributes");
    // File systems differ in them; directories of processes and namespaces are immutable on newer kernels.
    EACH_BUT(STORED | NAMED | PROCESS, fgetxattr(fd, "user.absent", buffer, sizeof buffer));
    EACH(fgetxattr(fd, "", buffer, sizeof buffer));
    EACH_BUT(STORED | NAMED, fgetxattr(fd, "absent", buffer, sizeof buffer));
    EACH(fgetxattr(fd, BAD, buffer, sizeof buffer));
    EACH_BUT(PROCESS, fgetxattr(fd, "trusted.absent", buffer, sizeof buffer));
    EACH(fgetxattr(fd, "system.absent", buffer, sizeof buffer));
    EACH_BUT(DEVICE | TERMINAL | STORED | NAMED | PROCESS | GENERATED | NAMESPACE, fsetxattr(fd, "user.name", "x", 1, 0));
    EACH_BUT(GENERATED | NAMESPACE, fsetxattr(fd, "absent", "x", 1, 0));
    EACH(fsetxattr(fd, "user.name", BAD, 1, 0));
    EACH(fsetxattr(fd, "user.name", "x", 1, 4));
    EACH(fsetxattr(fd, "user.name", "x", 1 << 20, 0));
    EACH_BUT(STORED | NAMED, flistxattr(fd, NULL, 0) < 0 ? -1 : 0);
    EACH_BUT(STORED | NAMED | PROCESS | GENERATED | NAMESPACE, fremovexattr(fd, "user.absent"));
    EACH_BUT(GENERATED | NAMESPACE, fremovexattr(fd, "absent"));
    EACH(fremovexattr(fd, ""));
    return 0;
}

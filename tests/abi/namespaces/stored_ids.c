// Files in a file system of a user namespace that does not map the ids of their maker: EOVERFLOW.
#include "../check.h"
#include <sys/fsuid.h>
#include <sys/mount.h>

static int made(const char *name, int flags) {
    int fd = open(name, O_CREAT | O_WRONLY | flags, 0666);
    return fd < 0 ? -1 : close(fd);
}

static void tries(const char *who) {
    char path[2][64];
    struct stat st;
    printf("-- %s\n", who);
    T(made("t/file", 0));
    T(made("t/file", 0));
    T(made("t/file", O_EXCL));
    T(mkdir("t/dir", 0777));
    T(mknod("t/fifo", S_IFIFO | 0666, 0));
    T(symlink("target", "t/link"));
    T(link("t/first", "t/second"));
    T(rename("t/first", "t/third"));
    T(rename("t/third", "t/first"));
    T(rename("t/first", "t/shut/first"));
    T(rename("t/shut/first", "t/first"));
    T(made("t/shut/file", 0));
    T(mkdir("t/shut/dir", 0777));
    T(made("t/gone/file", 0));
    T(open("t/shut", O_TMPFILE | O_RDWR, 0666) < 0 ? -1 : 0);
    int fd = open("t", O_TMPFILE | O_RDWR, 0666);
    printf("unnamed: %s\n", fd < 0 ? check_error(errno) : "made");
    if (fd >= 0) {
        MUST(fstat(fd, &st));
        printf("owned by %d %d\n", st.st_uid, st.st_gid);
    }
    close(fd);
    for (int i = 0; i < 5; i++) {
        static const char *names[] = {"file", "dir", "fifo", "link", "second"};
        sprintf(path[0], "t/%s", names[i]);
        sprintf(path[1], "%s of %s", names[i], who);
        printf("%s: %s\n", path[1], lstat(path[0], &st) ? check_error(errno) : "there");
        remove(path[0]);
    }
}

int main(void) {
    MUST(mkdir("t", 0777));
    int ready[2], done[2];
    MUST(pipe(ready));
    MUST(pipe(done));
    char byte;
    umask(0);
    pid_t child = fork();
    if (child == 0) {
        MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
        MUST(write(ready[1], "", 1));
        MUST(read(done[0], &byte, 1));
        MUST(mount("t", "t", "tmpfs", 0, "mode=777"));
        put_file("t/first", "text");
        MUST(mkdir("t/shut", 0));
        tries("mapped ids");
        MUST(write(ready[1], "", 1));
        pause();
    }
    char name[64];
    MUST(read(ready[0], &byte, 1));
    sprintf(name, "/proc/%d/setgroups", child);
    put_file(name, "deny");
    sprintf(name, "/proc/%d/uid_map", child);
    put_file(name, "0 0 1");
    sprintf(name, "/proc/%d/gid_map", child);
    put_file(name, "0 0 1");
    MUST(write(done[1], "", 1));
    MUST(read(ready[0], &byte, 1));
    // From outside: the namespace's mounts by way of its process.
    char cwd[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/cwd", child);
    MUST(readlink(name, cwd, sizeof cwd));
    MUST(chdir(name));
    tries("root outside");
    setfsuid(1000);
    tries("a user that is not mapped");
    setfsuid(0);
    setfsgid(1000);
    tries("a group that is not mapped");
    setfsgid(0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

// A mount with files that are open for writing does not become read-only: mount(2), mount_setattr(2), fspick(2).
#include "../check.h"
#include <sys/mount.h>

enum { nr_fsconfig = 431, nr_fspick = 433, nr_mount_setattr = 442 };

struct attributes {
    uint64_t set, clear, propagation, userns;
};

static int bind_as(const char *at, unsigned long flags) { return mount(NULL, at, NULL, MS_REMOUNT | MS_BIND | flags, NULL); }

static int all_as(const char *at, unsigned long flags) { return mount(NULL, at, NULL, MS_REMOUNT | flags, NULL); }

static int set_as(const char *at, uint64_t set, uint64_t clear, int recursive) {
    struct attributes wanted = {set, clear, 0, 0};
    return syscall(nr_mount_setattr, AT_FDCWD, at, recursive ? 0x8000 : 0, &wanted, sizeof wanted);
}

// The file system behind a mount, by the calls with descriptors.
static int picked_as(const char *at, const char *what) {
    int fd = MUST(syscall(nr_fspick, AT_FDCWD, at, 0));
    MUST(syscall(nr_fsconfig, fd, 0, what, NULL, 0));
    int result = syscall(nr_fsconfig, fd, 7, NULL, NULL, 0), error = errno;
    close(fd);
    errno = error;
    return result;
}

// How both mounts take writers now; makes them writable again.
static void tried(const char *when) {
    printf("-- %s\n", when);
    for (int i = 0; i < 2; i++) {
        const char *at = i ? "b" : "a";
        printf("%s: ", at);
        T(bind_as(at, MS_RDONLY));
        T(bind_as(at, 0));
        T(set_as(at, 1, 0, 0));
        T(set_as(at, 0, 1, 0));
        T(all_as(at, MS_RDONLY));
        T(all_as(at, 0));
        T(picked_as(at, "ro"));
        T(picked_as(at, "rw"));
        T(bind_as("a", 0));
        T(bind_as("b", 0));
    }
}

int main(void) {
    MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
    put_file("/proc/self/setgroups", "deny");
    put_file("/proc/self/uid_map", "0 0 1");
    put_file("/proc/self/gid_map", "0 0 1");
    MUST(mkdir("a", 0755));
    MUST(mkdir("b", 0755));
    MUST(mount("t", "a", "tmpfs", 0, NULL));
    MUST(mount("a", "b", NULL, MS_BIND, NULL));
    put_file("a/file", "text");
    put_file("a/run", "text");
    MUST(mkfifo("a/fifo", 0600));
    tried("no files");

    int fd = MUST(open("a/file", O_RDONLY));
    tried("a reader");
    close(fd);

    fd = MUST(open("a/file", O_WRONLY));
    tried("a writer of a");
    int other = MUST(dup(fd));
    close(fd);
    tried("a copy of its descriptor");
    close(other);
    tried("closed");

    fd = MUST(open("b/file", O_RDWR));
    tried("a writer of b");
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    YES(shared != MAP_FAILED);
    close(fd);
    tried("a shared mapping of it");
    munmap(shared, 4096);
    tried("unmapped");

    fd = MUST(open("b/fifo", O_RDWR));
    tried("a writer of a FIFO");
    close(fd);

    fd = MUST(open("a/file", O_RDONLY | O_TRUNC));
    tried("truncated by a reader");
    close(fd);
    fd = MUST(open("a", O_TMPFILE | O_RDWR, 0600));
    tried("a file without a name");
    close(fd);

    PART("writers by way of what is read-only meanwhile");
    fd = MUST(open("a/file", O_WRONLY));
    OK(bind_as("b", MS_RDONLY));
    T(open("b/file", O_WRONLY));
    T(write(fd, "more", 4));
    OK(all_as("b", MS_RDONLY));
    T(open("a/file", O_WRONLY));
    close(fd);
    OK(all_as("b", MS_RDONLY));
    T(open("a/file", O_WRONLY));

    PART("trees");
    OK(all_as("b", 0));
    MUST(mkdir("a/deep", 0755));
    MUST(mount("u", "a/deep", "tmpfs", 0, NULL));
    fd = MUST(open("a/deep/file", O_CREAT | O_WRONLY, 0600));
    T(set_as("a", 1, 0, 1));
    T(open("a/new", O_CREAT | O_WRONLY, 0600) >= 0);
    close(fd);
    T(set_as("a", 1, 0, 0));
    T(open("a/other", O_CREAT | O_WRONLY, 0600));
    return 0;
}

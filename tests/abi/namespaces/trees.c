// Mounts by descriptors: open_tree(2), move_mount(2), fsopen(2), fsconfig(2), fsmount(2), fspick(2), mount_setattr(2).
#include "../check.h"
#include <sys/mount.h>
#include <sys/statvfs.h>

enum { nr_open_tree = 428, nr_move_mount, nr_fsopen, nr_fsconfig, nr_fsmount, nr_fspick, nr_mount_setattr = 442 };
enum { clone_tree = 1, from_empty = 4, to_empty = 0x40 };
enum { set_flag, set_string, create = 6, reconfigure };

struct attributes {
    uint64_t set, clear, propagation, user_ns;
};

static int tree(int dir, const char *name, unsigned flags) { return syscall(nr_open_tree, dir, name, flags); }
static int move(int from, const char *a, int to, const char *b, unsigned flags) {
    return syscall(nr_move_mount, from, a, to, b, flags);
}
static int config(int fd, unsigned command, const char *key, const void *value, int aux) {
    return syscall(nr_fsconfig, fd, command, key, value, aux);
}
static int attributes(const char *name, unsigned flags, uint64_t set, uint64_t clear, uint64_t propagation) {
    struct attributes a = {set, clear, propagation, 0};
    return syscall(nr_mount_setattr, AT_FDCWD, name, flags, &a, sizeof a);
}

static void flags_of(const char *name) {
    struct statvfs fs;
    MUST(statvfs(name, &fs));
    printf("%s: flags %lx\n", name, fs.f_flag & 0xfcff);
}

static void put(const char *name) { close(MUST(open(name, O_WRONLY | O_CREAT, 0644))); }

static void made(void) {
    T(syscall(nr_fsopen, "no such type", 0));
    T(syscall(nr_fsopen, "tmpfs", 4));
    T(syscall(nr_fsopen, BAD, 0));
    int fs = MUST(syscall(nr_fsopen, "tmpfs", 0));
    T(config(fs, set_string, "source", "mine", 0));
    T(config(fs, set_string, "source", "again", 0));
    T(config(fs, set_string, "mode", "700", 0));
    T(config(fs, set_string, "absent", "700", 0));
    T(config(fs, set_string, "mode", NULL, 0));
    T(config(fs, set_flag, "mode", "x", 0));
    T(config(fs, 99, NULL, NULL, 0));
    T(config(fs, reconfigure, NULL, NULL, 0));
    T(config(-1, create, NULL, NULL, 0));
    T(config(0, create, NULL, NULL, 0));
    T(syscall(nr_fsmount, fs, 0, 0));
    T(config(fs, create, NULL, NULL, 0));
    T(config(fs, create, NULL, NULL, 0));
    T(config(fs, set_string, "mode", "755", 0));
    T(syscall(nr_fsmount, fs, 2, 0));
    T(syscall(nr_fsmount, fs, 0, 0x40000000));
    T(syscall(nr_fsmount, 0, 0, 0));
    int mount = MUST(syscall(nr_fsmount, fs, 1, 2));
    T(syscall(nr_fsmount, fs, 1, 2));
    int file = MUST(openat(mount, "inside", O_RDWR | O_CREAT, 0600));
    T(write(file, "text", 4));
    T(move(mount, "", AT_FDCWD, "a", 0));
    T(move(mount, "", AT_FDCWD, "a", 0x80000000));
    T(move(mount, "", AT_FDCWD, "a", from_empty));
    T(access("a/inside", F_OK));
    flags_of("a");
    T(move(mount, "", AT_FDCWD, "b", from_empty));
    T(access("a/inside", F_OK));
    T(access("b/inside", F_OK));
    T(umount("b"));
    close(file);
    T(umount("b"));
    close(mount);
    T(umount("b"));
    close(fs);
    // One that is never put anywhere.
    fs = MUST(syscall(nr_fsopen, "tmpfs", 0));
    MUST(config(fs, create, NULL, NULL, 0));
    mount = MUST(syscall(nr_fsmount, fs, 0, 0));
    file = MUST(openat(mount, "inside", O_RDWR | O_CREAT, 0600));
    close(mount);
    close(fs);
    T(write(file, "text", 4));
    close(file);
}

static void copied(void) {
    MUST(mount("x", "a", "tmpfs", 0, NULL));
    MUST(mkdir("a/sub", 0755));
    MUST(mount("y", "a/sub", "tmpfs", 0, NULL));
    put("a/sub/file");
    T(tree(AT_FDCWD, "a", AT_RECURSIVE));
    T(tree(AT_FDCWD, "a", 0x40));
    T(tree(AT_FDCWD, "absent", clone_tree));
    int plain = MUST(tree(AT_FDCWD, "a", 0));
    int one = MUST(tree(AT_FDCWD, "a", clone_tree | O_CLOEXEC));
    int all = MUST(tree(AT_FDCWD, "a", clone_tree | AT_RECURSIVE));
    T(faccessat(one, "sub/file", F_OK, 0));
    T(faccessat(all, "sub/file", F_OK, 0));
    T(move(all, "", AT_FDCWD, "b", from_empty));
    T(access("b/sub/file", F_OK));
    T(move(one, "", AT_FDCWD, "b/sub", from_empty));
    T(access("b/sub/sub", F_OK));
    T(move(plain, "", AT_FDCWD, "c", from_empty));
    T(access("c/sub/file", F_OK));
    T(move(AT_FDCWD, "c/sub", AT_FDCWD, "a", 0));
    T(access("a/file", F_OK));
    T(move(AT_FDCWD, "a/file", AT_FDCWD, "c", 0));
    close(plain);
    close(one);
    close(all);
    all = MUST(tree(AT_FDCWD, "b", clone_tree | AT_RECURSIVE));
    close(all);
    T(access("b/sub/sub", F_OK));
    T(umount2("a", MNT_DETACH));
    T(umount2("b", MNT_DETACH));
    T(umount2("c", MNT_DETACH));
}

static void changed(void) {
    MUST(mount("x", "a", "tmpfs", 0, NULL));
    MUST(mkdir("a/sub", 0755));
    MUST(mount("y", "a/sub", "tmpfs", 0, NULL));
    T(attributes("a", 0, 1, 0, 0));
    flags_of("a");
    flags_of("a/sub");
    T(attributes("a", AT_RECURSIVE, 2 | 4, 1, 0));
    flags_of("a");
    flags_of("a/sub");
    T(attributes("a", 0, 0x10, 0x70, 0));
    flags_of("a");
    T(attributes("a", 0, 0x20, 0x70, 0));
    flags_of("a");
    T(attributes("a", 0, 0x10, 0, 0));
    T(attributes("a", 0, 0, 0x10, 0));
    T(attributes("a", 0, 0x30, 0x70, 0));
    T(attributes("a", 0, 0x40000000, 0, 0));
    T(attributes("a", 0, 0, 0, 3));
    T(attributes("a", 0, 0, 0, MS_SHARED | MS_PRIVATE));
    T(attributes("a", 0, 0, 0, 0));
    T(attributes("a", 0x40, 1, 0, 0));
    T(attributes("b", 0, 1, 0, 0));
    T(attributes("absent", 0, 1, 0, 0));
    T(syscall(nr_mount_setattr, AT_FDCWD, "a", 0, BAD, 32));
    T(syscall(nr_mount_setattr, AT_FDCWD, "a", 0, BAD, 31));
    T(syscall(nr_mount_setattr, AT_FDCWD, "a", 0, BAD, 5000));
    T(attributes("a", AT_RECURSIVE, 0, 0, MS_SHARED));
    MUST(mount("a", "b", NULL, MS_BIND, NULL));
    T(mkdir("a/more", 0755));
    T(mount("z", "a/more", "tmpfs", 0, NULL));
    put("a/more/file");
    T(access("b/more/file", F_OK));
    T(attributes("a", AT_RECURSIVE, 0, 0, MS_PRIVATE));
    T(umount("b/more"));
    T(access("a/more/file", F_OK));
    int picked = MUST(syscall(nr_fspick, AT_FDCWD, "a", 0));
    T(config(picked, set_flag, "ro", NULL, 0));
    T(config(picked, create, NULL, NULL, 0));
    T(config(picked, reconfigure, NULL, NULL, 0));
    T(mkdir("a/other", 0755));
    T(mkdir("b/other", 0755));
    close(picked);
    T(syscall(nr_fspick, AT_FDCWD, "a/other", 0));
    T(syscall(nr_fspick, AT_FDCWD, "c", 0));
    T(syscall(nr_fspick, AT_FDCWD, "a", 0x10));
    T(umount2("a", MNT_DETACH));
    T(umount2("b", MNT_DETACH));
}

int main(void) {
    const char *names[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT(names); i++)
        MUST(mkdir(names[i], 0755));
    OK(unshare(CLONE_NEWUSER | CLONE_NEWNS));
    int fd = MUST(open("/proc/self/setgroups", O_WRONLY));
    MUST(write(fd, "deny", 4));
    close(fd);
    fd = MUST(open("/proc/self/uid_map", O_WRONLY));
    MUST(write(fd, "0 0 1", 5));
    close(fd);
    fd = MUST(open("/proc/self/gid_map", O_WRONLY));
    MUST(write(fd, "0 0 1", 5));
    close(fd);
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    made();
    copied();
    changed();
    return 0;
}

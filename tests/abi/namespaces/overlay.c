// Overlay mounts in a user namespace, over layers in tmpfs: what is seen, what changes leave in the upper layer, errors.
#include "../check.h"
#include <dirent.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

enum { nr_move_mount = 429, nr_fsopen = 430, nr_fsconfig = 431, nr_fsmount = 432 };

static char here[PATH_MAX];

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

// Names of a directory with their types; whether their numbers are those of stat(2).
static void list(const char *name) {
    struct dirent **all;
    int count = scandir(name, &all, NULL, by_name);
    if (count < 0) {
        printf("%s: %s\n", name, check_error(errno));
        return;
    }
    printf("%s:", name);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", name, all[i]->d_name);
        if (all[i]->d_name[0] != '.' && lstat(path, &st) == 0)
            printf(" %s(%o%s)", all[i]->d_name, st.st_mode, st.st_ino == all[i]->d_ino ? "" : ", another number");
        else if (all[i]->d_name[0] != '.')
            printf(" %s(%s)", all[i]->d_name, check_error(errno));
    }
    printf("\n");
}

static void about(const char *name) {
    struct stat st, root;
    if (lstat(name, &st) == -1) {
        printf("%s: %s\n", name, check_error(errno));
        return;
    }
    MUST(stat("m", &root));
    printf("%s: mode %o, owner %u:%u, %s device", name, st.st_mode, st.st_uid, st.st_gid, st.st_dev == root.st_dev ? "one" : "another");
    // Linux makes one whiteout with many names.
    if (S_ISCHR(st.st_mode))
        printf(", device %u:%u", major(st.st_rdev), minor(st.st_rdev));
    else if (!S_ISDIR(st.st_mode))
        printf(", %lu links, size %ld", (unsigned long)st.st_nlink, (long)st.st_size);
    else
        printf(", %s", st.st_nlink == 1 ? "merged" : "links");
    printf(", modified %ld\n", st.st_mtime > 2000000 ? -1 : (long)st.st_mtime);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void attributes(const char *name) {
    char names[512];
    ssize_t len = llistxattr(name, names, sizeof names);
    const char *all[16];
    size_t count = 0;
    for (char *at = names; len > 0 && at < names + len && count < COUNT(all); at += strlen(at) + 1)
        all[count++] = at;
    qsort(all, count, sizeof *all, by_text);
    printf("%s:", name);
    for (size_t i = 0; i < count; i++) {
        const char *at = all[i];
        char value[64] = {0};
        // Where a copy is from, and the like, is the kernel's.
        if (strncmp(at, "user.", 5) != 0 || strstr(at, ".origin") || strstr(at, ".impure") || strstr(at, ".uuid"))
            continue;
        lgetxattr(name, at, value, sizeof value - 1);
        printf(" %s=%s", at, value);
    }
    printf("\n");
}

static void old(const char *name) {
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    MUST(utimensat(AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW));
}

static void layers(void) {
    const char *directories[] = {"a", "b", "u", "w", "m", "n", "a/both", "b/both", "b/dir", "b/dir/deep", "b/empty", "b/hidden", "a/over"};
    for (size_t i = 0; i < COUNT(directories); i++)
        MUST(mkdir(directories[i], 0755));
    put_file("a/file", "in a");
    put_file("b/file", "in b");
    put_file("b/low", "low");
    put_file("b/other", "other");
    put_file("b/twice", "twice");
    MUST(link("b/twice", "b/again"));
    put_file("a/both/one", "1");
    put_file("b/both/two", "2");
    put_file("b/dir/deep/x", "x");
    put_file("b/hidden/x", "x");
    put_file("b/over", "a file");
    put_file("b/gone", "gone");
    MUST(mknod("a/gone", S_IFCHR, makedev(0, 0)));
    MUST(symlink("low", "b/link"));
    MUST(mkfifo("b/fifo", 0640));
    MUST(mkdir("a/opaque", 0755));
    MUST(mkdir("b/opaque", 0755));
    put_file("a/opaque/in", "in");
    put_file("b/opaque/not", "not");
    MUST(setxattr("a/opaque", "user.overlay.opaque", "y", 1, 0));
    MUST(setxattr("b/low", "user.name", "value", 5, 0));
    MUST(chmod("b/low", 04750));
    const char *dated[] = {"b/low", "b/file", "a/file", "b/dir/deep/x", "b/dir/deep", "b/dir", "b/link", "b/both", "a/both", "b/twice"};
    for (size_t i = 0; i < COUNT(dated); i++)
        old(dated[i]);
}

static void seen(void) {
    PART("seen");
    list("m");
    list("m/both");
    list("m/opaque");
    const char *names[] = {"m", "m/file", "m/low", "m/link", "m/fifo", "m/both", "m/dir", "m/over", "m/gone", "m/twice"};
    for (size_t i = 0; i < COUNT(names); i++)
        about(names[i]);
    show_file("m/file");
    show_file("m/link");
    attributes("m/low");
    attributes("m/opaque");
    struct statfs fs;
    MUST(statfs("m", &fs));
    printf("type %lx, names of %ld\n", (long)fs.f_type, (long)fs.f_namelen);
    list("u");
    list("w");
    about("w/work");
}

static void copied(void) {
    PART("copied");
    struct stat before, after;
    MUST(stat("m/low", &before));
    int fd = MUST(open("m/low", O_RDONLY));
    int writer = MUST(open("m/low", O_WRONLY | O_APPEND));
    list("u");
    about("u/low");
    attributes("u/low");
    T(write(writer, " and more", 9));
    MUST(stat("m/low", &after));
    YES(before.st_ino == after.st_ino);
    YES(before.st_dev == after.st_dev);
    char text[32] = {0};
    T(read(fd, text, 31));
    printf("by the descriptor of before: %s\n", text);
    MUST(fstat(fd, &before));
    YES(before.st_size == after.st_size);
    close(fd);
    close(writer);
    T(chmod("m/low", 0750));
    show_file("b/low");
    show_file("u/low");
    T(chmod("m/dir/deep/x", 0600));
    list("u/dir");
    about("u/dir");
    about("u/dir/deep");
    about("u/dir/deep/x");
    about("m/dir/deep");
    T(setxattr("m/both", "user.mine", "1", 1, 0));
    attributes("m/both");
    attributes("u/both");
    T(setxattr("m/both", "user.overlay.opaque", "y", 1, 0));
    attributes("m/both");
    attributes("u/both");
    list("m/both");
    T(removexattr("m/both", "user.absent"));
    T(truncate("m/other", 2));
    show_file("u/other");
    T(lchown("m/link", 0, 0));
    about("u/link");
    T(link("m/twice", "m/third"));
    about("m/twice");
    about("m/again");
    about("m/third");
    fd = MUST(open("m/fifo", O_RDWR));
    T(fchmod(fd, 0600));
    close(fd);
    about("u/fifo");
    fd = MUST(open("m/file", O_RDONLY));
    char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("mapped: %.4s\n", map);
    munmap(map, 4096);
    close(fd);
    put_file("m/file", "replaced");
    fd = MUST(open("m/file", O_RDWR));
    map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memcpy(map, "by", 2);
    munmap(map, 4096);
    close(fd);
    show_file("u/file");
    list("w/work");
}

static void removed(void) {
    PART("removed");
    T(rmdir("m/both"));
    T(unlink("m/both/one"));
    T(unlink("m/both/two"));
    list("m/both");
    list("u/both");
    T(rmdir("m/both"));
    about("u/both");
    T(rmdir("m/empty"));
    about("u/empty");
    T(rmdir("m/hidden"));
    int fd = MUST(open("m/hidden/x", O_RDONLY));
    T(unlink("m/hidden/x"));
    char byte;
    T(read(fd, &byte, 1));
    close(fd);
    T(mkdir("m/empty", 0700));
    attributes("u/empty");
    attributes("m/empty");
    T(mkdir("m/both", 0700));
    list("m/both");
    put_file("m/own", "own");
    T(unlink("m/own"));
    about("u/own");
    T(unlink("m/file"));
    about("u/file");
    put_file("m/file", "new");
    about("u/file");
    T(unlink("m/link"));
    T(symlink("low", "m/link"));
    show_file("m/link");
    T(unlink("m/fifo"));
    T(link("m/low", "m/fifo"));
    about("m/fifo");
    T(unlink("m/absent"));
    T(unlink("m/dir"));
    T(rmdir("m/low"));
    T(mkdir("m/low", 0700));
    T(mkdir("m/fresh", 0700));
    attributes("u/fresh");
    T(mkdir("m/fresh/in", 0700));
    attributes("u/fresh/in");
    T(mknod("m/device", S_IFCHR, makedev(1, 3)));
    list("m");
    list("u");
}

static void moved(void) {
    PART("moved");
    T(rename("m/dir", "m/other place"));
    T(rename("m/low", "m/moved"));
    about("u/low");
    show_file("m/moved");
    T(rename("m/moved", "m/low"));
    about("u/low");
    T(rename("m/fresh", "m/fresher"));
    about("u/fresh");
    list("m/fresher");
    T(rename("m/fresher", "m/hidden"));
    list("m/hidden");
    attributes("u/hidden");
    T(rename("m/hidden", "m/dir"));
    T(syscall(SYS_renameat2, AT_FDCWD, "m/hidden", AT_FDCWD, "m/low", 2));
    show_file("m/hidden");
    list("m/low");
    T(syscall(SYS_renameat2, AT_FDCWD, "m/hidden", AT_FDCWD, "m/over", 1));
    T(syscall(SYS_renameat2, AT_FDCWD, "m/hidden", AT_FDCWD, "m/over", 0));
    T(syscall(SYS_renameat2, AT_FDCWD, "m/hidden", AT_FDCWD, "m/dir", 2));
    T(rename("m/hidden", "b/there"));
    T(link("b/other", "m/there"));
    list("m");
    list("u");
    int fd = open("m", O_TMPFILE | O_RDWR, 0600);
    YES(fd >= 0);
    T(write(fd, "unnamed", 7));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_value("link", linkat(AT_FDCWD, path, AT_FDCWD, "m/named", AT_SYMLINK_FOLLOW));
    show_file("u/named");
    close(fd);
}

static int overlay(const char *options, unsigned long flags) { return mount("source", "n", "overlay", flags, options); }

static void refused(void) {
    PART("refused");
    const char *all[] = {"", "lowerdir=a", "lowerdir=a:absent", "lowerdir=absent:a", "lowerdir=a:a", "lowerdir=a:b/dir:b", "lowerdir=a:b:b/dir", "lowerdir=a/file:b",
                         "lowerdir=a:", "lowerdir=:a", "upperdir=n,workdir=w", "lowerdir=a,upperdir=n", "lowerdir=a,upperdir=n,workdir=absent",
                         "lowerdir=a,upperdir=absent,workdir=n", "lowerdir=a,upperdir=c,workdir=c", "lowerdir=a,upperdir=c,workdir=c/in",
                         "lowerdir=a,upperdir=c/in,workdir=c", "lowerdir=a:c/in,upperdir=c,workdir=d", "lowerdir=a:d,upperdir=c,workdir=d", "lowerdir=a,upperdir=a,workdir=d",
                         "lowerdir=a,upperdir=a/file,workdir=d", "lowerdir=a,upperdir=c,workdir=t", "lowerdir=a,upperdir=m/dir,workdir=m/low",
                         "lowerdir=a:b,nonsense", "lowerdir=a:b,index=maybe", "lowerdir=a:b,userxattr,redirect_dir=on", "lowerdir=a:b,userxattr,metacopy=on",
                         "lowerdir=/proc:a"};
    MUST(mkdir("c", 0755));
    MUST(mkdir("c/in", 0755));
    MUST(mkdir("d", 0755));
    MUST(mkdir("t", 0755));
    MUST(mount("t", "t", "tmpfs", 0, NULL));
    for (size_t i = 0; i < COUNT(all); i++)
        check_value(all[i], overlay(all[i], 0));
    char many[4000] = "lowerdir=a";
    for (int i = 0; i < 600; i++)
        strcat(many, ":b");
    check_value("601 layers", overlay(many, 0));
}

static void nested(void) {
    PART("nested");
    T(overlay("lowerdir=m:a,userxattr", 0));
    show_file("n/dir/deep/x");
    list("n/both");
    T(open("n/new", O_CREAT | O_WRONLY, 0600));
    T(unlink("n/low"));
    T(open("n/other", O_WRONLY));
    T(mount(NULL, "n", NULL, MS_REMOUNT, NULL));
    T(mount(NULL, "n", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    T(mkdir("o", 0755));
    T(mount("source", "o", "overlay", 0, "lowerdir=n:a"));
    T(umount("n"));
    T(mkdir("e", 0755));
    T(mkdir("v:e,s\\", 0755));
    T(overlay("lowerdir=v\\:e\\,s\\\\:b,userxattr,upperdir=c/in,workdir=d", MS_NODEV));
    FILE *f = fopen("/proc/self/mountinfo", "r");
    char line[4096];
    while (f && fgets(line, sizeof line, f)) {
        char *kind = strstr(line, " - overlay "), *at = strstr(line, here), *lower = strstr(line, "lowerdir=");
        if (kind && at && at < kind && lower) {
            // What follows the layers depends on how the host's kernel was built.
            char *work = strstr(lower, "workdir=");
            int width = work ? work + strcspn(work, ",\n") - lower : 0;
            printf("%.*s %s %.*s\n", (int)strcspn(at + strlen(here), "-"), at + strlen(here), strtok(kind, ","), width, lower);
        }
    }
    put_file("n/file in it", "text");
    int fd = MUST(open("n/low", O_WRONLY));
    T(umount("n"));
    T(mount(NULL, "n", NULL, MS_REMOUNT | MS_RDONLY, NULL));
    close(fd);
    T(umount("n"));
    list("c/in");
}

static void configured(void) {
    PART("configured");
    int fd = MUST(syscall(nr_fsopen, "overlay", 0));
    T(syscall(nr_fsconfig, fd, 1, "lowerdir+", "a", 0));
    T(syscall(nr_fsconfig, fd, 1, "lowerdir+", "b", 0));
    T(syscall(nr_fsconfig, fd, 1, "nonsense", "b", 0));
    T(syscall(nr_fsconfig, fd, 0, "userxattr", NULL, 0));
    T(syscall(nr_fsconfig, fd, 6, NULL, NULL, 0));
    int mount_fd = syscall(nr_fsmount, fd, 0, 0);
    YES(mount_fd >= 0);
    T(syscall(nr_move_mount, mount_fd, "", AT_FDCWD, "n", 4));
    list("n/both");
    T(mkdir("n/x", 0700));
    T(umount2("n", MNT_DETACH));
    close(mount_fd);
    close(fd);
}

int main(void) {
    MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
    put_file("/proc/self/setgroups", "deny");
    put_file("/proc/self/uid_map", "0 0 1");
    put_file("/proc/self/gid_map", "0 0 1");
    MUST(mkdir("top", 0755));
    MUST(mount("t", "top", "tmpfs", 0, NULL));
    MUST(chdir("top"));
    MUST(getcwd(here, sizeof here));
    layers();
    T(mount("overlay", "m", "overlay", 0, "lowerdir=a:b,upperdir=u,workdir=w,userxattr"));
    seen();
    copied();
    removed();
    moved();
    refused();
    nested();
    configured();
    T(umount("m"));
    list("m");
    return 0;
}

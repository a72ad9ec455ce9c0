// POSIX access control lists by their attributes, on a tmpfs: what is taken and refused, who may do what, modes, and
// what new files get.
#include "check.h"
#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };
struct entry { unsigned short tag, perm; unsigned id; };
struct acl { unsigned version; struct entry entries[12]; };
#define ACL(...) ((struct acl){2, {__VA_ARGS__}})
#define LEN(n) (4 + (n) * sizeof(struct entry))

static void show(const char *path, const char *name) {
    struct acl acl;
    int len = getxattr(path, name, &acl, sizeof acl);
    if (len < 0) {
        printf("  %s %s: %s\n", path, strrchr(name, '_') + 1, strerrorname_np(errno));
        return;
    }
    printf("  %s %s: v%u", path, strrchr(name, '_') + 1, acl.version);
    for (int i = 0; i < (len - 4) / 8; i++)
        printf(" %u:%x:%d", acl.entries[i].tag, acl.entries[i].perm, (int)acl.entries[i].id);
    puts("");
}

static void all(const char *path) {
    struct stat st;
    MUST(lstat(path, &st));
    printf("  %s mode %o\n", path, st.st_mode);
    show(path, ACCESS);
    show(path, DEFAULT);
}

static void list(const char *path) {
    char names[200];
    int len = T(listxattr(path, names, sizeof names));
    for (char *name = names; name < names + len; name += strlen(name) + 1) printf("  %s\n", name);
}

static int set(const char *path, const char *name, struct acl acl, int n) {
    return setxattr(path, name, &acl, LEN(n), 0);
}

// What a user with these groups may do.
static void as(unsigned uid, unsigned gid, unsigned more, const char *path) {
    fflush(stdout);
    pid_t pid = MUST(fork());
    if (pid == 0) {
        gid_t groups[1] = {more};
        MUST(setgroups(more ? 1 : 0, groups));
        MUST(setgid(gid));
        MUST(setuid(uid));
        printf("  %u:%u,%u %s:", uid, gid, more, path);
        int flags[3] = {O_RDONLY, O_WRONLY, O_RDWR};
        for (int i = 0; i < 3; i++) printf(" %d", open(path, flags[i]) < 0 ? errno : 0);
        for (int mode = 0; mode < 8; mode++) printf(" %d", access(path, mode) < 0 ? errno : 0);
        puts("");
        T(set(path, ACCESS, ACL({USER_OBJ, 7}, {GROUP_OBJ, 7}, {OTHER, 7}), 3));
        fflush(stdout);
        _exit(0);
    }
    int status;
    MUST(waitpid(pid, &status, 0));
}

int main(void) {
    umask(022);
    put_file("f", "x");
    MUST(mkdir("d", 0755));
    MUST(symlink("f", "l"));
    MUST(mkfifo("p", 0644));
    puts("forms");
    all("f");
    all("d");
    struct acl simple = ACL({USER_OBJ, 6}, {GROUP_OBJ, 4}, {OTHER, 0});
    struct acl full = ACL({USER_OBJ, 6}, {USER, 7, 1000}, {USER, 2, 1001}, {GROUP_OBJ, 4}, {GROUP, 6, 2000}, {MASK, 6}, {OTHER, 1});
    T(setxattr("f", ACCESS, &simple, 3, 0));
    T(setxattr("f", ACCESS, &simple, 4, 0));
    T(setxattr("f", ACCESS, &simple, 5, 0));
    T(setxattr("f", ACCESS, &simple, LEN(3) - 1, 0));
    T(setxattr("f", ACCESS, &simple, LEN(2), 0));
    T(setxattr("f", ACCESS, "", 0, 0));
    T(setxattr("f", ACCESS, &full, LEN(7), XATTR_CREATE | XATTR_REPLACE));
    T(setxattr("f", ACCESS, &full, LEN(7), 4));
    struct acl wrong = full;
    wrong.version = 1;
    T(set("f", ACCESS, wrong, 7));
    wrong.version = 2;
    for (int i = 0; i < 7; i++) {
        // Each entry left out, doubled, with a wrong tag, with wrong permissions, without an id.
        struct acl other = full;
        memmove(&other.entries[i], &other.entries[i + 1], (6 - i) * sizeof(struct entry));
        printf("%d: %d", i, set("f", ACCESS, other, 6) < 0 ? errno : 0);
        other = full;
        memmove(&other.entries[i + 1], &other.entries[i], (7 - i) * sizeof(struct entry));
        printf(" %d", set("f", ACCESS, other, 8) < 0 ? errno : 0);
        other = full;
        other.entries[i].tag = 3;
        printf(" %d", set("f", ACCESS, other, 7) < 0 ? errno : 0);
        other = full;
        other.entries[i].perm = 8;
        printf(" %d", set("f", ACCESS, other, 7) < 0 ? errno : 0);
        other = full;
        other.entries[i].id = -1;
        printf(" %d\n", set("f", ACCESS, other, 7) < 0 ? errno : 0);
    }
    puts("kept and changed");
    T(set("f", ACCESS, full, 7));
    all("f");
    list("f");
    T(getxattr("f", ACCESS, NULL, 0));
    char small[10];
    T(getxattr("f", ACCESS, small, sizeof small));
    MUST(chmod("f", 0751));
    all("f");
    MUST(chmod("f", 04705));
    all("f");
    T(set("f", ACCESS, simple, 3));
    all("f");
    T(set("f", ACCESS, full, 7));
    T(setxattr("f", "user.x", "1", 1, 0));
    list("f");
    T(removexattr("f", ACCESS));
    all("f");
    T(removexattr("f", ACCESS));
    T(removexattr("f", DEFAULT));
    T(set("f", DEFAULT, full, 7));
    T(setxattr("f", DEFAULT, NULL, 0, 0));
    puts("other kinds");
    T(lsetxattr("l", ACCESS, &full, LEN(7), 0));
    T(lgetxattr("l", ACCESS, small, sizeof small));
    T(lremovexattr("l", ACCESS));
    T(set("l", ACCESS, full, 7));
    T(set("p", ACCESS, full, 7));
    all("p");
    T(setxattr("f", "system.posix_acl_", &full, LEN(7), 0));
    T(setxattr("f", "system.other", &full, LEN(7), 0));
    T(getxattr("/proc/self", ACCESS, small, sizeof small));
    T(set("/proc/self/status", ACCESS, full, 7));
    puts("permissions");
    if (geteuid() == 0) {
        MUST(chmod(".", 0755));
        struct acl lists[] = {
            full,
            ACL({USER_OBJ, 0}, {USER, 6, 1000}, {GROUP_OBJ, 0}, {MASK, 4}, {OTHER, 7}),
            ACL({USER_OBJ, 6}, {GROUP_OBJ, 1}, {GROUP, 4, 2000}, {GROUP, 2, 2001}, {MASK, 7}, {OTHER, 7}),
            ACL({USER_OBJ, 6}, {USER, 7, 1000}, {GROUP_OBJ, 7}, {MASK, 0}, {OTHER, 4}),
            ACL({USER_OBJ, 4}, {GROUP_OBJ, 2}, {OTHER, 1}),
        };
        MUST(chown("f", 1500, 2500));
        for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
            printf("list %u\n", i);
            int n = 0;
            while (lists[i].entries[n].tag) n++;
            T(set("f", ACCESS, lists[i], n));
            all("f");
            as(1000, 3000, 0, "f");
            as(1001, 3000, 0, "f");
            as(1002, 2000, 0, "f");
            as(1002, 3000, 2000, "f");
            as(1002, 2001, 2000, "f");
            as(1002, 2500, 0, "f");
            as(1002, 3000, 0, "f");
            as(1500, 3000, 0, "f");
            T(set("f", ACCESS, lists[i], n));
        }
        // A directory that only one user may search.
        T(set("d", ACCESS, ACL({USER_OBJ, 7}, {USER, 1, 1000}, {GROUP_OBJ, 0}, {MASK, 7}, {OTHER, 0}), 5));
        put_file("d/in", "x");
        MUST(chmod("d/in", 0644));
        as(1000, 3000, 0, "d/in");
        as(1001, 3000, 0, "d/in");
        MUST(chmod("d", 0700));
        as(1000, 3000, 0, "d/in");
        T(removexattr("d", ACCESS));
        MUST(chmod("d", 0755));
        // The set-group-id bit of somebody who is not in the group.
        MUST(chmod("f", 02755));
        T(set("f", ACCESS, full, 7));
        all("f");
    }
    puts("new files");
    umask(027);
    T(set("d", DEFAULT, ACL({USER_OBJ, 7}, {USER, 5, 1000}, {GROUP_OBJ, 5}, {MASK, 7}, {OTHER, 4}), 5));
    all("d");
    list("d");
    close(MUST(open("d/file", O_CREAT | O_WRONLY, 0666)));
    all("d/file");
    close(MUST(open("d/private", O_CREAT | O_WRONLY, 0600)));
    all("d/private");
    MUST(mkdir("d/sub", 0777));
    all("d/sub");
    MUST(mkdir("d/sub/sub", 0710));
    all("d/sub/sub");
    MUST(symlink("x", "d/link"));
    struct stat st;
    MUST(lstat("d/link", &st));
    printf("link %o\n", st.st_mode);
    MUST(mkfifo("d/fifo", 0666));
    all("d/fifo");
    int fd = MUST(open("d", O_TMPFILE | O_RDWR, 0666));
    MUST(fstat(fd, &st));
    printf("unnamed %o\n", st.st_mode);
    T(fgetxattr(fd, ACCESS, NULL, 0));
    int sock = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    struct sockaddr_un address = {AF_UNIX, "d/sock"};
    MUST(bind(sock, (void *)&address, sizeof address));
    all("d/sock");
    // A default list without more than the bits takes the mask's place, too.
    T(set("d", DEFAULT, ACL({USER_OBJ, 7}, {GROUP_OBJ, 7}, {OTHER, 5}), 3));
    close(MUST(open("d/plain", O_CREAT | O_WRONLY, 0666)));
    all("d/plain");
    MUST(mkdir("d/sub2", 0777));
    all("d/sub2");
    MUST(rename("d/file", "moved"));
    all("moved");
    T(removexattr("d", DEFAULT));
    all("d");
    close(MUST(open("d/masked", O_CREAT | O_WRONLY, 0666)));
    all("d/masked");
    return 0;
}

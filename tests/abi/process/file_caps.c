// Capabilities that a file gives: capabilities(7), "File capabilities" and "Transformation of capabilities during
// execve()"; when they go: chown(2), write(2), truncate(2).
#include "check.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/xattr.h>

#define BIT(n) (1u << (n))
// A machine may keep some from all its programs.
#define SHOWN (BIT(CAP_CHOWN) | BIT(CAP_KILL) | BIT(CAP_SETUID) | BIT(CAP_SYS_PTRACE))
struct attribute { uint32_t magic, permitted, inheritable, permitted_high, inheritable_high, rootid; };

static void show_self(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    syscall(SYS_capget, &header, caps);
    printf("permitted %x effective %x inheritable %x high %x secure %lu dumpable %d ids %d %d ambient %d\n", caps[0].permitted & SHOWN, caps[0].effective & SHOWN,
           caps[0].inheritable, caps[1].permitted & 1, getauxval(AT_SECURE), prctl(PR_GET_DUMPABLE), getuid(), geteuid(),
           prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_CHOWN, 0, 0));
}

static void copy_self(const char *to) {
    char buffer[65536];
    int in = MUST(open("/proc/self/exe", O_RDONLY)), out = MUST(open(to, O_CREAT | O_WRONLY | O_TRUNC, 0755));
    for (ssize_t n; (n = read(in, buffer, sizeof buffer)) > 0;) MUST(write(out, buffer, n));
    close(in);
    close(out);
}

static void become(int id) {
    MUST(setgroups(0, NULL));
    MUST(setresgid(id, id, id));
    MUST(setresuid(id, id, id));
    prctl(PR_SET_DUMPABLE, 1);
}

static void inherit(uint32_t bits) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    syscall(SYS_capget, &header, caps);
    caps[0].inheritable = bits;
    T(syscall(SYS_capset, &header, caps));
}

static void finish(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (status != 0) printf("status %x\n", status);
}
#define RUN(what, ...) do { PART(what); fflush(stdout); pid_t child_ = fork(); if (child_ == 0) { __VA_ARGS__; fflush(stdout); _exit(0); } finish(child_); } while (0)
#define START(path) (execl(path, path, "show", NULL), printf("%s: %s\n", path, check_error(errno)))

static long give(uint32_t flags, uint32_t permitted, uint32_t inheritable) {
    struct attribute value = {VFS_CAP_REVISION_2 | flags, permitted, inheritable, 0, 0, 0};
    return setxattr("prog", "security.capability", &value, XATTR_CAPS_SZ_2, 0);
}
static void has(const char *when) {
    struct attribute value = {0};
    ssize_t size = getxattr("prog", "security.capability", &value, sizeof value);
    if (size < 0) printf("%s: %s\n", when, check_error(errno));
    else printf("%s: %zd bytes, %x %x %x %x\n", when, size, value.magic, value.permitted, value.inheritable, value.permitted_high);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        show_self();
        return 0;
    }
    alarm(30);
    chmod(".", 0755);
    copy_self("prog");
    PART("what is a value");
    struct attribute value = {VFS_CAP_REVISION_2, BIT(CAP_CHOWN), 0, 0, 0, 0};
    T(setxattr("prog", "security.capability", &value, 20, 0));
    T(setxattr("prog", "security.capability", &value, 19, 0));
    T(setxattr("prog", "security.capability", &value, 12, 0));
    T(setxattr("prog", "security.capability", &value, 24, 0));
    T(setxattr("prog", "security.capability", &value, 0, 0));
    value.magic = VFS_CAP_REVISION_1;
    T(setxattr("prog", "security.capability", &value, 12, 0));
    value.magic = VFS_CAP_REVISION_3;
    T(setxattr("prog", "security.capability", &value, 24, 0));
    T(setxattr("prog", "security.capability", &value, 20, 0));
    has("revision 3");
    value.magic = 0x04000000;
    T(setxattr("prog", "security.capability", &value, 20, 0));
    value.magic = VFS_CAP_REVISION_2 | 0x10;
    T(setxattr("prog", "security.capability", &value, 20, 0));
    has("at the end");
    T(setxattr(".", "security.capability", &value, 20, 0));
    T(removexattr("prog", "security.capability"));
    T(removexattr("prog", "security.capability"));
    RUN("without rights", become(54322); T(give(0, BIT(CAP_CHOWN), 0)); T(removexattr("prog", "security.capability")));

    PART("exec");
    T(give(0, BIT(CAP_CHOWN) | BIT(CAP_KILL), 0));
    RUN("permitted", become(54322); START("./prog"));
    T(give(VFS_CAP_FLAGS_EFFECTIVE, BIT(CAP_CHOWN) | BIT(CAP_KILL), 0));
    RUN("effective", become(54322); START("./prog"));
    RUN("by root", START("./prog"));
    RUN("by root of old", setresuid(54322, 54322, 0); START("./prog"));
    RUN("no_new_privs", become(54322); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); START("./prog"));
    RUN("bounded, effective", prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0); become(54322); START("./prog"));
    T(give(0, BIT(CAP_CHOWN) | BIT(CAP_KILL), 0));
    RUN("bounded", prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0); become(54322); START("./prog"));
    T(give(VFS_CAP_FLAGS_EFFECTIVE, 0, BIT(CAP_CHOWN)));
    RUN("inheritable, not given", become(54322); START("./prog"));
    RUN("inheritable, given", inherit(BIT(CAP_CHOWN) | BIT(CAP_KILL)); become(54322); START("./prog"));
    T(give(VFS_CAP_FLAGS_EFFECTIVE, 0, 0));
    RUN("nothing", become(54322); START("./prog"));
    RUN("nothing, by root", START("./prog"));
    RUN("ambient", inherit(BIT(CAP_CHOWN)); prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0); become(54322);
        T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0)); START("./prog"));
    T(removexattr("prog", "security.capability"));
    RUN("ambient, plain file", inherit(BIT(CAP_CHOWN)); prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0); become(54322);
        T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0)); START("./prog"));
    T(give(VFS_CAP_FLAGS_EFFECTIVE, BIT(CAP_CHOWN), 0));
    MUST(chmod("prog", 04755));
    RUN("set-user-id root, too", become(54322); START("./prog"));
    MUST(chmod("prog", 0755));
    value = (struct attribute){VFS_CAP_REVISION_3 | VFS_CAP_FLAGS_EFFECTIVE, BIT(CAP_KILL), 0, 0, 0, 1000};
    T(setxattr("prog", "security.capability", &value, 24, 0));
    has("of another root");
    RUN("of another root", become(54322); START("./prog"));
    put_file("script", "#!./prog show\n");
    chmod("script", 0755);
    T(give(VFS_CAP_FLAGS_EFFECTIVE, BIT(CAP_CHOWN), 0));
    RUN("a script's interpreter", become(54322); START("./script"));

    PART("what takes them away");
    has("before");
    T(chmod("prog", 0755));
    has("chmod");
    T(chown("prog", -1, -1));
    has("a void chown");
    T(give(0, BIT(CAP_CHOWN), 0));
    T(chown("prog", 0, 0));
    has("chown");
    T(give(0, BIT(CAP_CHOWN), 0));
    int fd = MUST(open("prog", O_RDWR));
    has("open");
    T(write(fd, "\177ELF", 4));
    has("write");
    T(give(0, BIT(CAP_CHOWN), 0));
    T(write(fd, "", 0));
    has("an empty write");
    T(ftruncate(fd, 1000000));
    has("ftruncate");
    T(give(0, BIT(CAP_CHOWN), 0));
    T(truncate("prog", 1000000));
    has("truncate");
    T(give(0, BIT(CAP_CHOWN), 0));
    close(MUST(open("prog", O_WRONLY | O_TRUNC)));
    has("O_TRUNC");
    T(give(0, BIT(CAP_CHOWN), 0));
    T(fallocate(fd, 0, 0, 8192));
    has("fallocate");
    T(give(0, BIT(CAP_CHOWN), 0));
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shared[0] = 'x';
    has("a store into a shared mapping");
    T(give(0, BIT(CAP_CHOWN), 0));
    int from = MUST(open("script", O_RDONLY));
    T(copy_file_range(from, NULL, fd, &(off_t){0}, 4, 0) > 0);
    has("copy_file_range");
    T(give(0, BIT(CAP_CHOWN), 0));
    T(pwrite(fd, "abc", 3, 0));
    has("pwrite");
    T(give(0, BIT(CAP_CHOWN), 0));
    struct iovec part = {"abc", 3};
    T(pwritev(fd, &part, 1, 0));
    has("pwritev");
    T(give(0, BIT(CAP_CHOWN), 0));
    T(link("prog", "second"));
    T(rename("second", "third"));
    has("link and rename");
    struct timespec times[2] = {{1, 0}, {1, 0}};
    T(utimensat(AT_FDCWD, "prog", times, 0));
    has("times");
    T(setxattr("prog", "user.other", "x", 1, 0));
    has("another attribute");

    PART("set-id bits and writes without CAP_FSETID");
    MUST(chown("prog", 54322, 54322));
    static const mode_t modes[] = {04755, 02755, 06755, 02745, 06711};
    for (unsigned i = 0; i < COUNT(modes); i++) {
        for (int how = 0; how < 6; how++) {
            MUST(chmod("prog", modes[i]));
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                MUST(setgroups(0, NULL));
                MUST(setresgid(how == 5 ? 7 : 54322, how == 5 ? 7 : 54322, 7));
                MUST(setresuid(54322, 54322, 54322));
                int file = open("prog", O_RDWR);
                switch (how) {
                case 0: write(file, "x", 1); break;
                case 1: ftruncate(file, 100); break;
                case 2: close(open("prog", O_WRONLY | O_TRUNC)); break;
                case 3: fallocate(file, 0, 0, 5000); break;
                case 4: chown("prog", 54322, 54322); break;
                case 5: fchmod(file, modes[i]); break;
                }
                _exit(0);
            }
            finish(child);
            struct stat after;
            stat("prog", &after);
            printf("%o, %d: %o\n", modes[i], how, after.st_mode & 07777);
        }
    }
    return 0;
}

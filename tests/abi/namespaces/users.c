// User namespaces: maps, ids, capabilities inside and outside; user_namespaces(7).
#include "../check.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/xattr.h>

static int put(const char *file, const char *text) {
    int fd = open(file, O_WRONLY);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return n < 0 ? -1 : 0;
}

static void show(const char *file) {
    char text[4096] = {0};
    int fd = open(file, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    printf("%s: %s%s", strrchr(file, '/') + 1, n < 0 ? check_error(errno) : text, n <= 0 ? "\n" : "");
    close(fd);
}

static void ids(const char *when) {
    uid_t r, e, s;
    gid_t gr, ge, gs;
    getresuid(&r, &e, &s);
    getresgid(&gr, &ge, &gs);
    printf("%s: uid %d %d %d gid %d %d %d, fs %d %d\n", when, r, e, s, gr, ge, gs, setfsuid(-1), setfsgid(-1));
}

static unsigned long long effective(void) {
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2];
    syscall(SYS_capget, &h, d);
    return d[0].effective | (unsigned long long)d[1].effective << 32;
}

// Runs `f` in a child and waits for it.
static void apart(const char *title, void (*f)(void)) {
    printf("-- %s\n", title);
    pid_t pid = fork();
    if (pid == 0) {
        f();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status)
        printf("ended with %d\n", status);
}

static void become(uid_t uid) {
    setgroups(0, NULL);
    setresgid(uid, uid, uid);
    setresuid(uid, uid, uid);
    prctl(PR_SET_DUMPABLE, 1);
}

static void unmapped(void) {
    become(1000);
    printf("capable before: %d\n", effective() != 0);
    check_ok("unshare", unshare(CLONE_NEWUSER));
    printf("capable: %d, all %d\n", effective() != 0, effective() == effective());
    ids("unmapped");
    show("/proc/self/uid_map");
    show("/proc/self/gid_map");
    show("/proc/self/setgroups");
    check_ok("setuid 0", setuid(0));
    check_ok("setgroups", setgroups(0, NULL));
    struct stat st;
    stat("/", &st);
    printf("root's owner: %d %d\n", st.st_uid, st.st_gid);
    check_ok("chown", chown(".", 0, 0));
    check_ok("sethostname", sethostname("x", 1));
}

static void own(void) {
    become(1000);
    check_ok("unshare", unshare(CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWIPC));
    check_ok("two ids", put("/proc/self/uid_map", "0 1000 2"));
    check_ok("other's id", put("/proc/self/uid_map", "0 1001 1"));
    check_ok("garbage", put("/proc/self/uid_map", "0 1000"));
    check_ok("own id", put("/proc/self/uid_map", "0 1000 1\n"));
    check_ok("twice", put("/proc/self/uid_map", "0 1000 1\n"));
    check_ok("group, setgroups allowed", put("/proc/self/gid_map", "0 1000 1"));
    check_ok("bad word", put("/proc/self/setgroups", "maybe"));
    check_ok("deny", put("/proc/self/setgroups", "deny\n"));
    check_ok("group", put("/proc/self/gid_map", "0 1000 1"));
    check_ok("deny again", put("/proc/self/setgroups", "deny"));
    check_ok("allow", put("/proc/self/setgroups", "allow"));
    ids("mapped");
    show("/proc/self/uid_map");
    show("/proc/self/gid_map");
    show("/proc/self/setgroups");
    check_ok("setgroups", setgroups(0, NULL));
    check_ok("setuid 1", setuid(1));
    check_ok("setuid 0", setuid(0));
    check_ok("sethostname", sethostname("inside", 6));
    char name[65];
    gethostname(name, sizeof name);
    printf("hostname %s\n", name);
    int fd = open("made", O_CREAT | O_RDWR, 0644);
    struct stat st;
    fstat(fd, &st);
    printf("made: %d %d\n", st.st_uid, st.st_gid);
    check_ok("chown to 0", fchown(fd, 0, 0));
    check_ok("chown to 1", fchown(fd, 1, 0));
    check_ok("mknod device", mknod("device", S_IFCHR | 0600, 0x103));
    check_ok("mknod fifo", mknod("fifo", S_IFIFO | 0600, 0));
    check_ok("trusted attribute", setxattr("made", "trusted.x", "1", 1, 0));
    check_ok("user attribute", setxattr("made", "user.x", "1", 1, 0));
    check_ok("chroot", chroot("."));
    check_ok("nice", setpriority(PRIO_PROCESS, 0, -5));
    struct rlimit l = {100, 1u << 30};
    check_ok("limit", setrlimit(RLIMIT_NOFILE, &l));
    stat("/", &st);
    int other = open("/proc/1/environ", O_RDONLY);
    printf("others' environment: %s\n", other < 0 ? "no" : "yes");
}

static void files_of_others(void) {
    // Made by root: id 0 is not mapped in the namespace.
    close(open("roots", O_CREAT | O_WRONLY, 0600));
    close(open("users", O_CREAT | O_WRONLY, 0600));
    if (chown("users", 1000, 1000))
        perror("chown");
    mkdir("closed", 0700);
    chmod(".", 0777);
    become(1000);
    unshare(CLONE_NEWUSER);
    put("/proc/self/uid_map", "0 1000 1");
    put("/proc/self/setgroups", "deny");
    put("/proc/self/gid_map", "0 1000 1");
    check_ok("open root's", open("roots", O_RDONLY));
    check_ok("open user's", open("users", O_RDONLY));
    check_ok("chmod root's", chmod("roots", 0666));
    check_ok("chmod user's", chmod("users", 0000));
    check_ok("open user's without bits", open("users", O_RDWR));
    check_ok("enter root's", chdir("closed"));
    check_ok("chown root's", chown("roots", 0, 0));
    struct stat st;
    stat("roots", &st);
    printf("root's file: %d %d\n", st.st_uid, st.st_gid);
    stat("users", &st);
    printf("user's file: %d %d\n", st.st_uid, st.st_gid);
    check_ok("kill the parent", kill(getppid(), 0));
}

// The parent, which is root, writes larger maps.
static void mapped_by_root(void) {
    int go[2], ready[2];
    if (pipe(go) || pipe(ready))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        become(1000);
        check_ok("unshare", unshare(CLONE_NEWUSER));
        if (write(ready[1], "", 1) != 1 || read(go[0], &c, 1) != 1)
            _exit(1);
        ids("mapped");
        show("/proc/self/uid_map");
        show("/proc/self/gid_map");
        check_ok("setgroups", setgroups(2, (gid_t[]){0, 5}));
        gid_t list[4];
        int n = getgroups(4, list);
        printf("groups: %d: %d %d\n", n, list[0], list[1]);
        check_ok("setresgid", setresgid(7, 7, 7));
        check_ok("setresuid", setresuid(7, 7, 7));
        ids("as 7");
        printf("capable: %d\n", effective() != 0);
        check_ok("back", setuid(0));
        int fd = open("by7", O_CREAT | O_WRONLY, 0600);
        struct stat st;
        fstat(fd, &st);
        printf("by 7: %d %d\n", st.st_uid, st.st_gid);
        _exit(0);
    }
    char file[64], c;
    if (read(ready[0], &c, 1) != 1)
        return;
    snprintf(file, sizeof file, "/proc/%d/uid_map", pid);
    check_ok("uid map", put(file, "0 1000 1\n1 100000 65535\n"));
    snprintf(file, sizeof file, "/proc/%d/gid_map", pid);
    check_ok("gid map", put(file, "0 1000 1\n1 100000 65535\n"));
    show(file);
    chmod(".", 0777);
    if (write(go[1], "", 1) != 1)
        return;
    waitpid(pid, NULL, 0);
    struct stat st;
    if (stat("by7", &st) == 0)
        printf("outside: %d %d\n", st.st_uid, st.st_gid);
    snprintf(file, sizeof file, "/proc/%d/uid_map", getpid());
    check_ok("own map", put(file, "0 0 1"));
}

static int level(void *arg) {
    int depth = *(int *)arg;
    while (depth < 40 && unshare(CLONE_NEWUSER) == 0) {
        depth++;
        put("/proc/self/uid_map", "0 0 1");
        put("/proc/self/setgroups", "deny");
        put("/proc/self/gid_map", "0 0 1");
    }
    printf("depth %s: %s\n", depth >= 30 ? "is enough" : "is small", check_error(errno));
    return 0;
}

static void nested(void) {
    int depth = 0;
    level(&depth);
}

static void with_clone(void) {
    become(1000);
    struct clone_args {
        unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.flags = CLONE_NEWUSER | CLONE_NEWUTS, .exit_signal = SIGCHLD};
    pid_t pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        printf("child capable: %d\n", effective() != 0);
        check_ok("sethostname", sethostname("c", 1));
        _exit(0);
    }
    int error = errno;
    waitpid(pid, NULL, 0);
    printf("clone3: %s\n", pid > 0 ? "ok" : check_error(error));
    printf("parent capable: %d\n", effective() != 0);
    args.flags = CLONE_NEWUTS;
    check_ok("uts without user", syscall(SYS_clone3, &args, sizeof args));
    args.flags = CLONE_NEWUSER | CLONE_FS;
    check_ok("user with fs", syscall(SYS_clone3, &args, sizeof args));
}

// Set-user-id programs and exec: capabilities in the namespace survive only with an id that maps to 0.
static void exec_in(void) {
    become(1000);
    unshare(CLONE_NEWUSER);
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", "grep -c '^CapEff:.0000000000000000' /proc/self/status; grep Uid /proc/self/status", NULL);
        _exit(1);
    }
    wait(NULL);
    put("/proc/self/uid_map", "0 1000 1");
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", "grep -c '^CapEff:.0000000000000000' /proc/self/status; grep Uid /proc/self/status", NULL);
        _exit(1);
    }
    wait(NULL);
}

int main(void) {
    umask(0);
    chmod(".", 0777);
    apart("unmapped", unmapped);
    apart("own id", own);
    apart("files of others", files_of_others);
    apart("mapped by root", mapped_by_root);
    apart("nested", nested);
    apart("clone", with_clone);
    apart("exec", exec_in);
    ids("at the end");
    return 0;
}

// Programs that restrict themselves: landlock(7), landlock_create_ruleset(2), landlock_add_rule(2),
// landlock_restrict_self(2).
// cflags: -pthread
#include "check.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

enum {
    EXECUTE = 1, WRITE_FILE = 2, READ_FILE = 4, READ_DIR = 8, REMOVE_DIR = 16, REMOVE_FILE = 32, MAKE_CHAR = 64, MAKE_DIR = 128, MAKE_REG = 256,
    MAKE_SOCK = 512, MAKE_FIFO = 1024, MAKE_BLOCK = 2048, MAKE_SYM = 4096, REFER = 8192, TRUNCATE = 16384, IOCTL_DEV = 32768, ALL = 65535,
};
struct attr { uint64_t files, ports, scoped; };
struct __attribute__((packed)) beneath { uint64_t allowed; int32_t fd; };
struct port { uint64_t allowed, port; };

static long create(struct attr *attr, size_t size, uint32_t flags) { return syscall(444, attr, size, flags); }
static long add(int fd, int kind, void *rule, uint32_t flags) { return syscall(445, fd, kind, rule, flags); }
static long restrict_self(int fd, uint32_t flags) { return syscall(446, fd, flags); }

static int ruleset(uint64_t files, uint64_t ports, uint64_t scoped) {
    return MUST(create(&(struct attr){files, ports, scoped}, sizeof(struct attr), 0));
}
static void allow(int rules, const char *path, uint64_t rights) {
    int fd = MUST(open(path, O_PATH));
    MUST(add(rules, 1, &(struct beneath){rights, fd}, 0));
    close(fd);
}
static void enter(int rules) {
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(restrict_self(rules, 0));
    close(rules);
}

#define O(path, ...) ({ int fd_ = open(path, __VA_ARGS__); printf("open %s %s: %s\n", path, #__VA_ARGS__, fd_ < 0 ? check_error(errno) : "ok"); fd_; })
#define RUN(what, ...) do { PART(what); fflush(stdout); pid_t child_ = fork(); if (child_ == 0) { __VA_ARGS__; fflush(stdout); _exit(0); } \
    int status_; waitpid(child_, &status_, 0); if (status_) printf("status %x\n", status_); } while (0)

static void tree(void) {
    if (system("rm -rf a b; mkdir -p a/in a/dir/deep b/in b/dir; echo 1 > a/file; echo 2 > a/in/file; echo 3 > b/file; echo 4 > b/in/file; ln -s ../b/file a/link; mkfifo a/fifo; cp /bin/true a/true; cp /bin/true b/true; printf '#!./b/true\\n' > a/script; chmod 755 a/script")) exit(97);
}

static void *in_thread(void *rules) {
    int error = restrict_self((intptr_t)rules, 0) ? errno : 0;
    printf("thread: %d\n", error);
    O("b/file", O_RDONLY);
    return NULL;
}

static void api(void) {
    struct attr attr = {READ_FILE};
    struct { struct attr attr; uint64_t more[2]; } longer = {{READ_FILE}};
    PART("rulesets");
    T(create(NULL, 0, 1));
    T(create(NULL, 0, 3));
    T(create(NULL, 0, 4));
    T(create(NULL, 1, 1));
    T(create(&attr, 0, 1));
    T(create(NULL, 8, 0));
    T(create(NULL, 0, 0));
    T(create(&attr, 0, 0));
    T(create(&attr, 7, 0));
    OK(close(create(&attr, 8, 0)));
    OK(close(create(&attr, 16, 0)));
    OK(close(create((void *)&longer, sizeof longer, 0)));
    longer.more[1] = 1;
    T(create((void *)&longer, sizeof longer, 0));
    T(create((void *)&longer, 4097, 0));
    T(create(BAD, 8, 0));
    attr.files = 0;
    T(create(&attr, sizeof attr, 0));
    attr.files = 1 << 16;
    T(create(&attr, sizeof attr, 0));
    attr = (struct attr){1, 4, 0};
    T(create(&attr, sizeof attr, 0));
    attr = (struct attr){1, 0, 4};
    T(create(&attr, sizeof attr, 0));
    PART("rules");
    int rules = ruleset(READ_FILE | READ_DIR | WRITE_FILE, 1, 0), dir = MUST(open("a", O_PATH)), file = MUST(open("a/file", O_RDONLY)), ends[2];
    char name[64];
    N(fcntl(rules, F_GETFD));
    N(fcntl(rules, F_GETFL) & O_ACCMODE);
    T(read(rules, name, 1));
    T(write(rules, name, 1));
    sprintf(name, "/proc/self/fd/%d", rules);
    char target[64] = {0};
    readlink(name, target, 63);
    puts(target);
    MUST(pipe(ends));
    struct beneath rule = {READ_FILE, dir};
    T(add(rules, 1, &rule, 1));
    T(add(rules, 0, &rule, 0));
    T(add(rules, 3, &rule, 0));
    T(add(-1, 1, &rule, 0));
    T(add(dir, 1, &rule, 0));
    T(add(file, 1, &rule, 0));
    T(add(rules, 1, NULL, 0));
    rule.allowed = 0;
    T(add(rules, 1, &rule, 0));
    rule.allowed = EXECUTE;
    T(add(rules, 1, &rule, 0));
    rule = (struct beneath){READ_FILE, -1};
    T(add(rules, 1, &rule, 0));
    rule.fd = AT_FDCWD;
    T(add(rules, 1, &rule, 0));
    rule.fd = rules;
    T(add(rules, 1, &rule, 0));
    rule.fd = ends[0];
    T(add(rules, 1, &rule, 0));
    rule = (struct beneath){READ_DIR, file};
    T(add(rules, 1, &rule, 0));
    rule = (struct beneath){READ_FILE, file};
    T(add(rules, 1, &rule, 0));
    T(add(rules, 2, &(struct port){0, 1}, 0));
    T(add(rules, 2, &(struct port){2, 1}, 0));
    T(add(rules, 2, &(struct port){1, 65536}, 0));
    T(add(rules, 2, &(struct port){1, 0}, 0));
    PART("restrict");
    T(restrict_self(-1, 0));
    T(restrict_self(dir, 0));
    T(restrict_self(file, 0));
    T(restrict_self(rules, 8));
    T(restrict_self(-1, 4));
    T(restrict_self(-1, 1));
    T(restrict_self(-1, 6));
    RUN("without rights", setresuid(54321, 54321, 54321); T(restrict_self(rules, 0)); T(restrict_self(-1, 8)); T(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); T(restrict_self(rules, 0)); O("a/file", O_RDONLY);O("b/file", O_RDONLY));
    RUN("sixteen layers", for (int i = 0; i < 17; i++) if (restrict_self(rules, 0)) printf("layer %d: %s\n", i, check_error(errno)); O("a/file", O_RDONLY));
    RUN("logging", T(restrict_self(rules, 1)); T(restrict_self(rules, 7)));
    close(rules), close(dir), close(file), close(ends[0]), close(ends[1]);
}

static void files(uint64_t in_a) {
    int rules = ruleset(ALL, 0, 0);
    allow(rules, "a", in_a);
    // Not all of /dev: there this may run.
    allow(rules, "/dev/null", READ_FILE | WRITE_FILE);
    allow(rules, "/dev/zero", READ_FILE);
    allow(rules, "/dev/ptmx", READ_FILE | WRITE_FILE);
    int before = MUST(open("b/file", O_RDWR)), before_dir = MUST(open("b", O_RDONLY)), null = MUST(open("/dev/null", O_RDWR));
    enter(rules);
    O("a/file", O_RDONLY);
    O("a/file", O_WRONLY);
    O("a/file", O_RDWR);
    O("a/file", O_RDONLY | O_TRUNC);
    O("a/file", O_WRONLY | O_TRUNC);
    O("a/file", O_PATH);
    O("a/file", 3);
    O("a", O_RDONLY);
    O("a/dir", O_RDONLY | O_DIRECTORY);
    O("a/in/../in/file", O_RDONLY);
    O("a/link", O_RDONLY);
    O("b/file", O_RDONLY);
    O("b/file", O_PATH);
    O("b", O_RDONLY);
    O("b", O_PATH);
    O("/", O_RDONLY);
    O("a/new", O_CREAT | O_RDWR, 0644);
    O("a/new2", O_CREAT | O_EXCL | O_RDONLY, 0644);
    O("a/file", O_CREAT | O_EXCL | O_RDONLY, 0644);
    O("b/new", O_CREAT | O_RDWR, 0644);
    O("a", O_TMPFILE | O_RDWR, 0600);
    O("a/fifo", O_RDWR | O_NONBLOCK);
    O("/dev/null", O_RDWR);
    O("/proc/self/fd/0", O_RDONLY);
    O("/proc/self/status", O_RDONLY);
    T(mkdir("a/newdir", 0755));
    T(mkdir("b/newdir", 0755));
    T(mkdir("a/file", 0755));
    T(mknod("a/newfifo", S_IFIFO | 0644, 0));
    T(mknod("a/newreg", S_IFREG | 0644, 0));
    T(mknod("a/newchar", S_IFCHR | 0644, makedev(1, 3)));
    T(mknod("a/newblock", S_IFBLK | 0644, makedev(1, 3)));
    T(symlink("x", "a/newlink"));
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    T(bind(sock, (void *)&(struct sockaddr_un){AF_UNIX, "a/sock"}, sizeof(struct sockaddr_un)));
    T(truncate("a/file", 1));
    T(truncate("b/file", 1));
    T(truncate("a", 1));
    T(ftruncate(before, 1));
    int written = open("a/file", O_WRONLY);
    if (written >= 0) T(ftruncate(written, 1));
    T(pread(before, (char[4]){0}, 4, 0) > 0);
    char entries[1024];
    OK(syscall(SYS_getdents64, before_dir, entries, sizeof entries));
    T(openat(before_dir, "file", O_RDONLY));
    struct stat st;
    OK(stat("b/file", &st));
    T(access("b/file", R_OK));
    T(chmod("b/file", 0644));
    T(chdir("b"));
    T(chdir(".."));
    T(utimensat(AT_FDCWD, "b/file", NULL, 0));
    int n;
    T(ioctl(null, FIONREAD, &n));
    int null2 = open("/dev/null", O_RDWR);
    if (null2 >= 0) T(ioctl(null2, FIONREAD, &n)), T(ioctl(null2, TCGETS, entries)), T(ioctl(null2, FIONBIO, &(int){1}));
    int zero = open("/dev/zero", O_RDONLY);
    if (zero >= 0) T(ioctl(zero, TCGETS, entries));
    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (terminal >= 0) T(ioctl(terminal, TIOCGPTN, &n)), T(ioctl(terminal, FIONCLEX));
    T(unlink("a/file"));
    T(unlink("a/in"));
    T(unlink("b/file"));
    T(unlink("a/missing"));
    T(rmdir("a/dir/deep"));
    T(rmdir("a/in"));
    T(rmdir("b/dir"));
    T(mount("none", "a", "tmpfs", 0, NULL));
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        static const char *const programs[] = {"a/true", "b/true", "a/script", "/bin/true"};
        int status;
        pid_t child = fork();
        if (child == 0) {
            execl(programs[i], programs[i], NULL);
            _exit(errno);
        }
        waitpid(child, &status, 0);
        printf("%s: %s\n", programs[i], WIFEXITED(status) && WEXITSTATUS(status) ? check_error(WEXITSTATUS(status)) : WIFSIGNALED(status) ? "signal" : "ok");
    }
}

static void moves(uint64_t handled, uint64_t in_a, uint64_t in_b, uint64_t of_file) {
    tree();
    int rules = ruleset(handled, 0, 0);
    if (in_a) allow(rules, "a", in_a);
    if (in_b) allow(rules, "b", in_b);
    if (of_file) allow(rules, "a/in/file", of_file);
    enter(rules);
    T(link("a/file", "a/second"));
    T(link("a/file", "a/in/second"));
    T(link("a/file", "b/second"));
    T(link("b/file", "a/third"));
    T(link("a/in/file", "b/fourth"));
    T(rename("a/file", "a/renamed"));
    T(rename("a/renamed", "a/in/moved"));
    T(rename("a/in/file", "b/over"));
    T(rename("b/in/file", "a/from"));
    T(rename("a/dir", "b/directory"));
    T(rename("b/dir", "a/directory"));
    T(rename("a/missing", "b/missing"));
    T(rename("a/true", "b/true"));
    T(renameat2(AT_FDCWD, "a/in", AT_FDCWD, "b/file", RENAME_EXCHANGE));
    T(renameat2(AT_FDCWD, "b/in", AT_FDCWD, "a/link", RENAME_EXCHANGE));
    T(renameat2(AT_FDCWD, "a/fifo", AT_FDCWD, "a/script", RENAME_EXCHANGE));
    T(link("a/link", "b/link"));
}

static void tcp(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, unspecified = {.sin_family = AF_UNSPEC};
    int listener = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof at;
    MUST(bind(listener, (void *)&at, sizeof at));
    MUST(listen(listener, 5));
    MUST(getsockname(listener, (void *)&at, &size));
    uint16_t open_port = ntohs(at.sin_port);
    struct sockaddr_in second = at;
    second.sin_port = 0;
    MUST(bind(other, (void *)&second, sizeof second));
    MUST(listen(other, 5));
    MUST(getsockname(other, (void *)&second, &size));
    int rules = ruleset(0, 3, 0);
    MUST(add(rules, 2, &(struct port){2, open_port}, 0));
    enter(rules);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    T(connect(s, (void *)&second, sizeof second));
    T(connect(s, (void *)&at, sizeof at));
    T(connect(s, (void *)&unspecified, sizeof unspecified));
    close(s);
    s = socket(AF_INET, SOCK_STREAM, 0);
    T(connect(s, (void *)&at, 1));
    T(connect(s, (void *)&at, 8));
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = at.sin_port};
    T(connect(s, (void *)&six, sizeof six));
    struct sockaddr_in any = {.sin_family = AF_INET};
    T(bind(s, (void *)&any, sizeof any));
    T(bind(s, (void *)&unspecified, sizeof unspecified));
    T(bind(s, (void *)&any, 4));
    T(listen(s, 1));
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    T(bind(datagrams, (void *)&any, sizeof any));
    T(connect(datagrams, (void *)&second, sizeof second));
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    T(bind(local, (void *)&(struct sockaddr_un){AF_UNIX, "sock"}, sizeof(struct sockaddr_un)));
    rules = ruleset(0, 1, 0);
    MUST(add(rules, 2, &(struct port){1, 0}, 0));
    RUN("a rule for any port, inside", enter(rules); int x = socket(AF_INET, SOCK_STREAM, 0); T(bind(x, (void *)&any, sizeof any)));
}

static void scopes(void) {
    char name[32];
    struct sockaddr_un at = {AF_UNIX};
    int size = offsetof(struct sockaddr_un, sun_path) + 1 + sprintf(at.sun_path + 1, "hull-landlock-%d", getpid());
    struct sockaddr_un at2 = at;
    at2.sun_path[size - 2] = 'd';
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), datagrams = socket(AF_UNIX, SOCK_DGRAM, 0);
    MUST(bind(listener, (void *)&at, size));
    MUST(listen(listener, 5));
    MUST(bind(datagrams, (void *)&at2, size));
    pid_t outside = fork();
    if (outside == 0) for (;;) pause();
    int before = socket(AF_UNIX, SOCK_STREAM, 0), rules = ruleset(0, 0, 3);
    enter(rules);
    int s = socket(AF_UNIX, SOCK_STREAM, 0), d = socket(AF_UNIX, SOCK_DGRAM, 0);
    T(connect(before, (void *)&at, size));
    T(connect(s, (void *)&at, size));
    T(connect(d, (void *)&at2, size));
    T(sendto(d, "x", 1, 0, (void *)&at2, size));
    T(kill(outside, 0));
    T(kill(outside, SIGUSR1));
    T(kill(getpid(), 0));
    T(kill(getppid(), 0));
    T(ptrace(PTRACE_SEIZE, outside, 0, 0));
    pid_t inside = fork();
    if (inside == 0) for (;;) pause();
    T(kill(inside, 0));
    T(ptrace(PTRACE_SEIZE, inside, 0, 0));
    T(kill(inside, SIGKILL));
    waitpid(inside, NULL, 0);
    at.sun_path[size - 1]++;
    at.sun_path[1] = 'H';
    int own = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    T(bind(own, (void *)&at, size));
    T(listen(own, 1));
    T(connect(client, (void *)&at, size));
    int rules2 = ruleset(0, 0, 1);
    RUN("further inside", enter(rules2); int c = socket(AF_UNIX, SOCK_STREAM, 0); T(connect(c, (void *)&at, size)); T(kill(getppid(), 0)); T(kill(outside, 0)));
    sprintf(name, "%d", outside);
    OK(open(proc_path(outside, "environ"), O_RDONLY));
    OK(open(proc_path(getpid(), "environ"), O_RDONLY));
    MUST(syscall(SYS_pidfd_open, outside, 0));
    fflush(stdout);
    kill(outside, SIGKILL);
}

static void *signaller(void *unused) {
    int rules = ruleset(0, 0, 2);
    enter(rules);
    T(kill(getpid(), 0));
    T(syscall(SYS_tgkill, getpid(), getpid(), 0));
    return NULL;
}

int main(void) {
    alarm(30);
    chmod(".", 0777);
    tree();
    api();
    tree();
    RUN("all rights in one directory", files(ALL));
    tree();
    RUN("reading", files(READ_FILE | READ_DIR));
    tree();
    RUN("reading and running", files(READ_FILE | READ_DIR | EXECUTE));
    tree();
    RUN("writing without truncation", files(ALL & ~TRUNCATE));
    tree();
    RUN("making, not removing", files(ALL & ~(REMOVE_DIR | REMOVE_FILE)));
    tree();
    RUN("running only", files(EXECUTE));
    tree();
    RUN("ports only", int rules = ruleset(0, 3, 0); enter(rules); O("b/file", O_RDWR); T(link("a/file", "b/second")); T(rename("a/file", "b/first")));
    RUN("moves, not handled", moves(READ_FILE, READ_FILE, READ_FILE, 0));
    RUN("moves, no right", moves(ALL, ALL & ~REFER, ALL & ~REFER, 0));
    RUN("moves", moves(ALL, ALL, ALL, 0));
    RUN("moves to where more is allowed", moves(ALL, ALL & ~EXECUTE, ALL, 0));
    RUN("moves to where less is allowed", moves(ALL, ALL, ALL & ~WRITE_FILE, 0));
    RUN("moves from one directory", moves(ALL, ALL, REFER, 0));
    RUN("moves of what has a rule", moves(ALL, ALL & ~EXECUTE, ALL, EXECUTE));
    RUN("moves, only the right to", moves(REFER, REFER, REFER, 0));
    RUN("moves, no rules", moves(REFER | READ_FILE, 0, 0, 0));
    RUN("moves without removal", moves(ALL, ALL & ~REMOVE_FILE, ALL & ~MAKE_DIR, 0));
    tree();
    RUN("layers", int rules = ruleset(READ_FILE, 0, 0); allow(rules, "a", READ_FILE); enter(rules); rules = ruleset(READ_FILE | READ_DIR, 0, 0); allow(rules, "a/in", READ_FILE | READ_DIR); allow(rules, "b", READ_FILE);
        enter(rules); O("a/file", O_RDONLY); O("a/in/file", O_RDONLY); O("b/file", O_RDONLY); O("a", O_RDONLY); O("a/in", O_RDONLY));
    RUN("a rule for a file", int rules = ruleset(READ_FILE | WRITE_FILE, 0, 0); allow(rules, "a/file", READ_FILE); allow(rules, "a/file", WRITE_FILE); enter(rules); O("a/file", O_RDWR); T(rename("a/file", "a/other")); O("a/other", O_RDWR); OK(open("a/file", O_CREAT | O_TRUNC | O_WRONLY, 0644)); );
    tree();
    RUN("a directory that moves", int rules = ruleset(READ_FILE, 0, 0); allow(rules, "a/in", READ_FILE); fflush(stdout); int ends[2]; MUST(pipe(ends)); pid_t c = fork(); if (c == 0) { char x; enter(rules); read(ends[0], &x, 1); O("b/moved/file", O_RDONLY); O("b/in/file", O_RDONLY); fflush(stdout); _exit(0); }
        MUST(rename("a/in", "b/moved")); write(ends[1], "x", 1); waitpid(c, NULL, 0));
    tree();
    RUN("inherited", int rules = ruleset(READ_FILE, 0, 0); allow(rules, "/bin", READ_FILE); allow(rules, "/usr", READ_FILE); allow(rules, "/lib", READ_FILE); allow(rules, "/etc", READ_FILE); allow(rules, "a", READ_FILE); enter(rules); fflush(stdout);
        if (system("cat a/file b/file 2>&1 | sed 's/.*: //'; cat < b/file 2>&1 | sed 's/.*: //'")) puts("failed"));
    RUN("one thread", int rules = ruleset(READ_FILE, 0, 0); pthread_t thread; pthread_create(&thread, NULL, in_thread, (void *)(intptr_t)rules); pthread_join(thread, NULL); O("b/file", O_RDONLY));
    RUN("a thread's signals", pthread_t thread; pthread_create(&thread, NULL, signaller, NULL); pthread_join(thread, NULL));
    RUN("ports", tcp());
    RUN("scopes", scopes());
    return 0;
}

// Descriptors of processes and threads: when they are ready, what they tell, whom signals reach.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/vfs.h>

#define PIDFD_THREAD O_EXCL
#define PIDFD_NONBLOCK O_NONBLOCK
struct info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
    uint32_t coredump, spare;
};
#define GET_INFO(size) _IOC(_IOC_READ | _IOC_WRITE, 0xff, 11, size)

static int pidfd_open(pid_t pid, unsigned flags) { return syscall(SYS_pidfd_open, pid, flags); }
static long send_to(int fd, int signal, void *info, unsigned flags) {
    return syscall(SYS_pidfd_send_signal, fd, signal, info, flags);
}
static void show_poll(const char *what, int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDNORM | POLLPRI, 0};
    int n = poll(&p, 1, 0);
    printf("%s: %d, %#x\n", what, n, p.revents);
}

static volatile pid_t thread_id, got_by;
static volatile int stage;
static void *body(void *unused) {
    thread_id = syscall(SYS_gettid);
    while (!stage) sleep_ms(1);
    return unused;
}
static void handler(int signal) { got_by = syscall(SYS_gettid); }

static void threads(void) {
    PART("threads");
    pthread_t thread;
    thread_id = stage = 0;
    signal(SIGUSR1, handler);
    pthread_create(&thread, NULL, body, NULL);
    while (!thread_id) sleep_ms(1);
    T(pidfd_open(thread_id, 0));
    T(pidfd_open(thread_id, PIDFD_THREAD) >= 0);
    int fd = pidfd_open(thread_id, PIDFD_THREAD | PIDFD_NONBLOCK);
    show_poll("runs", fd);
    N(fcntl(fd, F_GETFL) & ~O_LARGEFILE & 07777777);
    got_by = 0;
    T(send_to(fd, SIGUSR1, NULL, 0));
    while (!got_by) sleep_ms(1);
    YES(got_by == thread_id);
    got_by = 0;
    T(send_to(fd, SIGUSR1, NULL, 1));
    while (!got_by) sleep_ms(1);
    YES(got_by == thread_id);
    T(send_to(fd, 0, NULL, 2));
    T(send_to(fd, 0, NULL, 4));
    T(send_to(fd, 0, NULL, 3));
    T(send_to(fd, 0, NULL, 8));
    T(send_to(fd, 65, NULL, 0));
    siginfo_t told;
    T(waitid(P_PIDFD, fd, &told, WEXITED));
    struct info info = {.mask = 3};
    T(ioctl(fd, GET_INFO(64), &info));
    YES(info.pid == thread_id);
    YES(info.tgid == getpid());
    YES(info.ppid == getppid());
    int main_fd = pidfd_open(getpid(), PIDFD_THREAD);
    T(send_to(main_fd, 0, NULL, 0));
    T(syscall(SYS_pidfd_getfd, fd, 1, 0) >= 0);
    stage = 1;
    struct pollfd p = {fd, POLLIN, 0};
    T(poll(&p, 1, 5000));
    pthread_join(thread, NULL);
    sleep_ms(5);
    show_poll("ended", fd);
    T(send_to(fd, 0, NULL, 0));
    T(send_to(fd, 0, NULL, 2));
    T(ioctl(fd, GET_INFO(64), &info));
    T(syscall(SYS_pidfd_getfd, fd, 1, 0));
}

static void processes(void) {
    PART("processes");
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    int fd = pidfd_open(pid, 0);
    YES(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    show_poll("runs", fd);
    T(read(fd, BAD, 1));
    T(write(fd, BAD, 1));
    T(lseek(fd, 0, SEEK_SET));
    T(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    struct info info = {0};
    T(ioctl(fd, GET_INFO(64), &info));
    printf("mask %#llx\n", (long long)info.mask);
    YES(info.pid == pid && info.tgid == pid && info.ppid == getpid());
    info = (struct info){.mask = 0xffff};
    T(ioctl(fd, GET_INFO(64), &info));
    printf("mask %#llx of ids\n", (long long)info.mask & 3);
    YES(info.ruid == getuid() && info.egid == getegid() && info.fsuid == geteuid());
    N(info.exit_code);
    T(ioctl(fd, GET_INFO(63), &info));
    T(ioctl(fd, GET_INFO(72), &info));
    T(ioctl(fd, GET_INFO(8), &info));
    T(ioctl(fd, GET_INFO(64), BAD));
    T(ioctl(fd, GET_INFO(64), NULL));
    T(ioctl(fd, 0x5401, &info));
    T(ioctl(fd, 0xff80, 0));
    siginfo_t told;
    T(waitid(P_PIDFD, fd, &told, WEXITED | WNOHANG));
    int nonblocking = pidfd_open(pid, PIDFD_NONBLOCK);
    T(waitid(P_PIDFD, nonblocking, &told, WEXITED));
    told = (siginfo_t){.si_signo = SIGTERM, .si_code = SI_QUEUE};
    T(send_to(fd, SIGKILL, &told, 0));
    T(send_to(fd, 0, BAD, 0));
    told.si_signo = 0;
    told.si_code = SI_USER;
    T(send_to(fd, 0, &told, 0));
    T(send_to(fd, SIGKILL, NULL, 0));
    struct pollfd p = {fd, POLLIN, 0};
    T(poll(&p, 1, 5000));
    show_poll("zombie", fd);
    T(send_to(fd, 0, NULL, 0));
    T(send_to(fd, 0, NULL, 4));
    T(pidfd_open(pid, 0) >= 0);
    T(pidfd_open(pid, PIDFD_THREAD) >= 0);
    info = (struct info){.mask = 0xb};
    T(ioctl(fd, GET_INFO(64), &info));
    printf("mask %#llx\n", (long long)info.mask & ~4);
    T(syscall(SYS_pidfd_getfd, fd, 1, 0));
    T(waitid(P_PIDFD, fd, &told, WEXITED | WNOWAIT));
    T(waitid(P_PIDFD, fd, &told, WEXITED));
    show_poll("reaped", fd);
    T(send_to(fd, 0, NULL, 0));
    T(send_to(fd, 0, NULL, 4));
    info = (struct info){.mask = 0xb};
    T(ioctl(fd, GET_INFO(64), &info));
    info = (struct info){.mask = 8};
    T(ioctl(fd, GET_INFO(64), &info));
    printf("mask %#llx, status %#x\n", (long long)info.mask, info.exit_code);
    info = (struct info){.mask = 3};
    T(ioctl(fd, GET_INFO(64), &info));
    T(waitid(P_PIDFD, fd, &told, WEXITED));
    T(pidfd_open(pid, 0));
    T(pidfd_open(getpid(), 1));
    T(pidfd_open(0x7fffffff, 0));
    T(send_to(1, 0, NULL, 0));
    T(send_to(-1, 0, NULL, 0));
    T(send_to(-1, 0, NULL, 16));
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
    T(send_to(proc, 0, NULL, 0));
    T(waitid(P_PIDFD, proc, &told, WEXITED));
    PART("the caller's own");
    T(send_to(-10000, 0, NULL, 0));
    T(send_to(-10001, 0, NULL, 0));
    T(send_to(-10002, 0, NULL, 0));
}

static void kinds(void) {
    PART("status of children");
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGUSR2, SIG_DFL);
        for (;;) pause();
    }
    setpgid(pid, pid);
    pid_t second = fork();
    if (second == 0) {
        setpgid(0, pid);
        for (;;) pause();
    }
    setpgid(second, pid);
    int fd = pidfd_open(second, 0);
    T(send_to(fd, SIGUSR2, NULL, 4));
    T(send_to(pidfd_open(pid, 0), SIGUSR2, NULL, 4));
    reap("first", pid);
    reap("second", second);
    struct info info = {.mask = 8};
    T(ioctl(fd, GET_INFO(64), &info));
    printf("status %#x\n", info.exit_code);
}

static void attributes(void) {
    PART("attributes");
    struct stat s;
    int fd = MUST(pidfd_open(getpid(), 0));
    MUST(fstat(fd, &s));
    printf("mode %o, links %d, size %lld, blocks of %lld\n", s.st_mode, (int)s.st_nlink, (long long)s.st_size,
           (long long)s.st_blksize);
    T(fchmod(fd, 0600));
    close(fd);
}

int main(void) {
    attributes();
    threads();
    processes();
    kinds();
    return 0;
}

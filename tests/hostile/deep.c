// Structures that are deep or wide: what is dropped, walked or searched in them must neither overflow a stack nor take for ever.
#define _GNU_SOURCE
#include "guest.h"
#include <limits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MUST(call)                                                                                                     \
    ({                                                                                                                 \
        long value_ = (long)(call);                                                                                    \
        if (value_ == -1) {                                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, strerror(errno));                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
        value_;                                                                                                        \
    })

// Sends descriptors through a socket; what sendmsg says.
static long send_descriptors(int through, const int *descriptors, int count) {
    union { char bytes[CMSG_SPACE(253 * sizeof(int))]; struct cmsghdr align; } control;
    struct iovec data = {"x", 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
    return sendmsg(through, &message, MSG_DONTWAIT);
}

// Sockets in flight in sockets in flight. In the end a pipe: its other end tells that all were closed.
static void nested_descriptors(void) {
    for (int round = 0; round < 3; round++) {
        int ends[2], inner, depth = 0;
        MUST(pipe(ends));
        inner = ends[1];
        for (; depth < 20000; depth++) {
            int pair[2];
            if (socketpair(AF_UNIX, round == 1 ? SOCK_DGRAM : SOCK_STREAM, 0, pair)) break;
            if (round == 2) {
                int both[2] = {inner, pair[1]};
                if (send_descriptors(pair[0], both, 1) < 0) break;
            } else if (send_descriptors(pair[0], &inner, 1) < 0) {
                break;
            }
            close(inner);
            close(pair[0]);
            inner = pair[1];
        }
        EXPECT(depth > 60, 1);
        close(inner);
        char c;
        EXPECT(read(ends[0], &c, 1), 0);
        close(ends[0]);
    }
}

// One message after the other, each with as many descriptors as one may have, of sockets that hold such messages.
static void wide_descriptors(void) {
    int ends[2];
    MUST(pipe(ends));
    int many[253], level[253];
    for (int i = 0; i < 253; i++) level[i] = ends[1];
    int made = 0;
    for (int depth = 0; depth < 40; depth++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) break;
        if (send_descriptors(pair[0], level, 253) < 0) break;
        close(pair[0]);
        for (int i = 0; i < 253; i++) many[i] = pair[1];
        if (depth) close(level[0]);
        memcpy(level, many, sizeof many);
        made++;
    }
    EXPECT(made > 1, 1);
    close(ends[1]);
    close(level[0]);
    char c;
    EXPECT(read(ends[0], &c, 1), 0);
}

static void nested_epoll(void) {
    int first = MUST(epoll_create1(0)), last = first;
    struct epoll_event event = {.events = EPOLLIN};
    int depth = 0;
    for (; depth < 500; depth++) {
        int next = epoll_create1(0);
        if (next < 0 || epoll_ctl(next, EPOLL_CTL_ADD, last, &event)) break;
        last = next;
    }
    EXPECT(depth > 2 && depth < 10, 1);
    // Wide: every one in every other one.
    int all[300];
    for (int i = 0; i < 300; i++) all[i] = epoll_create1(0);
    for (int i = 0; i < 300; i++)
        for (int j = 0; j < 300; j++) epoll_ctl(all[i], EPOLL_CTL_ADD, all[j], &event);
    int ends[2];
    MUST(pipe(ends));
    for (int i = 0; i < 300; i++) epoll_ctl(all[i], EPOLL_CTL_ADD, ends[0], &event);
    for (int i = 0; i < 20; i++) {
        char c = 0;
        MUST(write(ends[1], &c, 1));
        epoll_wait(all[i], &event, 1, 0);
    }
}

// A directory that was removed, with all above it, while it is somebody's own.
static void removed_directories(void) {
    const int depth = 3000;
    MUST(chdir("/tmp"));
    MUST(mkdir("top", 0700));
    int top = MUST(open("/tmp", O_DIRECTORY));
    MUST(chdir("top"));
    for (int i = 0; i < depth; i++) {
        MUST(mkdir("d", 0700));
        MUST(chdir("d"));
    }
    char path[PATH_MAX];
    EXPECT(syscall(SYS_getcwd, path, sizeof path) < 0 && errno == ENAMETOOLONG, depth * 2 > PATH_MAX);
    EXPECT(readlink("/proc/self/cwd", path, sizeof path) < 0 ? errno : 0, depth * 2 > PATH_MAX ? ENAMETOOLONG : 0);
    // From the bottom up, with the bottom kept open.
    MUST(chdir("/"));
    int fd = MUST(open("/tmp/top", O_DIRECTORY));
    for (int i = 0; i < depth; i++) {
        int next = MUST(openat(fd, "d", O_DIRECTORY));
        close(fd);
        fd = next;
    }
    int bottom = dup(fd);
    for (int i = 0; i < depth; i++) {
        int up = MUST(openat(fd, "..", O_DIRECTORY));
        MUST(unlinkat(up, "d", AT_REMOVEDIR));
        close(fd);
        fd = up;
    }
    MUST(fchdir(bottom));
    close(bottom);
    MUST(unlinkat(top, "top", AT_REMOVEDIR));
    close(fd);
    MUST(chdir("/"));
}

// The same over directories of the host, which are only hidden.
static void removed_host_directories(void) {
    MUST(chdir("/usr/share"));
    if (fork() == 0) {
        execlp("rm", "rm", "-rf", "/usr/share/doc", "/usr/share/perl", NULL);
        _exit(1);
    }
    int status;
    wait(&status);
    EXPECT(status, 0);
}

// A tree of 10,000 levels: made, renamed, looked up from below, removed by rm.
static void deep_tree(void) {
    MUST(chdir("/tmp"));
    for (int tree = 0; tree < 2; tree++) {
        MUST(mkdir("tree", 0700));
        int fd = MUST(open("tree", O_DIRECTORY)), made = 0;
        for (; made < 10000; made++) {
            if (mkdirat(fd, "d", 0700)) break;
            int next = MUST(openat(fd, "d", O_DIRECTORY));
            close(fd);
            fd = next;
        }
        EXPECT(made, 10000);
        char path[64];
        MUST(rename("tree", "other"));
        sprintf(path, "/proc/self/fd/%d", fd);
        char target[PATH_MAX];
        EXPECT(readlink(path, target, sizeof target) < 0 ? errno : 0, ENAMETOOLONG);
        MUST(fchdir(fd));
        EXPECT(syscall(SYS_getcwd, target, sizeof target) < 0 ? errno : 0, ENAMETOOLONG);
        EXPECT(rename("/tmp/other", "/tmp/other/d/d/d") < 0 ? errno : 0, EINVAL);
        MUST(chdir("/tmp"));
        close(fd);
        if (fork() == 0) {
            execlp("rm", "rm", "-rf", "/tmp/other", NULL);
            _exit(1);
        }
        int status;
        wait(&status);
        EXPECT(status, 0);
        EXPECT(access("/tmp/other", F_OK), -1);
    }
}

// Mounts upon mounts, and in mounts: taken apart at the end of a namespace, and by umount2.
static void mounts(void) {
    for (int round = 0; round < 3; round++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            MUST(unshare(CLONE_NEWNS));
            mkdir("/tmp/m", 0755);
            MUST(mount("x", "/tmp/m", "tmpfs", 0, 0));
            MUST(chdir("/tmp/m"));
            MUST(mkdir("in", 0755));
            for (int i = 0; i < 3000; i++) {
                MUST(mount("x", "in", round == 0 ? "proc" : "tmpfs", 0, 0));
                if (round == 0) continue;
                MUST(chdir("in"));
                MUST(mkdir("in", 0755));
            }
            if (round == 2) MUST(umount2("/tmp/m", MNT_DETACH));
            _exit(0);
        }
        int status;
        MUST(waitpid(child, &status, 0));
        EXPECT(status, 0);
    }
}

static void links(void) {
    MUST(chdir("/tmp"));
    char from[64] = "/tmp", to[64];
    for (int i = 0; i < 200; i++) {
        sprintf(to, "link%d", i);
        MUST(symlink(from, to));
        int fd = open(to, O_RDONLY);
        EXPECT(fd >= 0 ? 0 : errno, i < 40 ? 0 : ELOOP);
        close(fd);
        strcpy(from, to);
    }
    // Each leads to the one before, twice.
    for (int i = 0; i < 60; i++) {
        char target[64];
        sprintf(target, i ? "twice%d/../twice%d" : ".", i - 1, i - 1);
        sprintf(to, "twice%d", i);
        MUST(symlink(target, to));
        access(to, F_OK);
    }
}

static void arguments(void) {
    static char *list[70000];
    static char big[131072];
    memset(big, 'a', sizeof big - 1);
    for (int size = 1; size <= 65536; size *= 4)
        for (int count = 1; count < 65536; count *= 8) {
            big[size] = 0;
            for (int i = 0; i < count; i++) list[i] = big;
            list[count] = NULL;
            pid_t child = fork();
            if (child == 0) {
                execve("/bin/true", list, list);
                _exit(errno == E2BIG || errno == ENOMEM ? 0 : 1);
            }
            int status;
            waitpid(child, &status, 0);
            EXPECT(status == 0 || WIFSIGNALED(status), 1);
            big[size] = 'a';
        }
}

static void vectors(void) {
    static struct iovec list[1025];
    static char room[4096];
    for (int i = 0; i < 1025; i++) list[i] = (struct iovec){room, sizeof room};
    int ends[2], null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY);
    MUST(pipe(ends));
    EXPECT(writev(null, list, 1025) < 0 ? errno : 0, EINVAL);
    EXPECT(writev(null, list, 1024), 1024 * 4096);
    EXPECT(readv(zero, list, 1024), 1024 * 4096);
    for (int i = 0; i < 1024; i++) list[i].iov_len = 1ul << 62;
    EXPECT(writev(null, list, 1024) < 0 ? errno : 0, EFAULT);
    for (int i = 0; i < 1024; i++) list[i] = (struct iovec){(void *)(long)(i * 977), 1ul << 50};
    readv(zero, list, 1024);
    vmsplice(ends[1], list, 1024, SPLICE_F_NONBLOCK);
    process_vm_readv(getpid(), list, 1024, list, 1024, 0);
    MUST(write(ends[1], "", 1));
}

static pthread_barrier_t together;
static void *ends_with_others(void *argument) {
    pthread_barrier_wait(&together);
    return argument;
}

static void ending_threads(void) {
    for (int round = 0; round < 3; round++) {
        enum { COUNT = 400 };
        static pthread_t threads[COUNT];
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        pthread_barrier_init(&together, NULL, COUNT);
        for (int i = 0; i < COUNT; i++) EXPECT(pthread_create(&threads[i], &small, ends_with_others, NULL), 0);
        for (int i = 0; i < COUNT; i++) pthread_join(threads[i], NULL);
    }
    // And a process whose threads all wait when it ends.
    pid_t child = fork();
    if (child == 0) {
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        pthread_barrier_init(&together, NULL, 401);
        pthread_t thread;
        for (int i = 0; i < 400; i++) pthread_create(&thread, &small, ends_with_others, NULL);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status, 0);
}

static volatile int caught;
static void count_one(int number) { caught += number != 0; }

static void signal_flood(void) {
    sigset_t all;
    sigfillset(&all);
    signal(SIGRTMIN, count_one);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int queued = 0;
    for (int i = 0; i < 200000; i++)
        if (sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}))
            EXPECT(errno, EAGAIN);
        else
            queued++;
    EXPECT(queued > 100, 1);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    EXPECT(caught, queued);
    // Handlers that nest until the stack is full.
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = (void (*)(int))(void *)raise, .sa_flags = SA_NODEFER};
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGSEGV);
}

static void many_areas(void) {
    const size_t pages = 80000;
    char *area = mmap(NULL, pages << 12, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t failed = 0;
    for (size_t i = 0; i < pages; i += 2)
        if (mprotect(area + (i << 12), 4096, PROT_READ | PROT_WRITE)) failed++;
    EXPECT(failed > 0, 1);
    for (size_t i = 0; i < 200; i++) {
        mremap(area + (i << 13), 4096, 8192, MREMAP_MAYMOVE);
        madvise(area, pages << 12, MADV_DONTNEED);
    }
    if (fork() == 0) _exit(0);
    int status;
    wait(&status);
    EXPECT(status, 0);
    mprotect(area, pages << 12, PROT_READ);
    munmap(area, pages << 12);
}

// Each process is the child of the one before; then all of them end at once, from the top or from the bottom.
static void process_chain(void) {
    for (int way = 0; way < 2; way++) {
        int ends[2];
        MUST(pipe(ends));
        MUST(prctl(PR_SET_CHILD_SUBREAPER, way));
        pid_t first = fork();
        if (first == 0) {
            close(ends[0]);
            int depth = 1;
            for (; depth < 700; depth++) {
                pid_t next = fork();
                if (next < 0) break;
                if (next > 0) {
                    if (way == 0) wait(NULL);
                    _exit(0);
                }
            }
            MUST(write(ends[1], &depth, sizeof depth));
            _exit(0);
        }
        close(ends[1]);
        int depth = 0;
        MUST(read(ends[0], &depth, sizeof depth));
        EXPECT(depth > 100, 1);
        char c;
        EXPECT(read(ends[0], &c, 1), 0);
        close(ends[0]);
        while (wait(NULL) > 0) {}
    }
}

static int word;
static void *waits(void *argument) {
    for (int i = 0; i < 3; i++) syscall(SYS_futex, &word, 128 /* FUTEX_WAIT_PRIVATE */, 0, NULL, NULL, 0);
    return argument;
}

static void many_waiters(void) {
    enum { COUNT = 500 };
    static pthread_t threads[COUNT];
    static int other;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 0; i < COUNT; i++) EXPECT(pthread_create(&threads[i], &small, waits, NULL), 0);
    usleep(50000);
    syscall(SYS_futex, &word, 131 /* FUTEX_REQUEUE_PRIVATE */, 1, 1000L, &other, 0);
    word = 1;
    syscall(SYS_futex, &word, 129, 100000, NULL, NULL, 0);
    syscall(SYS_futex, &other, 129, 100000, NULL, NULL, 0);
    for (int i = 0; i < COUNT; i++) pthread_join(threads[i], NULL);
}

// Programs whose headers say anything.
static void elf_headers(void) {
    static unsigned char original[4096], changed[4096];
    int fd = MUST(open("/bin/true", O_RDONLY));
    MUST(read(fd, original, sizeof original));
    static const uint64_t values[] = {0, 1, 0xff, 0xffff, 0xffffffff, 0x7fffffffffff, 0x7f8000000000, 0x7f7fffffe000,
        0x800000000000, 0x8000000000000000, 0xffff800000000000, 0xffffffffffffffff, 0xfffffffffffff000, 0x1000, 0x7ffff000};
    for (int n = 0; n < 400; n++) {
        memcpy(changed, original, sizeof changed);
        int at = n < 100 ? 16 + n * 4 % 48 : 64 + (int)(chance() % (56 * 12));
        uint64_t value = values[chance() % (sizeof values / 8)];
        memcpy(changed + (at & ~3), &value, chance() % 2 ? 8 : 4);
        int out = MUST(open("/tmp/program", O_CREAT | O_TRUNC | O_WRONLY, 0755));
        MUST(write(out, changed, sizeof changed));
        close(out);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = {0, 0}, second = {1, 1};
            setrlimit(RLIMIT_CORE, &none);
            setrlimit(RLIMIT_CPU, &second);
            close(2);
            execl("/tmp/program", "program", NULL);
            _exit(7);
        }
        int status;
        waitpid(child, &status, 0);
    }
}

int main(int argc, char **argv) {
    static const struct attack list[] = {
        {"nested-descriptors", nested_descriptors},
        {"wide-descriptors", wide_descriptors},
        {"nested-epoll", nested_epoll},
        {"removed-directories", removed_directories},
        {"removed-host-directories", removed_host_directories},
        {"deep-tree", deep_tree},
        {"links", links},
        {"mounts", mounts},
        {"arguments", arguments},
        {"vectors", vectors},
        {"ending-threads", ending_threads},
        {"signal-flood", signal_flood},
        {"many-areas", many_areas},
        {"process-chain", process_chain},
        {"many-waiters", many_waiters},
        {"elf-headers", elf_headers},
        {0},
    };
    return attack(list, argc, argv);
}

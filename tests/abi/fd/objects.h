// Every kind of open file, for calls that are made on each of them.
#ifndef OBJECTS_H
#define OBJECTS_H

#include "check.h"
#include <mqueue.h>
#include <netinet/in.h>
#include <linux/netlink.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>

// Nothing that is called on an object may wait: they are non-blocking, and made anew for each call.
static int object_peer = -1;

// What the object is, for calls that leave some out.
enum {
    DEVICE = 1,    // A node of the host's /dev.
    STORED = 2,    // A file in the file system of the working directory.
    GENERATED = 4, // In /proc.
    SOCKET = 8,
    ANONYMOUS = 16, // One of the anon_inode files.
    NAMED = 32,     // FIFO: its node is in the working directory.
    PIPE = 64,
    TERMINAL = 128,
    PATH = 256,
    QUEUE = 512,
    DIRECTORY = 1024,
    NAMESPACE = 2048,
    MEMORY = 4096,
    PROCESS = 8192,
    INTERNET_STREAM = 16384,
};

static int open_pair(int type) {
    int ends[2];
    MUST(socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, ends));
    object_peer = ends[1];
    return ends[0];
}

static int open_pipe(int end) {
    int ends[2];
    MUST(pipe2(ends, O_NONBLOCK));
    object_peer = ends[!end];
    return ends[end];
}

static int open_pty(int slave) {
    int master = MUST(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
    MUST(grantpt(master));
    MUST(unlockpt(master));
    int other = MUST(open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK));
    object_peer = slave ? master : other;
    return slave ? other : master;
}

static int open_listening(int family) {
    int fd = MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    struct sockaddr_un local = {AF_UNIX, "listening"};
    struct sockaddr_in internet = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    unlink("listening");
    if (family == AF_UNIX)
        MUST(bind(fd, (void *)&local, sizeof local));
    else
        MUST(bind(fd, (void *)&internet, sizeof internet));
    MUST(listen(fd, 1));
    return fd;
}

static int open_queue(void) {
    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 16};
    char name[32];
    snprintf(name, sizeof name, "/objects-%d", getpid());
    int fd = MUST(mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, &attributes));
    mq_unlink(name);
    return fd;
}

static int open_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return MUST(signalfd(-1, &set, SFD_NONBLOCK));
}

static int open_memfd(void) {
    int fd = MUST(memfd_create("memory", MFD_ALLOW_SEALING));
    write(fd, "0123456789", 10);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int open_stored(const char *name, int flags) {
    put_file("file", "0123456789");
    return MUST(open(name, flags));
}

#define OBJECTS(O)                                                                                                     \
    O("file", STORED, open_stored("file", O_RDWR))                                                                     \
    O("file for reading", STORED, open_stored("file", O_RDONLY))                                                       \
    O("file for writing", STORED, open_stored("file", O_WRONLY))                                                       \
    O("file for appending", STORED, open_stored("file", O_RDWR | O_APPEND))                                            \
    O("directory", STORED | DIRECTORY, open("dir", O_RDONLY))                                                          \
    O("proc directory", GENERATED | DIRECTORY, open("/proc/self", O_RDONLY))                                           \
    O("proc file", GENERATED, open("/proc/self/status", O_RDONLY))                                                     \
    O("proc setting", GENERATED, open("/proc/self/comm", O_RDWR))                                                      \
    O("null", DEVICE, open("/dev/null", O_RDWR))                                                                       \
    O("zero", DEVICE, open("/dev/zero", O_RDWR))                                                                       \
    O("full", DEVICE, open("/dev/full", O_RDWR))                                                                       \
    O("urandom", DEVICE, open("/dev/urandom", O_RDWR))                                                                 \
    O("pty master", TERMINAL, open_pty(0))                                                                             \
    O("pty slave", TERMINAL, open_pty(1))                                                                              \
    O("pipe to read", PIPE, open_pipe(0))                                                                              \
    O("pipe to write", PIPE, open_pipe(1))                                                                             \
    O("fifo", PIPE | NAMED, open("fifo", O_RDWR | O_NONBLOCK))                                                         \
    O("unix stream", SOCKET, open_pair(SOCK_STREAM))                                                                   \
    O("unix dgram", SOCKET, open_pair(SOCK_DGRAM))                                                                     \
    O("unix seqpacket", SOCKET, open_pair(SOCK_SEQPACKET))                                                             \
    O("unix unconnected", SOCKET, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0))                                     \
    O("unix listening", SOCKET, open_listening(AF_UNIX))                                                               \
    O("tcp unconnected", SOCKET | INTERNET_STREAM, socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0))                                      \
    O("tcp listening", SOCKET | INTERNET_STREAM, open_listening(AF_INET))                                                                \
    O("udp", SOCKET, socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0))                                                   \
    O("netlink", SOCKET, socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE))                                  \
    O("epoll", ANONYMOUS, epoll_create1(0))                                                                            \
    O("eventfd", ANONYMOUS, eventfd(0, EFD_NONBLOCK))                                                                  \
    O("timerfd", ANONYMOUS, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK))                                             \
    O("signalfd", ANONYMOUS, open_signals())                                                                           \
    O("inotify", ANONYMOUS, inotify_init1(IN_NONBLOCK))                                                                \
    O("pidfd", PROCESS, syscall(SYS_pidfd_open, getpid(), O_NONBLOCK))                                                 \
    O("memfd", MEMORY, open_memfd())                                                                                   \
    O("message queue", QUEUE, open_queue())                                                                            \
    O("namespace", NAMESPACE, open("/proc/self/ns/uts", O_RDONLY))                                                     \
    O("path of a file", STORED | PATH, open_stored("file", O_PATH))                                                    \
    O("path of a directory", STORED | PATH | DIRECTORY, open("dir", O_PATH))                                           \
    O("path of a device", DEVICE | PATH, open("/dev/null", O_PATH))                                                    \
    O("closed", 0, 999)

// Makes an object by its place in the list.
static int open_object(unsigned which) {
    unsigned at = 0;
#define O(name, kind, expression)                                                                                      \
    if (which == at++) return MUST(expression);
    OBJECTS(O)
#undef O
    return -1;
}

static const struct { const char *name; unsigned kind; } OBJECT[] = {
#define O(name, kind, expression) {name, kind},
    OBJECTS(O)
#undef O
};

// Objects of these kinds are left out by the calls that follow.
static unsigned object_without = 0;
// Results are not printed, but that there are some.
static bool object_only_ok = false;

static void object_interrupted(int signal) { (void)signal; }

// The files that objects are made of, and signals that calls cause.
static void objects_start(void) {
    MUST(mkdir("dir", 0755));
    MUST(mkfifo("fifo", 0600));
    signal(SIGIO, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGURG, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    // A call that waits all the same ends with EINTR.
    struct sigaction action = {.sa_handler = object_interrupted};
    sigaction(SIGALRM, &action, NULL);
    alarms(3000);
}

// Makes a call on each object, and prints the objects by what it returned.
static void on_each(const char *what, long (*call)(int fd)) {
    static char results[COUNT(OBJECT)][32];
    printf("%s\n", what);
    for (unsigned i = 0; i < COUNT(OBJECT); i++) {
        results[i][0] = 0;
        if (OBJECT[i].kind & object_without) continue;
        int fd = open_object(i);
        errno = 0;
        long result = call(fd);
        if (result == -1)
            snprintf(results[i], sizeof results[i], "%s", check_error(errno));
        else if (object_only_ok)
            strcpy(results[i], "ok");
        else
            snprintf(results[i], sizeof results[i], "%ld", result);
        close_range(3, 999, 0);
        object_peer = -1;
    }
    for (unsigned first = 0; first < COUNT(OBJECT); first++) {
        if (!results[first][0]) continue;
        char result[32];
        strcpy(result, results[first]);
        printf("    %s:", result);
        for (unsigned i = first; i < COUNT(OBJECT); i++) {
            if (strcmp(results[i], result)) continue;
            printf("%s %s", i == first ? "" : ",", OBJECT[i].name);
            results[i][0] = 0;
        }
        printf("\n");
    }
}

// Makes a call, which names the descriptor `fd`, on each object.
#define EACH(...)                                                                                                      \
    do {                                                                                                               \
        long call_(int fd) { return (long)(__VA_ARGS__); }                                                             \
        on_each(#__VA_ARGS__, call_);                                                                                  \
    } while (0)

// The same without some kinds of objects.
#define EACH_BUT(kinds, ...)                                                                                           \
    do {                                                                                                               \
        object_without = (kinds);                                                                                      \
        EACH(__VA_ARGS__);                                                                                             \
        object_without = 0;                                                                                            \
    } while (0)

// The same where the result of success differs from run to run.
#define EACH_OK(...)                                                                                                   \
    do {                                                                                                               \
        object_only_ok = true;                                                                                         \
        EACH(__VA_ARGS__);                                                                                             \
        object_only_ok = false;                                                                                        \
    } while (0)

#endif

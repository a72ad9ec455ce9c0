// Signals of descriptors: F_SETSIG with what happened, F_SETOWN_EX with threads and groups, each kind of object, queues that are full.
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define SIGNAL (SIGRTMIN + 3)

static void arm(int fd, int signal) {
    MUST(fcntl(fd, F_SETOWN, getpid()));
    MUST(fcntl(fd, F_SETSIG, signal));
    MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC | O_NONBLOCK));
}
// Prints the signals that came, in order, without those that repeat the one before.
static void show(const char *what, int fd) {
    printf("%s:", what);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL), sigaddset(&set, SIGIO);
    struct timespec none = {0, 0};
    siginfo_t info, last = {0};
    for (int i = 0; i < 100; i++) {
        memset(&info, 0, sizeof info);
        if (sigtimedwait(&set, &info, &none) < 0) break;
        if (i && info.si_signo == last.si_signo && info.si_code == last.si_code && info.si_band == last.si_band) continue;
        printf(" %s code %d band %#lx fd %s,", info.si_signo == SIGIO ? "SIGIO" : "queued", info.si_code, (long)info.si_band, info.si_fd == fd ? "its own" : "another");
        last = info;
    }
    puts("");
}

static void pair_of(const char *name, int p[2], int closes) {
    printf("-- %s\n", name);
    arm(p[0], SIGNAL);
    show("armed", p[0]);
    char data[64];
    MUST(write(p[1], "data", 4));
    show("written", p[0]);
    MUST(read(p[0], data, 2));
    show("half read", p[0]);
    MUST(write(p[1], "data", 4));
    show("written again", p[0]);
    MUST(read(p[0], data, 64));
    show("read", p[0]);
    arm(p[1], SIGNAL);
    static char block[4096];
    while (write(p[1], block, sizeof block) > 0) {}
    show("the other end, filled", p[1]);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    while (read(p[0], block, sizeof block) > 0) {}
    show("the other end, drained", p[1]);
    MUST(fcntl(p[0], F_SETSIG, 0));
    MUST(fcntl(p[0], F_SETFL, O_NONBLOCK | O_ASYNC));
    MUST(write(p[1], "data", 4));
    show("by SIGIO", p[0]);
    MUST(fcntl(p[0], F_SETSIG, SIGIO));
    MUST(write(p[1], "data", 4));
    show("by SIGIO that was asked for", p[0]);
    MUST(fcntl(p[0], F_SETSIG, SIGNAL));
    int copy = MUST(dup(p[0]));
    MUST(write(p[1], "data", 4));
    show("with a copy", p[0]);
    close(p[0]);
    MUST(write(p[1], "data", 4));
    show("of the closed one", p[0]);
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    close(p[1]);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    struct timespec none = {0, 0};
    if (closes) show("the other end closed", p[0]);
    while (sigtimedwait(&set, NULL, &none) > 0) {}
    close(copy);
}

static void internet(void) {
    PART("datagrams");
    int s = MUST(socket(AF_INET, SOCK_DGRAM, 0)), c = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof a;
    MUST(bind(s, (void *)&a, sizeof a));
    MUST(getsockname(s, (void *)&a, &length));
    arm(s, SIGNAL);
    MUST(sendto(c, "x", 1, 0, (void *)&a, sizeof a));
    sleep_ms(5);
    show("one", s);
    close(s);
    arm(c, SIGNAL);
    MUST(connect(c, (void *)&a, sizeof a));
    MUST(send(c, "x", 1, 0));
    sleep_ms(5);
    show("refused", c);
    close(c);
    PART("connections");
    s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    a.sin_port = 0;
    MUST(bind(s, (void *)&a, sizeof a));
    MUST(getsockname(s, (void *)&a, &length));
    MUST(listen(s, 3));
    arm(s, SIGNAL);
    c = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(c, (void *)&a, sizeof a));
    sleep_ms(20);
    show("a client", s);
    int p = MUST(accept(s, NULL, NULL));
    printf("inherits %d %d %d\n", (fcntl(p, F_GETFL) & O_ASYNC) != 0, fcntl(p, F_GETOWN) == getpid(), fcntl(p, F_GETSIG));
    arm(p, SIGNAL);
    MUST(send(c, "x", 1, 0));
    sleep_ms(20);
    show("a byte", p);
    MUST(shutdown(c, SHUT_WR));
    sleep_ms(20);
    show("an end", p);
    close(c), close(p), close(s);
}

static int owner(int fd, int type, pid_t pid) {
    struct f_owner_ex o = {type, pid};
    return fcntl(fd, F_SETOWN_EX, &o);
}
static void told(int fd) {
    struct f_owner_ex o = {-1, -1};
    long plain = fcntl(fd, F_GETOWN);
    MUST(fcntl(fd, F_GETOWN_EX, &o));
    printf("plain %s, type %d %s\n", plain == getpid() ? "self" : plain == -getpid() ? "own group" : plain == 0 ? "none" : plain < 0 ? "a group or an error" : "another", o.type, o.pid == getpid() ? "self" : o.pid == 0 ? "none" : "another");
}
static pid_t reader_id;
static int go[2];
static void *thread(void *unused) {
    (void)unused;
    reader_id = (pid_t)syscall(SYS_gettid);
    MUST(write(go[1], "r", 1));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    struct timespec limit = {3, 0};
    siginfo_t info;
    printf("the thread got %s\n", sigtimedwait(&set, &info, &limit) == SIGNAL ? "it" : "nothing");
    return NULL;
}

static void owners(void) {
    PART("owners");
    int p[2];
    MUST(pipe(p));
    told(p[0]);
    T(owner(p[0], F_OWNER_PID, getpid()));
    told(p[0]);
    T(owner(p[0], F_OWNER_TID, getpid()));
    told(p[0]);
    T(owner(p[0], F_OWNER_PGRP, 0));
    told(p[0]);
    T(owner(p[0], 3, getpid()));
    T(owner(p[0], F_OWNER_PID, 0x3fffffff));
    T(owner(p[0], F_OWNER_PID, -1));
    T(fcntl(p[0], F_SETOWN, 0x3fffffff));
    T(fcntl(p[0], F_SETOWN, INT_MIN));
    T(fcntl(p[0], F_SETOWN, 0));
    told(p[0]);
    T(fcntl(p[0], F_SETOWN_EX, BAD));
    T(fcntl(p[0], F_GETOWN_EX, BAD));
    T(fcntl(p[0], F_SETSIG, -1));
    T(fcntl(p[0], F_SETSIG, 65));
    T(fcntl(p[0], F_SETSIG, 64));
    T(fcntl(p[0], F_GETSIG));
    T(fcntl(p[0], F_SETSIG, SIGKILL));
    T(fcntl(p[0], F_GETSIG));
    PART("a thread as the owner");
    MUST(pipe(go));
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    char byte;
    MUST(read(go[0], &byte, 1));
    arm(p[0], SIGNAL);
    T(owner(p[0], F_OWNER_TID, reader_id));
    MUST(write(p[1], "x", 1));
    pthread_join(t, NULL);
    show("this thread", p[0]);
    MUST(write(p[1], "x", 1));
    show("after its end", p[0]);
    told(p[0]);
    close(go[0]), close(go[1]);
    PART("a process that ended");
    pid_t child = MUST(fork());
    if (!child) _exit(0);
    T(fcntl(p[0], F_SETOWN, child));
    waitpid(child, NULL, 0);
    MUST(write(p[1], "x", 1));
    N(fcntl(p[0], F_GETOWN));
    close(p[0]), close(p[1]);
}

static void full(void) {
    PART("more than the queue takes");
    struct rlimit old, few;
    MUST(getrlimit(RLIMIT_SIGPENDING, &old));
    few = (struct rlimit){0, old.rlim_max};
    int p[2];
    MUST(pipe(p));
    arm(p[0], SIGNAL);
    MUST(setrlimit(RLIMIT_SIGPENDING, &few));
    MUST(write(p[1], "x", 1));
    MUST(setrlimit(RLIMIT_SIGPENDING, &old));
    // SIGIO comes in place of the one that has no room.
    show("full", p[0]);
    MUST(write(p[1], "x", 1));
    show("room again", p[0]);
    close(p[0]), close(p[1]);
}

static void others(void) {
    PART("inotify");
    int fd = MUST(inotify_init1(IN_NONBLOCK));
    MUST(inotify_add_watch(fd, ".", IN_CREATE));
    arm(fd, SIGNAL);
    put_file("new", "");
    show("an event", fd);
    put_file("newer", "");
    show("another", fd);
    close(fd);
}

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGNAL), sigaddset(&set, SIGIO), sigaddset(&set, 64);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    int p[2];
    MUST(pipe(p));
    pair_of("pipes", p, 1);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    pair_of("local streams", p, 1);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    pair_of("local datagrams", p, 0);
    internet();
    owners();
    full();
    others();
    return 0;
}

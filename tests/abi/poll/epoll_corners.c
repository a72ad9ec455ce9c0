// epoll in the corners: exclusive waits, nesting and loops, edges, one shot, what can't be watched, order of events.
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#ifndef EPIOCSPARAMS
#define EPIOCSPARAMS _IOW(0x8A, 1, struct epoll_params_)
#define EPIOCGPARAMS _IOR(0x8A, 2, struct epoll_params_)
#endif
struct epoll_params_ {
    uint32_t busy_poll_usecs;
    uint16_t busy_poll_budget;
    uint8_t prefer_busy_poll, pad;
};

static int add(int ep, int fd, unsigned events) {
    struct epoll_event e = {events, {.u64 = fd}};
    return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}
static int change(int ep, int fd, unsigned events) {
    struct epoll_event e = {events, {.u64 = fd}};
    return epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
}
static void show(const char *what, int ep, int timeout) {
    struct epoll_event e[8];
    int n = epoll_wait(ep, e, 8, timeout);
    printf("%s: %d", what, n);
    for (int i = 0; i < n; i++) printf(" %#x", e[i].events);
    puts("");
}

static void exclusive(void) {
    PART("EPOLLEXCLUSIVE");
    int ep = MUST(epoll_create1(0)), other = MUST(epoll_create1(0)), fd = MUST(eventfd(0, EFD_NONBLOCK));
    T(add(ep, fd, EPOLLIN | EPOLLEXCLUSIVE));
    T(change(ep, fd, EPOLLIN));
    T(change(ep, fd, EPOLLIN | EPOLLEXCLUSIVE));
    T(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
    T(add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE));
    T(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
    T(add(ep, fd, EPOLLIN | EPOLLRDHUP | EPOLLEXCLUSIVE));
    T(add(ep, fd, EPOLLIN | EPOLLPRI | EPOLLEXCLUSIVE));
    T(add(ep, fd, EPOLLIN | EPOLLRDNORM | EPOLLEXCLUSIVE));
    T(add(ep, fd, EPOLLIN | EPOLLONESHOT | EPOLLEXCLUSIVE));
    T(add(ep, other, EPOLLIN | EPOLLEXCLUSIVE));
    T(add(ep, fd, EPOLLIN));
    T(change(ep, fd, EPOLLIN | EPOLLEXCLUSIVE));
    show("still there", ep, 0);
    MUST(eventfd_write(fd, 1));
    show("after a failed change", ep, 0);
    close(ep), close(other), close(fd);
}

static int shared_event, woken, waiting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stop;
static void *waiter(void *unused) {
    (void)unused;
    int ep = MUST(epoll_create1(0));
    MUST(add(ep, shared_event, EPOLLIN | EPOLLEXCLUSIVE));
    MUST(add(ep, stop, EPOLLIN));
    struct epoll_event e[2];
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    int n = epoll_wait(ep, e, 2, -1);
    for (int i = 0; i < n; i++)
        if (e[i].data.u64 == (unsigned)shared_event) {
            pthread_mutex_lock(&lock);
            woken++;
            pthread_mutex_unlock(&lock);
        }
    return NULL;
}
static void one_of_many(void) {
    PART("not all waiters are woken");
    shared_event = MUST(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK));
    stop = MUST(eventfd(0, EFD_NONBLOCK));
    pthread_t t[6];
    for (int i = 0; i < 6; i++) pthread_create(&t[i], NULL, waiter, NULL);
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < 6) sleep_ms(1);
    sleep_ms(200);
    MUST(eventfd_write(shared_event, 1));
    // The event is taken only once a waiter has seen it, however long it takes to run.
    for (int seen = 0; seen == 0; sleep_ms(10)) {
        pthread_mutex_lock(&lock);
        seen = woken;
        pthread_mutex_unlock(&lock);
    }
    sleep_ms(100);
    uint64_t taken;
    YES(read(shared_event, &taken, 8) == 8);
    MUST(eventfd_write(stop, 1));
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    YES(woken >= 1 && woken < 6);
    close(shared_event), close(stop);
}

static void nesting(void) {
    PART("nesting");
    int ep[8];
    for (int i = 0; i < 8; i++) ep[i] = MUST(epoll_create1(0));
    T(add(ep[0], ep[0], EPOLLIN));
    for (int i = 0; i < 7; i++) printf("%d in %d: %s\n", i, i + 1, add(ep[i + 1], ep[i], EPOLLIN) ? check_error(errno) : "ok");
    T(add(ep[0], ep[3], EPOLLIN));
    T(add(ep[0], ep[1], EPOLLIN));
    int fd = MUST(eventfd(0, EFD_NONBLOCK));
    T(add(ep[0], fd, EPOLLIN));
    show("quiet", ep[4], 0);
    MUST(eventfd_write(fd, 1));
    show("through", ep[4], 100);
    show("through again", ep[4], 0);
    struct pollfd p = {ep[4], POLLIN, 0};
    T(poll(&p, 1, 0));
    uint64_t value;
    MUST(read(fd, &value, 8));
    T(poll(&p, 1, 0));
    show("quiet again", ep[4], 0);
    for (int i = 0; i < 8; i++) close(ep[i]);
    PART("a loop of two");
    int a = MUST(epoll_create1(0)), b = MUST(epoll_create1(0));
    T(add(a, b, EPOLLIN));
    T(add(b, a, EPOLLIN));
    close(a), close(b), close(fd);
    PART("an inner edge");
    a = MUST(epoll_create1(0)), b = MUST(epoll_create1(0)), fd = MUST(eventfd(0, EFD_NONBLOCK));
    MUST(add(b, fd, EPOLLIN));
    MUST(add(a, b, EPOLLIN | EPOLLET));
    MUST(eventfd_write(fd, 1));
    show("first", a, 0);
    show("second", a, 0);
    MUST(eventfd_write(fd, 1));
    show("third", a, 0);
    close(a), close(b), close(fd);
}

static void edges(void) {
    PART("edges");
    int ep = MUST(epoll_create1(0)), p[2];
    MUST(pipe2(p, O_NONBLOCK));
    MUST(add(ep, p[0], EPOLLIN | EPOLLET));
    show("empty", ep, 0);
    MUST(write(p[1], "ab", 2));
    show("data", ep, 0);
    show("once", ep, 0);
    char c[4096];
    MUST(read(p[0], c, 1));
    show("partly read", ep, 0);
    MUST(write(p[1], "c", 1));
    show("more data", ep, 0);
    MUST(change(ep, p[0], EPOLLIN | EPOLLET));
    show("armed again", ep, 0);
    close(p[1]);
    show("hang-up", ep, 0);
    show("once", ep, 0);
    close(p[0]);
    MUST(pipe2(p, O_NONBLOCK));
    MUST(add(ep, p[1], EPOLLOUT | EPOLLET));
    show("writable", ep, 0);
    show("once", ep, 0);
    while (write(p[1], c, 4096) > 0) {}
    show("full", ep, 0);
    MUST(read(p[0], c, 100));
    show("some read", ep, 0);
    MUST(read(p[0], c, 4096 - 100));
    show("a page read", ep, 0);
    MUST(read(p[0], c, 4096));
    show("another", ep, 0);
    close(p[0]);
    show("broken", ep, 0);
    close(p[1]);
    PART("one shot");
    int fd = MUST(eventfd(1, EFD_NONBLOCK));
    MUST(add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLONESHOT));
    show("first", ep, 0);
    show("second", ep, 0);
    MUST(change(ep, fd, EPOLLIN | EPOLLONESHOT | EPOLLET));
    show("again", ep, 0);
    MUST(eventfd_write(fd, 1));
    show("disabled", ep, 0);
    MUST(change(ep, fd, 0));
    show("nothing asked", ep, 0);
    MUST(eventfd_write(fd, 0));
    PART("an eventfd's edges");
    MUST(change(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET));
    show("both", ep, 0);
    MUST(eventfd_write(fd, 1));
    show("a write", ep, 0);
    eventfd_t value;
    MUST(eventfd_read(fd, &value));
    show("a read", ep, 0);
    MUST(eventfd_write(fd, UINT64_MAX - 1));
    show("full", ep, 0);
    close(fd);
    PART("a socket's edges");
    int s[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    MUST(add(ep, s[0], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET));
    show("new", ep, 0);
    MUST(write(s[1], "x", 1));
    show("data", ep, 0);
    MUST(write(s[0], "x", 1));
    show("own write", ep, 0);
    MUST(read(s[1], c, 1));
    show("read by the peer", ep, 0);
    MUST(shutdown(s[1], SHUT_WR));
    show("half closed", ep, 0);
    close(s[1]);
    show("closed", ep, 0);
    close(s[0]), close(ep);
}

static void fairness(void) {
    PART("more ready than asked for");
    int ep = MUST(epoll_create1(0)), fd[5];
    for (int i = 0; i < 5; i++) {
        fd[i] = MUST(eventfd(1, 0));
        MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &(struct epoll_event){EPOLLIN, {.u64 = i}}));
    }
    struct epoll_event e[2];
    for (int round = 0; round < 5; round++) {
        int n = epoll_wait(ep, e, 2, 0);
        printf("%d:", n);
        for (int i = 0; i < n; i++) printf(" number %d", (int)e[i].data.u64);
        puts("");
    }
    for (int i = 0; i < 5; i++) close(fd[i]);
    show("all closed", ep, 0);
    PART("the last descriptor counts");
    int a = MUST(eventfd(1, 0));
    MUST(add(ep, a, EPOLLIN));
    int b = MUST(dup(a));
    T(add(ep, b, EPOLLIN));
    show("both", ep, 0);
    close(a);
    show("one closed", ep, 0);
    T(epoll_ctl(ep, EPOLL_CTL_DEL, b, NULL));
    show("the other's watch is left", ep, 0);
    close(b);
    show("gone", ep, 0);
    close(ep);
}

static void refused(void) {
    PART("what can't be watched");
    int ep = MUST(epoll_create1(0));
    put_file("plain", "x");
    T(add(ep, MUST(open("plain", O_RDONLY)), EPOLLIN));
    T(add(ep, MUST(open(".", O_RDONLY)), EPOLLIN));
    T(add(ep, MUST(open("/dev/null", O_RDWR)), EPOLLIN));
    T(add(ep, MUST(open("/dev/zero", O_RDWR)), EPOLLIN));
    T(add(ep, MUST(open("/dev/urandom", O_RDONLY)), EPOLLIN));
    T(add(ep, MUST(open("/dev/full", O_RDWR)), EPOLLIN));
    T(add(ep, MUST(open("plain", O_PATH)), EPOLLIN));
    T(add(ep, MUST(open("/proc/self/status", O_RDONLY)), EPOLLIN));
    T(add(ep, 999, EPOLLIN));
    T(add(ep, -1, EPOLLIN));
    T(epoll_ctl(ep, EPOLL_CTL_ADD, 0, NULL));
    T(epoll_ctl(ep, 9, MUST(eventfd(0, 0)), &(struct epoll_event){0}));
    T(epoll_wait(ep, (void *)&(struct epoll_event){0}, 0, 0));
    T(epoll_wait(ep, (void *)&(struct epoll_event){0}, -1, 0));
    T(epoll_wait(ep, (void *)&(struct epoll_event){0}, INT_MAX, 0));
    T(epoll_wait(0, (void *)&(struct epoll_event){0}, 1, 0));
    T(epoll_create(0));
    T(epoll_create1(EPOLL_CLOEXEC | 1));
    T(read(ep, &(char){0}, 1));
    T(write(ep, "x", 1));
    T(lseek(ep, 0, SEEK_SET));
    struct epoll_params_ params = {0, 0, 0, 0};
    T(ioctl(ep, EPIOCGPARAMS, &params));
    N(params.busy_poll_usecs), N(params.busy_poll_budget), N(params.prefer_busy_poll);
    T(ioctl(ep, 0x1234, &params));
    PART("files of /proc that poll");
    static const char *const names[] = {"/proc/self/mounts", "/proc/self/mountinfo", "/proc/mounts", "/proc/self/mountstats", "/proc/sys/kernel/hostname", "/proc/sys/kernel/pid_max", "/proc/sys/vm/overcommit_memory"};
    for (size_t i = 0; i < COUNT(names); i++) {
        int fd = MUST(open(names[i], O_RDONLY));
        struct pollfd p = {fd, POLLIN | POLLPRI | POLLERR, 0};
        int n = poll(&p, 1, 0);
        printf("%s: add %s, poll %d %#x", names[i], add(ep, fd, EPOLLPRI) ? check_error(errno) : "ok", n, p.revents);
        char c[65536];
        read(fd, c, sizeof c);
        n = poll(&p, 1, 0);
        printf(", read %d %#x\n", n, p.revents);
    }
    show("nothing changed", ep, 0);
    close(ep);
}

static void others(void) {
    PART("timers, signals, counters");
    int ep = MUST(epoll_create1(0));
    int t = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    MUST(add(ep, t, EPOLLIN | EPOLLET));
    struct itimerspec at = {{0, 0}, {0, 1000000}};
    MUST(timerfd_settime(t, 0, &at, NULL));
    show("a timer", ep, 10000);
    MUST(timerfd_settime(t, 0, &at, NULL));
    show("set again", ep, 10000);
    uint64_t value = 0;
    T(read(t, &value, 8));
    N(value);
    T(read(t, &value, 8));
    T(read(t, &value, 4));
    T(write(t, &value, 8));
    close(t);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int s = MUST(signalfd(-1, &set, SFD_NONBLOCK));
    MUST(add(ep, s, EPOLLIN));
    kill(getpid(), SIGUSR1);
    show("a signal", ep, 0);
    struct signalfd_siginfo info;
    T(read(s, &info, 10));
    T(read(s, &info, sizeof info));
    N(info.ssi_signo), N(info.ssi_code);
    YES(info.ssi_pid == (unsigned)getpid());
    T(read(s, &info, sizeof info));
    show("none", ep, 0);
    close(s);
    int e = MUST(eventfd(0, EFD_NONBLOCK));
    value = UINT64_MAX;
    T(write(e, &value, 8));
    value--;
    T(write(e, &value, 8));
    value = 1;
    T(write(e, &value, 8));
    T(write(e, &value, 4));
    T(read(e, &value, 4));
    T(read(e, &value, 16));
    N(value == UINT64_MAX - 1);
    T(read(e, &value, 8));
    struct timespec wait = {0, 0};
    struct epoll_event event;
    T(syscall(SYS_epoll_pwait2, ep, &event, 1, &wait, NULL, 8));
    wait.tv_nsec = 1000000000;
    T(syscall(SYS_epoll_pwait2, ep, &event, 1, &wait, NULL, 8));
    wait = (struct timespec){-1, 0};
    T(syscall(SYS_epoll_pwait2, ep, &event, 1, &wait, NULL, 8));
    T(syscall(SYS_epoll_pwait2, ep, &event, 1, NULL, &set, 7));
    close(ep), close(e);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    exclusive();
    one_of_many();
    nesting();
    edges();
    fairness();
    refused();
    others();
    return 0;
}

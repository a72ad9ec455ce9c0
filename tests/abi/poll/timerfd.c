// Timers and signals as descriptors: arguments, readings, counts of expirations, changes of what is armed, requests, sharing, readiness.
#include "check.h"
#include <linux/ioctl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#ifndef TFD_IOC_SET_TICKS
#define TFD_IOC_SET_TICKS _IOW('T', 0, uint64_t)
#endif

static int ready(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    poll(&p, 1, 0);
    return p.revents;
}
static int soon(int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 2000);
    return p.revents;
}
static int set(int fd, int flags, long first_ms, long period_ms, struct itimerspec *old) {
    struct itimerspec new = {{period_ms / 1000, period_ms % 1000 * 1000000}, {first_ms / 1000, first_ms % 1000 * 1000000}};
    return timerfd_settime(fd, flags, &new, old);
}

static void arguments(void) {
    PART("clocks");
    for (int clock = -2; clock < 14; clock++) {
        int fd = timerfd_create(clock, 0);
        printf("%d: %s\n", clock, fd < 0 ? check_error(errno) : "ok");
        if (fd >= 0) close(fd);
    }
    T(timerfd_create(CLOCK_MONOTONIC, 1));
    T(timerfd_create(CLOCK_MONOTONIC, ~0));
    PART("settings");
    int fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)), other = MUST(open("/dev/null", O_RDONLY));
    struct itimerspec bad[] = {{{0, 0}, {-1, 0}}, {{0, 0}, {0, -1}}, {{0, 0}, {0, 1000000000}}, {{-1, 0}, {1, 0}}, {{0, 1000000000}, {1, 0}}, {{0, -1}, {0, 0}}, {{LONG_MAX, 0}, {LONG_MAX, 999999999}}, {{5, 0}, {0, 0}}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct itimerspec now = {{-7, -7}, {-7, -7}};
        printf("%zu: %s", i, timerfd_settime(fd, 0, &bad[i], NULL) ? check_error(errno) : "ok");
        MUST(timerfd_gettime(fd, &now));
        printf(", period %ld.%ld%s\n", (long)now.it_interval.tv_sec, now.it_interval.tv_nsec, now.it_value.tv_sec || now.it_value.tv_nsec ? ", armed" : "");
    }
    struct itimerspec good = {{0, 0}, {100, 0}};
    for (int flags = 0; flags < 9; flags++) printf("flags %d: %s\n", flags, timerfd_settime(fd, flags, &good, NULL) ? check_error(errno) : "ok");
    T(timerfd_settime(fd, 0, NULL, NULL));
    T(timerfd_settime(fd, 0, BAD, NULL));
    T(timerfd_settime(fd, 0, &good, BAD));
    T(timerfd_settime(other, 0, &good, NULL));
    T(timerfd_settime(-1, 0, &good, NULL));
    T(timerfd_gettime(fd, BAD));
    T(timerfd_gettime(other, &good));
    uint64_t value = 7;
    T(read(fd, &value, 8));
    T(read(fd, &value, 7));
    T(read(fd, &value, 0));
    T(syscall(SYS_read, fd, BAD, 8));
    T(write(fd, &value, 8));
    T(pread(fd, &value, 8, 0));
    T(lseek(fd, 0, SEEK_SET));
    T(ftruncate(fd, 0));
    T(fsync(fd));
    close(other), close(fd);
}

static void counts(void) {
    PART("counts");
    int fd = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    uint64_t value = 0, more[3] = {0};
    N(ready(fd));
    MUST(set(fd, 0, 20, 0, NULL));
    N(soon(fd));
    T(read(fd, more, sizeof more));
    N(more[0]);
    N(more[1]);
    T(read(fd, &value, 8));
    struct itimerspec old;
    MUST(timerfd_gettime(fd, &old));
    YES(old.it_value.tv_sec == 0 && old.it_value.tv_nsec == 0);
    MUST(set(fd, 0, 10, 10, NULL));
    sleep_ms(120);
    T(read(fd, &value, 8));
    YES(value >= 10);
    // Arming anew forgets expirations that were not read.
    MUST(set(fd, 0, 10, 10, NULL));
    N(soon(fd));
    MUST(set(fd, 0, 50000, 3000, &old));
    YES(old.it_interval.tv_nsec == 10000000);
    N(ready(fd));
    T(read(fd, &value, 8));
    MUST(set(fd, 0, 0, 3000, &old));
    YES(old.it_value.tv_sec == 49 && old.it_interval.tv_sec == 3);
    MUST(timerfd_gettime(fd, &old));
    N(old.it_interval.tv_sec);
    MUST(set(fd, 0, 10, 0, NULL));
    N(soon(fd));
    MUST(timerfd_gettime(fd, &old));
    N(soon(fd));
    PART("absolute times");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct itimerspec past = {{0, 0}, {now.tv_sec - 5 > 0 ? now.tv_sec - 5 : 1, 0}};
    MUST(timerfd_settime(fd, TFD_TIMER_ABSTIME, &past, NULL));
    N(soon(fd));
    T(read(fd, &value, 8));
    N(value);
    past.it_interval.tv_sec = 1;
    MUST(timerfd_settime(fd, TFD_TIMER_ABSTIME, &past, NULL));
    N(soon(fd));
    T(read(fd, &value, 8));
    YES(value >= 1 && value <= 7);
    MUST(timerfd_gettime(fd, &old));
    YES(old.it_value.tv_sec == 0 && old.it_value.tv_nsec > 0);
    PART("requests");
    value = 5;
    T(ioctl(fd, TFD_IOC_SET_TICKS, &value));
    N(soon(fd) & POLLIN);
    value = 0;
    T(ioctl(fd, TFD_IOC_SET_TICKS, &value));
    T(ioctl(fd, FIONREAD, &value));
    T(ioctl(fd, 0x1234, &value));
    close(fd);
    PART("a blocking read");
    fd = MUST(timerfd_create(CLOCK_REALTIME, 0));
    MUST(set(fd, 0, 20, 0, NULL));
    T(read(fd, &value, 8));
    MUST(set(fd, 0, 20, 0, NULL));
    int copy = MUST(dup(fd));
    CHILD("a child reads it", T(read(copy, &value, 8)));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    T(read(copy, &value, 8));
    PART("a clock that is set");
    struct itimerspec far = {{0, 0}, {time(NULL) + 1000, 0}};
    T(timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL));
    N(ready(fd));
    T(read(fd, &value, 8));
    T(timerfd_settime(fd, TFD_TIMER_CANCEL_ON_SET, &far, NULL));
    close(fd), close(copy);
    PART("edges");
    fd = MUST(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK));
    int ep = MUST(epoll_create1(0));
    struct epoll_event e = {EPOLLIN | EPOLLET, {0}};
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
    T(epoll_wait(ep, &e, 1, 0));
    MUST(set(fd, 0, 30, 0, NULL));
    T(epoll_wait(ep, &e, 1, 1000));
    T(epoll_wait(ep, &e, 1, 0));
    MUST(set(fd, 0, 30, 0, NULL));
    T(epoll_wait(ep, &e, 1, 1000));
    MUST(set(fd, 0, 30, 0, NULL));
    MUST(set(fd, 0, 0, 0, NULL));
    T(epoll_wait(ep, &e, 1, 60));
    close(fd), close(ep);
}

static volatile int handled;
static void handler(int number) {
    (void)number;
    handled++;
}
static int sfd;
static void *thread_reads(void *unused) {
    (void)unused;
    struct signalfd_siginfo info;
    printf("a thread: %zd", read(sfd, &info, sizeof info));
    printf(" %s\n", signal_name((int)info.ssi_signo));
    return NULL;
}

static void signals(void) {
    PART("signalfd");
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1), sigaddset(&mask, SIGRTMIN), sigaddset(&mask, SIGCHLD), sigaddset(&mask, SIGSEGV);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    T(signalfd(-1, &mask, ~0));
    T(syscall(SYS_signalfd4, -1, &mask, 7, 0));
    T(syscall(SYS_signalfd4, -1, BAD, 8, 0));
    T(syscall(SYS_signalfd4, 0, &mask, 8, 0));
    T(syscall(SYS_signalfd4, 999, &mask, 8, 0));
    int fd = MUST(signalfd(-1, &mask, SFD_NONBLOCK));
    struct signalfd_siginfo info[4];
    memset(info, 0, sizeof info);
    N(ready(fd));
    T(read(fd, info, sizeof info));
    T(read(fd, info, sizeof *info - 1));
    T(read(fd, info, 0));
    T(write(fd, info, sizeof *info));
    for (int i = 0; i < 3; i++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i + 10});
    kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR1);
    N(ready(fd));
    T(read(fd, info, sizeof *info * 2 + 5));
    for (int i = 0; i < 2; i++) printf(" %s code %d value %d self %d\n", i ? "second" : "first", info[i].ssi_code, info[i].ssi_int, info[i].ssi_pid == (unsigned)getpid());
    T(read(fd, info, sizeof info));
    for (int i = 0; i < 2; i++) printf(" value %d\n", info[i].ssi_int);
    kill(getpid(), SIGUSR1);
    T(syscall(SYS_read, fd, BAD, sizeof info));
    T(read(fd, info, sizeof info));
    pid_t child = MUST(fork());
    if (!child) _exit(3);
    N(soon(fd));
    T(read(fd, info, sizeof info));
    YES(info[0].ssi_signo == SIGCHLD && info[0].ssi_pid == (unsigned)child);
    N(info[0].ssi_status);
    N(info[0].ssi_code);
    waitpid(child, NULL, 0);
    PART("it is the reader's signals");
    kill(getpid(), SIGUSR1);
    child = MUST(fork());
    if (!child) {
        N(ready(fd));
        T(read(fd, info, sizeof info));
        raise(SIGRTMIN);
        T(read(fd, info, sizeof info));
        _exit(0);
    }
    reap("child", child);
    T(read(fd, info, sizeof info));
    PART("a new mask");
    sigset_t few;
    sigemptyset(&few);
    sigaddset(&few, SIGUSR2), sigaddset(&few, SIGKILL), sigaddset(&few, SIGSTOP);
    sigprocmask(SIG_BLOCK, &few, NULL);
    kill(getpid(), SIGUSR2);
    N(ready(fd) & POLLIN);
    YES(signalfd(fd, &few, 0) == fd);
    N(ready(fd));
    kill(getpid(), SIGUSR1);
    T(read(fd, info, sizeof info));
    N(info[0].ssi_signo == SIGUSR2);
    T(read(fd, info, sizeof info));
    YES(signalfd(fd, &mask, 0) == fd);
    T(read(fd, info, sizeof info));
    PART("signals of a thread");
    sfd = MUST(signalfd(-1, &mask, 0));
    pthread_t thread;
    pthread_create(&thread, NULL, thread_reads, NULL);
    sleep_ms(30);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    N(ready(sfd));
    pthread_create(&thread, NULL, thread_reads, NULL);
    sleep_ms(30);
    kill(getpid(), SIGRTMIN);
    pthread_join(thread, NULL);
    PART("a handler and an ignored signal");
    signal(SIGUSR1, SIG_IGN);
    kill(getpid(), SIGUSR1);
    N(ready(fd));
    signal(SIGUSR1, handler);
    kill(getpid(), SIGUSR1);
    N(ready(fd));
    sigprocmask(SIG_UNBLOCK, &mask, NULL);
    N(handled);
    N(ready(fd));
    int ep = MUST(epoll_create1(0));
    struct epoll_event e = {EPOLLIN, {0}};
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
    sigprocmask(SIG_BLOCK, &mask, NULL);
    kill(getpid(), SIGUSR1);
    T(epoll_wait(ep, &e, 1, 1000));
    T(read(fd, info, sizeof info));
    T(epoll_wait(ep, &e, 1, 0));
    close(fd), close(sfd), close(ep);
}

int main(void) {
    arguments();
    counts();
    signals();
    return 0;
}

// Events, counts and records for memory that can't be written, or only in part: what is lost, and what comes again.
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int main(void) {
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(edge + 4096, 4096, PROT_NONE);
    edge += 4096;
    struct epoll_event event = {0}, two[2];
    uint32_t modes[] = {0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT};
    for (size_t i = 0; i < COUNT(modes); i++) {
        printf("-- mode %x\n", modes[i]);
        int ep = MUST(epoll_create1(0)), first = MUST(eventfd(1, 0)), second = MUST(eventfd(1, 0));
        event.events = EPOLLIN | modes[i];
        event.data.u32 = 1;
        T(epoll_ctl(ep, EPOLL_CTL_ADD, first, &event) != -1);
        event.data.u32 = 2;
        T(epoll_ctl(ep, EPOLL_CTL_ADD, second, &event) != -1);
        T(syscall(SYS_epoll_wait, ep, BAD, 2, 0));
        T(epoll_wait(ep, (void *)(edge - 12), 2, 0));
        int n = T(epoll_wait(ep, two, 2, 0));
        int seen = 0;
        for (int k = 0; k < n; k++) seen |= two[k].data.u32;
        N(seen);
        T(epoll_wait(ep, two, 2, 0));
        close(ep), close(first), close(second);
    }
    PART("counts");
    void *bad[] = {BAD, edge - 4};
    for (int i = 0; i < 2; i++) {
        int counter = MUST(eventfd(1, EFD_NONBLOCK));
        T(read(counter, bad[i], 8));
        T(read(counter, two, 8));
        T(write(counter, bad[i], 8));
        T(read(counter, two, 8));
        int timer = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
        struct itimerspec soon = {{0, 0}, {0, 1}};
        T(timerfd_settime(timer, 0, &soon, NULL));
        usleep(20000);
        T(read(timer, bad[i], 8));
        T(read(timer, two, 8));
    }
    PART("records");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = MUST(signalfd(-1, &set, SFD_NONBLOCK));
    struct signalfd_siginfo info[2];
    raise(SIGUSR1);
    T(read(signals, edge - 100, 128));
    T(read(signals, info, sizeof info));
    raise(SIGUSR1);
    T(read(signals, info, 127));
    T(read(signals, info, sizeof info));
    int watch = MUST(inotify_init1(IN_NONBLOCK));
    MUST(inotify_add_watch(watch, ".", IN_CREATE));
    put_file("f", "");
    T(read(watch, edge - 8, 64));
    char events[64];
    T(read(watch, events, sizeof events));
    return 0;
}

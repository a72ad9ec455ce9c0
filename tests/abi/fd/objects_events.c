// epoll, poll, and calls that only one kind of file has, on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"
#include <sys/select.h>

static long ready(int fd, int events) {
    struct pollfd one = {fd, events};
    long count = poll(&one, 1, 0);
    return count < 0 ? -1 : one.revents;
}

static int with_epoll(int fd, int operation, unsigned events) {
    int epoll = epoll_create1(0);
    return epoll_ctl(epoll, operation, fd, &(struct epoll_event){.events = events});
}

static long selected(int fd) {
    fd_set readers, writers, urgent;
    FD_ZERO(&readers);
    FD_SET(fd, &readers);
    writers = urgent = readers;
    struct timeval none = {0, 0};
    long count = select(fd + 1, &readers, &writers, &urgent, &none);
    return count < 0 ? -1 : FD_ISSET(fd, &readers) << 2 | FD_ISSET(fd, &writers) << 1 | FD_ISSET(fd, &urgent);
}

static struct epoll_event events[4];
static sigset_t set;
static struct mq_attr attributes;
static char message[16];
static struct itimerspec timer = {{0, 0}, {1000, 0}};

int main(void) {
    objects_start();
    PART("as what is watched");
    EACH(with_epoll(fd, EPOLL_CTL_ADD, EPOLLIN));
    EACH(with_epoll(fd, EPOLL_CTL_MOD, EPOLLIN));
    EACH(with_epoll(fd, EPOLL_CTL_DEL, EPOLLIN));
    EACH(with_epoll(fd, 0, EPOLLIN));
    EACH(with_epoll(fd, 77, EPOLLIN));
    EACH(with_epoll(fd, EPOLL_CTL_ADD, EPOLLIN | EPOLLEXCLUSIVE));
    EACH(with_epoll(fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLEXCLUSIVE));
    EACH(epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, fd, BAD));
    EACH(epoll_ctl(epoll_create1(0), EPOLL_CTL_DEL, fd, BAD));
    PART("as what watches");
    EACH(epoll_ctl(fd, EPOLL_CTL_ADD, eventfd(0, 0), events));
    EACH(epoll_ctl(fd, EPOLL_CTL_DEL, eventfd(0, 0), events));
    EACH(epoll_ctl(fd, EPOLL_CTL_ADD, fd, events));
    EACH(epoll_ctl(fd, EPOLL_CTL_ADD, 999, events));
    EACH(epoll_ctl(fd, EPOLL_CTL_ADD, open("file", O_RDONLY), events));
    EACH(epoll_ctl(fd, EPOLL_CTL_ADD, 1, BAD));
    EACH(epoll_wait(fd, events, 4, 0));
    EACH(epoll_wait(fd, events, 0, 0));
    EACH(epoll_wait(fd, events, -1, 0));
    EACH(epoll_wait(fd, KERNEL_ADDRESS, 4, 0));
    EACH(epoll_wait(fd, BAD, 4, 0));
    EACH(epoll_pwait(fd, events, 0, 0, NULL));
    EACH(syscall(SYS_epoll_pwait2, fd, events, 0, &(struct timespec){0, 0}, NULL, 8));
    EACH(syscall(SYS_epoll_pwait2, fd, events, 4, &(struct timespec){0, -1}, NULL, 8));
    PART("poll");
    EACH(ready(fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND));
    EACH(ready(fd, 0));
    EACH(ready(fd, -1));
    EACH(selected(fd));
    PART("timers, signals, watches, processes");
    EACH(timerfd_settime(fd, 0, &timer, NULL));
    EACH(timerfd_settime(fd, 8, &timer, NULL));
    EACH(timerfd_settime(fd, 0, BAD, NULL));
    EACH(timerfd_gettime(fd, &timer));
    EACH(timerfd_gettime(fd, BAD));
    EACH(signalfd(fd, &set, 0) < 0 ? -1 : 0);
    EACH(signalfd(fd, BAD, 0));
    EACH(syscall(SYS_signalfd4, fd, &set, 8, 1));
    EACH(syscall(SYS_signalfd4, fd, &set, 4, 0));
    EACH(inotify_add_watch(fd, ".", IN_CREATE));
    EACH(inotify_add_watch(fd, ".", 0));
    EACH(inotify_add_watch(fd, "absent", IN_CREATE));
    EACH(inotify_add_watch(fd, BAD, IN_CREATE));
    EACH(inotify_add_watch(fd, ".", IN_CREATE | IN_MASK_ADD | IN_MASK_CREATE));
    EACH(inotify_rm_watch(fd, 1));
    EACH(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    EACH(syscall(SYS_pidfd_send_signal, fd, 99, NULL, 0));
    EACH(syscall(SYS_pidfd_send_signal, fd, 0, BAD, 0));
    EACH(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 1 << 5));
    EACH(syscall(SYS_pidfd_getfd, fd, 1, 0) < 0 ? -1 : 0);
    EACH(syscall(SYS_pidfd_getfd, fd, 999, 0));
    EACH(syscall(SYS_pidfd_getfd, fd, 1, 1));
    EACH(waitid(P_PIDFD, fd, NULL, WEXITED | WNOHANG));
    EACH(waitid(P_PIDFD, fd, NULL, 0));
    EACH(syscall(SYS_process_madvise, fd, NULL, 0, MADV_COLD, 0));
    EACH(syscall(SYS_process_mrelease, fd, 0));
    EACH(syscall(SYS_process_mrelease, fd, 1));
    EACH(setns(fd, 0x10000));
    EACH(setns(fd, CLONE_NEWNET));
    EACH(mq_getattr(fd, &attributes));
    EACH(mq_send(fd, message, 1, 0));
    EACH(mq_receive(fd, message, 16, NULL));
    EACH(mq_receive(fd, message, 1, NULL));
    EACH(syscall(SYS_mq_getsetattr, fd, BAD, NULL));
    return 0;
}

// epoll: level and edge, one shot, nesting, removal, errors.
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static int e;
static void show(const char *what, int timeout) {
    struct epoll_event events[8];
    int count = epoll_wait(e, events, 8, timeout);
    printf("%s: %d", what, count);
    unsigned long sum = 0;
    unsigned mask = 0;
    for (int i = 0; i < count; i++) sum += events[i].data.u64, mask |= events[i].events;
    printf(" data %lu events %#x\n", sum, mask);
}
static int control(int operation, int fd, unsigned events, unsigned long data) {
    struct epoll_event event = {events, {.u64 = data}};
    return epoll_ctl(e, operation, fd, &event);
}

int main(void) {
    int p[2], q[2];
    char buffer[16];
    T(epoll_create(0));
    T(epoll_create1(1));
    e = OK(epoll_create1(EPOLL_CLOEXEC));
    N(fcntl(e, F_GETFD));
    MUST(pipe(p));
    MUST(pipe(q));
    PART("level");
    T(control(EPOLL_CTL_ADD, p[0], EPOLLIN, 1));
    T(control(EPOLL_CTL_ADD, q[0], EPOLLIN, 10));
    show("nothing", 0);
    write(p[1], "ab", 2);
    show("one", 0);
    show("still", 0);
    write(q[1], "ab", 2);
    show("two", 0);
    read(p[0], buffer, 16);
    show("one again", 0);
    read(q[0], buffer, 16);
    show("nothing", 10);
    PART("edge");
    T(control(EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET, 2));
    write(p[1], "a", 1);
    show("edge", 0);
    show("no edge", 0);
    write(p[1], "b", 1);
    show("another edge", 0);
    T(control(EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET, 2));
    show("after a change", 0);
    read(p[0], buffer, 16);
    PART("one shot");
    T(control(EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 3));
    write(p[1], "a", 1);
    show("first", 0);
    write(p[1], "a", 1);
    show("second", 0);
    T(control(EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 4));
    show("armed again", 0);
    read(p[0], buffer, 16);
    PART("errors");
    T(control(EPOLL_CTL_ADD, p[0], EPOLLIN, 1));
    T(control(EPOLL_CTL_ADD, 99, EPOLLIN, 1));
    T(control(EPOLL_CTL_MOD, p[1], EPOLLIN, 1));
    T(control(EPOLL_CTL_DEL, p[1], EPOLLIN, 1));
    T(control(9, p[0], EPOLLIN, 1));
    T(control(EPOLL_CTL_ADD, e, EPOLLIN, 1));
    put_file("f", "");
    int file = MUST(open("f", O_RDWR)), dir = MUST(open(".", O_RDONLY));
    T(control(EPOLL_CTL_ADD, file, EPOLLIN, 1));
    T(control(EPOLL_CTL_ADD, dir, EPOLLIN, 1));
    T(epoll_ctl(99, EPOLL_CTL_ADD, p[0], &(struct epoll_event){0}));
    T(epoll_ctl(p[0], EPOLL_CTL_ADD, q[0], &(struct epoll_event){0}));
    T(epoll_ctl(e, EPOLL_CTL_ADD, q[1], NULL));
    struct epoll_event events[2];
    T(epoll_wait(e, events, 0, 0));
    T(epoll_wait(e, events, -1, 0));
    T(epoll_wait(p[0], events, 1, 0));
    T(epoll_wait(99, events, 1, 0));
    T(read(e, buffer, 1));
    T(lseek(e, 0, SEEK_SET));
    PART("removal");
    T(epoll_ctl(e, EPOLL_CTL_DEL, q[0], NULL));
    write(q[1], "x", 1);
    show("removed", 0);
    T(control(EPOLL_CTL_ADD, q[0], EPOLLIN, 20));
    int copy = dup(q[0]);
    close(q[0]);
    show("closed, but duplicated", 0);
    close(copy);
    show("closed", 0);
    PART("hang-up");
    T(control(EPOLL_CTL_MOD, p[0], 0, 5));
    close(p[1]);
    show("writer gone", 0);
    PART("write readiness");
    int s[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    e = MUST(epoll_create1(0));
    T(control(EPOLL_CTL_ADD, s[0], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 7));
    show("writable", 0);
    show("no news", 0);
    write(s[1], "x", 1);
    show("readable", 0);
    shutdown(s[1], SHUT_WR);
    show("half closed", 0);
    close(s[1]);
    show("closed", 0);
    PART("nesting");
    int inner = MUST(epoll_create1(0)), event = MUST(eventfd(0, 0)), outer = MUST(epoll_create1(0));
    e = inner;
    T(control(EPOLL_CTL_ADD, event, EPOLLIN, 100));
    e = outer;
    T(control(EPOLL_CTL_ADD, inner, EPOLLIN, 200));
    show("quiet", 0);
    eventfd_write(event, 1);
    show("through", 0);
    struct pollfd poller = {outer, POLLIN, 0};
    T(poll(&poller, 1, 0));
    e = inner;
    T(control(EPOLL_CTL_ADD, outer, EPOLLIN, 1));
    PART("waiting");
    e = MUST(epoll_create1(0));
    MUST(pipe(p));
    control(EPOLL_CTL_ADD, p[0], EPOLLIN, 77);
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(40);
        write(p[1], "x", 1);
        _exit(0);
    }
    show("from the child", -1);
    reap("child", child);
    PART("more ready than asked for: all get their turn");
    int many[6];
    e = MUST(epoll_create1(0));
    for (int i = 0; i < 6; i++) {
        many[i] = MUST(eventfd(1, 0));
        control(EPOLL_CTL_ADD, many[i], EPOLLIN, 1 << i);
    }
    unsigned long seen = 0;
    for (int i = 0; i < 3; i++) {
        int count = epoll_wait(e, events, 2, 0);
        for (int j = 0; j < count; j++) seen |= events[j].data.u64;
    }
    N(seen);
    struct timespec zero = {0, 0};
    N(syscall(SYS_epoll_pwait2, e, events, 2, &zero, NULL, 8));
    T(syscall(SYS_epoll_pwait, e, events, 2, 0, buffer, 4));
    return 0;
}

// select, pselect6, poll and ppoll: sets, bits that are left, what is refused, time that is left, signals and masks.
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>

static volatile int signals;
static void handler(int number) {
    (void)number;
    signals++;
}
static long raw_select(int n, void *r, void *w, void *e, void *t) { return syscall(SYS_select, n, r, w, e, t); }
static long raw_pselect(int n, void *r, void *w, void *e, void *t, void *mask) { return syscall(SYS_pselect6, n, r, w, e, t, mask); }
static long raw_ppoll(void *p, unsigned n, void *t, void *mask, size_t size) { return syscall(SYS_ppoll, p, n, t, mask, size); }
static void bits(const char *what, fd_set *set, const int *fds, int count) {
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %d", FD_ISSET(fds[i], set) != 0);
    puts("");
}

static void sets(void) {
    PART("sets");
    int p[2], q[2], s[2];
    MUST(pipe(p)), MUST(pipe(q)), MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    MUST(write(q[1], "x", 1));
    close(q[1]);
    MUST(send(s[1], "u", 1, MSG_OOB));
    int fds[] = {p[0], p[1], q[0], s[0], s[1]};
    fd_set r, w, e;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&e);
    for (size_t i = 0; i < COUNT(fds); i++) FD_SET(fds[i], &r), FD_SET(fds[i], &w), FD_SET(fds[i], &e);
    struct timeval none = {0, 0};
    T(select(FD_SETSIZE, &r, &w, &e, &none));
    bits("reading", &r, fds, COUNT(fds));
    bits("writing", &w, fds, COUNT(fds));
    bits("exceptions", &e, fds, COUNT(fds));
    // Only what lies below the first argument counts.
    FD_ZERO(&r);
    FD_SET(q[0], &r);
    T(select(q[0], &r, NULL, NULL, &none));
    bits("beyond", &r, fds, COUNT(fds));
    T(select(q[0] + 1, &r, NULL, NULL, &none));
    T(select(0, &r, NULL, NULL, &none));
    T(raw_select(-1, &r, NULL, NULL, &none));
    T(raw_select(INT_MAX, NULL, NULL, NULL, &none));
    close(p[0]);
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[1], &r), FD_SET(p[1], &w);
    T(select(FD_SETSIZE, &r, &w, NULL, &none));
    bits("broken, reading", &r, fds, COUNT(fds));
    bits("broken, writing", &w, fds, COUNT(fds));
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    FD_SET(q[0], &r);
    T(select(FD_SETSIZE, &r, NULL, NULL, &none));
    bits("with one that is closed", &r, fds, COUNT(fds));
    T(raw_select(64, BAD, NULL, NULL, &none));
    T(raw_select(64, NULL, NULL, NULL, BAD));
    int path = MUST(open(".", O_PATH));
    FD_ZERO(&r);
    FD_SET(path, &r);
    T(select(FD_SETSIZE, &r, NULL, NULL, &none));
    put_file("plain", "");
    int plain = MUST(open("plain", O_RDONLY));
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&e);
    FD_SET(plain, &r), FD_SET(plain, &w), FD_SET(plain, &e);
    T(select(FD_SETSIZE, &r, &w, &e, NULL));
    close(p[1]), close(q[0]), close(s[0]), close(s[1]), close(path), close(plain);
}

static void limits(void) {
    PART("high descriptors");
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    int event = MUST(eventfd(1, 0));
    unsigned long set[64];
    int high = MUST(fcntl(event, F_DUPFD, 1000));
    memset(set, 0, sizeof set);
    set[high / 64] |= 1ul << high % 64;
    struct timeval none = {0, 0};
    T(raw_select(high + 1, set, NULL, NULL, &none));
    set[high / 64] |= 1ul << high % 64;
    T(raw_select(4096, set, NULL, NULL, &none));
    set[3000 / 64] |= 1ul << 3000 % 64;
    // Beyond the table of descriptors nothing is looked at.
    T(raw_select(4096, set, NULL, NULL, &none));
    struct pollfd p[8];
    for (int i = 0; i < 8; i++) p[i] = (struct pollfd){i == 3 ? -1 : i == 5 ? 900 : event, i == 6 ? 0 : POLLIN | POLLOUT, 77};
    T(poll(p, 8, 0));
    for (int i = 0; i < 8; i++) printf(" %#x", p[i].revents);
    puts("");
    struct rlimit few = {8, limit.rlim_max};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    T(poll(p, 8, 0));
    struct pollfd more[9];
    for (int i = 0; i < 9; i++) more[i] = (struct pollfd){-1, 0, 0};
    T(poll(more, 9, 0));
    T(raw_ppoll(more, UINT_MAX, &(struct timespec){0, 0}, NULL, 0));
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    T(syscall(SYS_poll, BAD, 1, 0));
    T(poll(BAD, 0, 0));
    p[0].fd = event;
    T(poll(p, 1, -5));
    close(event), close(high);
}

static void times(void) {
    PART("time that is left");
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    int event = MUST(eventfd(0, EFD_NONBLOCK));
    fd_set r;
    FD_ZERO(&r);
    FD_SET(event, &r);
    struct timeval t = {0, 40000};
    T(raw_select(event + 1, &r, NULL, NULL, &t));
    printf("over: %ld %ld\n", (long)t.tv_sec, (long)t.tv_usec);
    t = (struct timeval){10, 0};
    alarms(30);
    FD_SET(event, &r);
    T(raw_select(event + 1, &r, NULL, NULL, &t));
    alarms(0);
    YES(t.tv_sec == 9 && t.tv_usec > 0);
    YES(FD_ISSET(event, &r));
    struct timespec s = {10, 0};
    alarms(30);
    T(raw_pselect(event + 1, &r, NULL, NULL, &s, NULL));
    alarms(0);
    YES(s.tv_sec == 9 && s.tv_nsec > 0);
    s = (struct timespec){10, 0};
    struct pollfd p = {event, POLLIN, 0};
    alarms(30);
    T(raw_ppoll(&p, 1, &s, NULL, 0));
    alarms(0);
    YES(s.tv_sec == 9 && s.tv_nsec > 0);
    MUST(eventfd_write(event, 1));
    t = (struct timeval){10, 0};
    T(raw_select(event + 1, &r, NULL, NULL, &t));
    YES(t.tv_sec == 9 || t.tv_sec == 10);
    static const struct timeval bad[] = {{-1, 0}, {0, -1}, {0, 1000000}, {0, 5000000}, {LONG_MAX, 0}, {LONG_MAX, LONG_MAX}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        t = bad[i];
        FD_SET(event, &r);
        printf("%zu: %s\n", i, raw_select(event + 1, &r, NULL, NULL, &t) < 0 ? check_error(errno) : "ok");
    }
    static const struct timespec bad_ns[] = {{-1, 0}, {0, -1}, {0, 1000000000}, {LONG_MAX, 0}, {LONG_MAX, 999999999}};
    for (size_t i = 0; i < COUNT(bad_ns); i++) {
        s = bad_ns[i];
        FD_SET(event, &r);
        printf("%zu: %s", i, raw_pselect(event + 1, &r, NULL, NULL, &s, NULL) < 0 ? check_error(errno) : "ok");
        s = bad_ns[i];
        printf(" %s", raw_ppoll(&p, 1, &s, NULL, 0) < 0 ? check_error(errno) : "ok");
        s = bad_ns[i];
        int ep = MUST(epoll_create1(0));
        struct epoll_event e = {EPOLLIN, {0}};
        MUST(epoll_ctl(ep, EPOLL_CTL_ADD, event, &e));
        printf(" %s\n", syscall(SYS_epoll_pwait2, ep, &e, 1, &s, NULL, 0) < 0 ? check_error(errno) : "ok");
        close(ep);
    }
    close(event);
}

static void masks(void) {
    PART("masks");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigset_t block, empty;
    sigemptyset(&empty), sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    sigprocmask(SIG_BLOCK, &block, NULL);
    int event = MUST(eventfd(0, EFD_NONBLOCK));
    struct pollfd p = {event, POLLIN, 0};
    struct timespec s = {5, 0};
    signals = 0;
    kill(getpid(), SIGUSR1);
    T(raw_ppoll(&p, 1, &s, &empty, 8));
    N(signals);
    kill(getpid(), SIGUSR1);
    MUST(eventfd_write(event, 1));
    // What is ready counts before the signal, which stays pending.
    T(raw_ppoll(&p, 1, &s, &empty, 8));
    N(signals);
    T(raw_ppoll(&p, 1, &s, &empty, 4));
    T(raw_ppoll(&p, 1, &s, BAD, 8));
    T(raw_ppoll(&p, 1, &s, NULL, 4));
    struct {
        void *mask;
        size_t size;
    } argument = {&empty, 8};
    fd_set r;
    FD_ZERO(&r);
    eventfd_t value;
    MUST(eventfd_read(event, &value));
    FD_SET(event, &r);
    s = (struct timespec){0, 20000000};
    T(raw_pselect(event + 1, &r, NULL, NULL, &s, &argument));
    N(signals);
    argument.size = 7;
    T(raw_pselect(event + 1, &r, NULL, NULL, &s, &argument));
    argument.mask = NULL;
    T(raw_pselect(0, NULL, NULL, NULL, &s, &argument));
    T(raw_pselect(0, NULL, NULL, NULL, &s, BAD));
    T(raw_pselect(-1, NULL, NULL, NULL, &s, NULL));
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    N(sigismember(&now, SIGUSR1));
    close(event);
}

static void restarted(void) {
    PART("never restarted");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    alarms(30);
    T(select(0, NULL, NULL, NULL, NULL));
    T(poll(NULL, 0, -1));
    struct epoll_event e;
    int ep = MUST(epoll_create1(0));
    T(epoll_wait(ep, &e, 1, -1));
    T(raw_ppoll(NULL, 0, NULL, NULL, 0));
    T(raw_pselect(0, NULL, NULL, NULL, NULL, NULL));
    alarms(0);
    PART("a stop restarts poll");
    pid_t child = MUST(fork());
    if (!child) {
        long long start = now_ms();
        int n = poll(NULL, 0, 300);
        printf("poll %d %s\n", n, now_ms() - start >= 295 ? "whole" : "short");
        struct timeval t = {0, 300000};
        n = select(0, NULL, NULL, NULL, &t);
        printf("select %d %ld\n", n, (long)t.tv_usec);
        _exit(0);
    }
    sleep_ms(50);
    kill(child, SIGSTOP);
    MUST(waitpid(child, NULL, WUNTRACED));
    sleep_ms(30);
    kill(child, SIGCONT);
    sleep_ms(320);
    kill(child, SIGSTOP);
    MUST(waitpid(child, NULL, WUNTRACED));
    kill(child, SIGCONT);
    reap("child", child);
}

int main(void) {
    sets();
    limits();
    times();
    masks();
    restarted();
    return 0;
}

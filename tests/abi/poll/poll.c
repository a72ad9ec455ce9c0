// poll and select on the kinds of descriptors.
#include "check.h"
#include <sys/select.h>
#include <sys/socket.h>

static void show(const char *what, int fd, int events) {
    struct pollfd p = {fd, events, 0};
    int result = poll(&p, 1, 0);
    printf("%s: %d %#x\n", what, result, p.revents);
}

int main(void) {
    int p[2], s[2], all = POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLWRNORM | POLLRDHUP;
    char block[4096] = {0};
    MUST(pipe(p));
    PART("pipe");
    show("empty, reading end", p[0], all);
    show("empty, writing end", p[1], all);
    write(p[1], "x", 1);
    show("filled, reading end", p[0], all);
    show("no interest", p[0], 0);
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    while (write(p[1], block, 4096) > 0) {}
    show("full, writing end", p[1], all);
    close(p[1]);
    show("writer gone, with data", p[0], all);
    while (read(p[0], block, 4096) > 0) {}
    show("writer gone", p[0], all);
    close(p[0]);
    MUST(pipe(p));
    close(p[0]);
    show("reader gone", p[1], all);
    close(p[1]);
    PART("socket pair");
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    show("new", s[0], all);
    write(s[1], "x", 1);
    show("data", s[0], all);
    shutdown(s[1], SHUT_WR);
    show("shut down for writing", s[0], all);
    close(s[1]);
    show("closed", s[0], all);
    PART("others");
    put_file("f", "");
    int file = MUST(open("f", O_RDWR)), dir = MUST(open(".", O_RDONLY));
    show("file", file, all);
    show("directory", dir, all);
    show("closed number", 99, all);
    show("negative number", -1, all);
    PART("waiting");
    MUST(pipe(p));
    struct pollfd polls[3] = {{p[0], POLLIN, 0}, {-1, POLLIN, 9}, {file, POLLIN, 0}};
    T(poll(polls, 3, 1000));
    printf("%d %d %d\n", polls[0].revents, polls[1].revents, polls[2].revents);
    long long start = now_ms();
    T(poll(polls, 1, 50));
    YES(now_ms() - start >= 50);
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(50);
        write(p[1], "x", 1);
        _exit(0);
    }
    T(poll(polls, 2, -1));
    N(polls[0].revents);
    reap("child", child);
    struct timespec bad = {0, 1000000000}, zero = {0, 0};
    T(ppoll(polls, 1, &bad, NULL));
    T(ppoll(polls, 1, &zero, NULL));
    T(syscall(SYS_ppoll, polls, 1, &zero, block, 4));
    T(syscall(SYS_poll, polls, 1 << 30, 0));
    PART("select");
    fd_set in, out, ex;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&ex);
    FD_SET(p[0], &in);
    FD_SET(p[1], &out);
    FD_SET(p[0], &ex);
    struct timeval wait = {0, 30000};
    T(select(p[1] + 1, &in, &out, &ex, &wait));
    printf("%d %d %d\n", FD_ISSET(p[0], &in) != 0, FD_ISSET(p[1], &out) != 0, FD_ISSET(p[0], &ex) != 0);
    read(p[0], block, 1);
    FD_ZERO(&in);
    FD_SET(p[0], &in);
    wait = (struct timeval){0, 30000};
    T(select(p[0] + 1, &in, NULL, NULL, &wait));
    printf("%d, left %ld.%06ld\n", FD_ISSET(p[0], &in) != 0, (long)wait.tv_sec, (long)wait.tv_usec);
    // The table of descriptors grows to hold 99; beyond it, nothing is looked at.
    FD_SET(99, &in);
    MUST(dup2(p[0], 99));
    close(99);
    T(select(100, &in, NULL, NULL, &wait));
    T(select(-1, NULL, NULL, NULL, &wait));
    wait = (struct timeval){-1, 0};
    T(select(0, NULL, NULL, NULL, &wait));
    wait = (struct timeval){0, 2000000};
    T(syscall(SYS_select, 0, NULL, NULL, NULL, &(struct timeval){0, 1}));
    T(select(2000, NULL, NULL, NULL, &(struct timeval){0, 1}));
    T(pselect(0, NULL, NULL, NULL, &bad, NULL));
    PART("a signal let through by ppoll and pselect");
    sigset_t set, none;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    extern void quiet(int);
    signal(SIGUSR1, quiet);
    raise(SIGUSR1);
    T(ppoll(NULL, 0, NULL, &none));
    raise(SIGUSR1);
    T(pselect(0, NULL, NULL, NULL, NULL, &none));
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    N(sigismember(&now, SIGUSR1));
    return 0;
}
void quiet(int number) { (void)number; }

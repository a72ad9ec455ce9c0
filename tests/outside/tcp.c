// A client of the peer of tests/tests/network.rs: `tcp ADDRESS PORT CLOSED_PORT`. Run on the host and in a pod.
#include "peer.h"
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/select.h>

static int try_connect(int flags, struct sockaddr_in *to) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM | flags, 0));
    errno = 0;
    printf("connect: %s\n", connect(fd, (void *)to, sizeof *to) ? check_error(errno) : "ok");
    return fd;
}

// A connection on which the peer does what `command` tells.
static int dial(char command) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(fd, (void *)&peer, sizeof peer));
    MUST(write(fd, &command, 1));
    return fd;
}

static void all(int fd, char *to, size_t size) {
    while (size) {
        ssize_t got = MUST(read(fd, to, size));
        if (!got) {
            puts("an early end");
            return;
        }
        to += got;
        size -= got;
    }
}

static int events_of(int fd, int wanted, int timeout) {
    struct pollfd one = {fd, wanted, 0};
    MUST(poll(&one, 1, timeout));
    return one.revents;
}

static void show_events(const char *what, int events) {
    printf("%s:%s%s%s%s%s\n", what, events & POLLIN ? " IN" : "", events & POLLOUT ? " OUT" : "",
           events & POLLRDHUP ? " RDHUP" : "", events & POLLHUP ? " HUP" : "", events & POLLERR ? " ERR" : "");
}

static void connecting(void) {
    PART("connecting");
    close(try_connect(0, &closed));
    int fd = try_connect(SOCK_NONBLOCK, &peer);
    show_events("writable", events_of(fd, POLLOUT, 5000));
    int error = -1;
    socklen_t size = sizeof error;
    T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    N(error);
    T(connect(fd, (void *)&peer, sizeof peer));
    T(connect(fd, (void *)&peer, sizeof peer));
    struct sockaddr_in name;
    size = sizeof name;
    T(getpeername(fd, (void *)&name, &size));
    YES(name.sin_addr.s_addr == peer.sin_addr.s_addr && name.sin_port == peer.sin_port);
    size = sizeof name;
    T(getsockname(fd, (void *)&name, &size));
    YES(name.sin_port != 0 && name.sin_addr.s_addr != 0);
    close(fd);
    fd = try_connect(SOCK_NONBLOCK, &closed);
    show_events("refused", events_of(fd, POLLOUT | POLLIN | POLLRDHUP, 5000));
    size = sizeof error;
    T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    printf("SO_ERROR: %s\n", check_error(error));
    size = sizeof name;
    T(getpeername(fd, (void *)&name, &size));
    T(send(fd, "x", 1, MSG_NOSIGNAL));
    close(fd);
}

static void transfers(void) {
    PART("transfers");
    char buffer[64] = "";
    int fd = dial('e');
    T(send(fd, "hello world", 11, 0));
    T(recv(fd, buffer, 5, MSG_PEEK));
    all(fd, buffer, 11);
    printf("%.11s\n", buffer);
    T(recv(fd, buffer, 5, MSG_DONTWAIT));
    struct iovec parts[3] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
    T(writev(fd, parts, 3));
    T(recv(fd, buffer, 13, MSG_WAITALL));
    printf("%.13s\n", buffer);
    T(send(fd, "", 0, 0));
    T(send(fd, "more", 4, MSG_MORE));
    T(send(fd, "end", 3, 0));
    T(recv(fd, buffer, 7, MSG_WAITALL));
    T(send(fd, "discarded", 9, 0));
    T(recv(fd, NULL, 9, MSG_TRUNC | MSG_WAITALL));
    struct timeval soon = {0, 50000};
    T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    T(recv(fd, buffer, 1, 0));
    T(send(fd, "12345", 5, 0));
    show_events("readable", events_of(fd, POLLIN, 5000));
    int queued = 0;
    while (queued < 5) MUST(ioctl(fd, FIONREAD, &queued));
    N(queued);
    int copy = MUST(dup(fd));
    close(fd);
    all(copy, buffer, 5);
    CHILD("a child shares it", { MUST(write(copy, "child", 5)); exit(0); });
    all(copy, buffer, 5);
    printf("%.5s\n", buffer);
    T(shutdown(copy, SHUT_WR));
    T(read(copy, buffer, 1));
    T(send(copy, "x", 1, MSG_NOSIGNAL));
    show_events("both ended", events_of(copy, POLLIN | POLLOUT | POLLRDHUP, 1000));
    close(copy);
}

static void bulk(void) {
    PART("bulk");
    enum { SIZE = 5000000 };
    char *data = malloc(SIZE);
    int fd = dial('b');
    uint32_t size = htonl(SIZE);
    MUST(write(fd, &size, 4));
    all(fd, data, SIZE);
    int wrong = 0;
    for (int i = 0; i < SIZE; i++) wrong += data[i] != (char)(i * 7);
    N(wrong);
    T(read(fd, data, 1));
    close(fd);
    fd = dial('s');
    for (int i = 0; i < SIZE; i++) data[i] = i * 7;
    for (int at = 0; at < SIZE;) {
        int step = at % 3 ? 17 : 100000;
        at += MUST(write(fd, data + at, step < SIZE - at ? step : SIZE - at));
    }
    MUST(shutdown(fd, SHUT_WR));
    uint32_t answer[2];
    all(fd, (void *)answer, 8);
    N(ntohl(answer[0]));
    N(ntohl(answer[1]));
    close(fd);
    // Nobody reads: a non-blocking sender meets the end of the buffers, and can go on when the peer reads.
    fd = dial('w');
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    long sent = 0, got;
    do {
        while ((got = write(fd, data, 65536)) > 0) sent += got;
    } while (events_of(fd, POLLOUT, 50));
    printf("full: %s\n", check_error(errno));
    YES(sent > 65536);
    show_events("room again", events_of(fd, POLLOUT, 5000));
    close(fd);
    free(data);
}

static void ends(void) {
    PART("the peer's end");
    char buffer[16];
    int fd = dial('h');
    all(fd, buffer, 4);
    T(read(fd, buffer, 1));
    show_events("half closed", events_of(fd, POLLIN | POLLOUT | POLLRDHUP, 1000));
    T(send(fd, "ok", 2, 0));
    close(fd);
    PART("reset");
    fd = dial('r');
    show_events("reset", events_of(fd, POLLIN | POLLRDHUP, 5000));
    T(read(fd, buffer, 1));
    T(read(fd, buffer, 1));
    T(send(fd, "x", 1, MSG_NOSIGNAL));
    close(fd);
    PART("reset by us");
    fd = dial('c');
    struct linger at_once = {1, 0};
    T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    close(fd);
    fd = dial('q');
    all(fd, buffer, 1);
    printf("the peer saw: %c\n", buffer[0]);
    close(fd);
    PART("drops of a byte");
    fd = dial('d');
    T(recv(fd, buffer, 6, MSG_WAITALL));
    printf("%.6s\n", buffer);
    close(fd);
}

static void *closer(void *arg) {
    usleep(50000);
    shutdown(*(int *)arg, SHUT_RDWR);
    return NULL;
}

static void on_alarm(int number) { (void)number; }

static void waiting(void) {
    PART("waiting");
    char buffer[16];
    int fd = dial('e');
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, closer, &fd));
    T(read(fd, buffer, 1));
    pthread_join(thread, NULL);
    close(fd);
    fd = dial('e');
    struct sigaction action = {.sa_handler = on_alarm};
    MUST(sigaction(SIGALRM, &action, NULL));
    struct itimerval soon = {{0, 0}, {0, 50000}};
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    T(read(fd, buffer, 1));
    int epoll = MUST(epoll_create1(0));
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {.u32 = 7}}, got[4];
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    T(epoll_wait(epoll, got, 4, 1000));
    N(got[0].events);
    T(epoll_wait(epoll, got, 4, 50));
    MUST(write(fd, "ping", 4));
    T(epoll_wait(epoll, got, 4, 5000));
    YES(got[0].events & EPOLLIN);
    T(epoll_wait(epoll, got, 4, 50));
    all(fd, buffer, 4);
    event.events = EPOLLIN | EPOLLONESHOT;
    MUST(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event));
    MUST(write(fd, "ping", 4));
    T(epoll_wait(epoll, got, 4, 5000));
    T(epoll_wait(epoll, got, 4, 50));
    all(fd, buffer, 4);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timeval none = {0, 20000};
    T(select(fd + 1, &set, NULL, NULL, &none));
    close(epoll);
    close(fd);
}

static void options(void) {
    PART("options");
    int fd = dial('e');
    static const struct { int level, name, value; const char *text; } list[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"},         {IPPROTO_TCP, TCP_KEEPIDLE, 30, "TCP_KEEPIDLE"},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5, "TCP_KEEPINTVL"},     {IPPROTO_TCP, TCP_KEEPCNT, 3, "TCP_KEEPCNT"},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 9000, "TCP_USER_TIMEOUT"}, {IPPROTO_TCP, TCP_CORK, 1, "TCP_CORK"},
        {IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK"},               {SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"},
        {SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"},        {IPPROTO_IP, IP_TOS, 16, "IP_TOS"},
        {IPPROTO_TCP, TCP_KEEPCNT, 1000, "TCP_KEEPCNT"},
    };
    for (size_t i = 0; i < COUNT(list); i++) {
        int value = -1;
        socklen_t size = sizeof value;
        printf("%s: %s", list[i].text,
               setsockopt(fd, list[i].level, list[i].name, &list[i].value, 4) ? check_error(errno) : "set");
        getsockopt(fd, list[i].level, list[i].name, &value, &size);
        printf(", %d\n", value);
    }
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    T(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) * 0);
    N(info.tcpi_state);
    YES(info.tcpi_snd_mss > 500);
    int type = 0;
    size = sizeof type;
    T(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, &type, &size));
    close(fd);
}

int main(int count, char **arguments) {
    if (!read_peer(count, arguments)) return 2;
    connecting();
    transfers();
    bulk();
    ends();
    waiting();
    options();
    return 0;
}

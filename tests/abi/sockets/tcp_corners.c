// TCP in the corners: corks, deferred accepts, ends, self-connection, discarded bytes, ranges of options, states.
#include "check.h"
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/socket.h>
#define TCP_INQ_ 36
#include <linux/tcp.h>
#ifndef SOL_TCP
#define SOL_TCP 6
#endif

static char big[1 << 20];

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return a;
}
static struct sockaddr_in name_of(int s) {
    struct sockaddr_in a;
    socklen_t length = sizeof a;
    MUST(getsockname(s, (void *)&a, &length));
    return a;
}
static int listener(int backlog) {
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in a = loopback(0);
    MUST(bind(s, (void *)&a, sizeof a));
    if (backlog >= 0) MUST(listen(s, backlog));
    return s;
}
static int to(int s, int flags) {
    struct sockaddr_in a = name_of(s);
    int c = MUST(socket(AF_INET, SOCK_STREAM | flags, 0));
    if (connect(c, (void *)&a, sizeof a) && errno != EINPROGRESS) MUST(-1);
    return c;
}
// A connected pair: client, server.
static void pair(int p[2]) {
    int l = listener(5);
    p[0] = to(l, 0);
    p[1] = MUST(accept(l, NULL, NULL));
    close(l);
}
static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }
static int get(int s, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, level, name, &value, &length) ? -errno : value;
}
static int events(int s) {
    struct pollfd p = {s, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    poll(&p, 1, 0);
    return p.revents;
}
static int soon(int s, int wanted) {
    struct pollfd p = {s, wanted, 0};
    poll(&p, 1, 500);
    return p.revents;
}
static int state(int s) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    MUST(getsockopt(s, SOL_TCP, TCP_INFO, &info, &length));
    return info.tcpi_state;
}
static int request(int s, unsigned long what) {
    int value = -1;
    return ioctl(s, what, &value) ? -errno : value;
}

static void ranges(void) {
    static const struct {
        const char *name;
        int option;
    } options[] = {
        {"KEEPIDLE", TCP_KEEPIDLE}, {"KEEPINTVL", TCP_KEEPINTVL}, {"KEEPCNT", TCP_KEEPCNT}, {"SYNCNT", TCP_SYNCNT},
        {"LINGER2", TCP_LINGER2}, {"DEFER_ACCEPT", TCP_DEFER_ACCEPT}, {"WINDOW_CLAMP", TCP_WINDOW_CLAMP}, 
        {"NODELAY", TCP_NODELAY}, {"CORK", TCP_CORK}, {"USER_TIMEOUT", TCP_USER_TIMEOUT},
        {"THIN_LINEAR_TIMEOUTS", TCP_THIN_LINEAR_TIMEOUTS}, {"NOTSENT_LOWAT", TCP_NOTSENT_LOWAT},
        {"SAVE_SYN", TCP_SAVE_SYN}, {"QUEUE_SEQ", TCP_QUEUE_SEQ}, {"REPAIR_QUEUE", TCP_REPAIR_QUEUE},
        {"INQ", TCP_INQ_}, {"FASTOPEN_NO_COOKIE", TCP_FASTOPEN_NO_COOKIE}, {"none", 99},
    };
    static const int values[] = {-2, -1, 0, 1, 2, 30, 60, 126, 127, 128, 255, 256, 32767, 32768, 65536, INT_MAX};
    int p[2];
    for (size_t i = 0; i < COUNT(options); i++) {
        pair(p);
        printf("%s: at first %d\n", options[i].name, get(p[0], SOL_TCP, options[i].option));
        for (size_t j = 0; j < COUNT(values); j++) {
            int answer = set(p[0], SOL_TCP, options[i].option, values[j]) ? -errno : 0;
            printf(" %d: %d, now %d\n", values[j], answer, get(p[0], SOL_TCP, options[i].option));
        }
        char byte = 1;
        printf(" one byte: %s\n", setsockopt(p[0], SOL_TCP, options[i].option, &byte, 1) ? check_error(errno) : "ok");
        close(p[0]), close(p[1]);
    }
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(set(s, SOL_TCP, TCP_WINDOW_CLAMP, 0));
    N(get(s, SOL_TCP, TCP_WINDOW_CLAMP));
    T(set(s, SOL_TCP, TCP_WINDOW_CLAMP, 100));
    N(get(s, SOL_TCP, TCP_WINDOW_CLAMP));
    T(set(s, SOL_TCP, TCP_MAXSEG, 1000));
    N(get(s, SOL_TCP, TCP_MAXSEG));
    char name[32] = {0};
    socklen_t length = sizeof name;
    T(setsockopt(s, SOL_TCP, TCP_CONGESTION, "reno", 4));
    length = sizeof name;
    T(getsockopt(s, SOL_TCP, TCP_CONGESTION, name, &length));
    printf("%s %u\n", name, length);
    T(setsockopt(s, SOL_TCP, TCP_CONGESTION, "nosuch", 6));
    T(setsockopt(s, SOL_TCP, TCP_ULP, "nosuch", 6));
    length = sizeof name;
    T(getsockopt(s, SOL_TCP, TCP_ULP, name, &length));
    N(length);
    T(set(s, SOL_TCP, TCP_FASTOPEN, 5));
    N(get(s, SOL_TCP, TCP_FASTOPEN));
    T(set(s, SOL_TCP, TCP_FASTOPEN, -1));
    close(s);
}

static void corks(void) {
    int p[2];
    PART("MSG_MORE");
    pair(p);
    char data[16] = {0};
    T(send(p[0], "one", 3, MSG_MORE));
    N(request(p[0], SIOCOUTQ) == 3);
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    T(send(p[0], "two", 3, 0));
    N(soon(p[1], POLLIN));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    puts(data);
    PART("TCP_CORK");
    T(set(p[0], SOL_TCP, TCP_CORK, 1));
    T(write(p[0], "three", 5));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    N(request(p[0], SIOCOUTQNSD));
    T(write(p[0], "four", 4));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    T(set(p[0], SOL_TCP, TCP_CORK, 0));
    N(soon(p[1], POLLIN));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    N(request(p[0], SIOCOUTQNSD));
    T(set(p[0], SOL_TCP, TCP_CORK, 1));
    T(write(p[0], "nodelay", 7));
    T(set(p[0], SOL_TCP, TCP_NODELAY, 1));
    N(soon(p[1], POLLIN));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    T(write(p[0], "late", 4));
    long long start = now_ms();
    N(soon(p[1], POLLIN));
    // A corked part leaves after 200 ms.
    YES(now_ms() - start >= 100);
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    T(write(p[0], "end", 3));
    T(shutdown(p[0], SHUT_WR));
    N(soon(p[1], POLLIN));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    close(p[0]), close(p[1]);
    pair(p);
    T(set(p[0], SOL_TCP, TCP_CORK, 1));
    T(write(p[0], "closed", 6));
    close(p[0]);
    N(soon(p[1], POLLIN));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    T(recv(p[1], data, 16, MSG_DONTWAIT));
    close(p[1]);
}

static void deferred(void) {
    PART("TCP_DEFER_ACCEPT");
    int l = listener(5);
    T(set(l, SOL_TCP, TCP_DEFER_ACCEPT, 3));
    N(get(l, SOL_TCP, TCP_DEFER_ACCEPT));
    int c = to(l, 0);
    N(events(c) & POLLOUT);
    N(events(l));
    fcntl(l, F_SETFL, O_NONBLOCK);
    T(accept(l, NULL, NULL));
    T(write(c, "x", 1));
    N(soon(l, POLLIN));
    int s = OK(accept(l, NULL, NULL));
    char byte;
    T(read(s, &byte, 1));
    close(s), close(c);
    c = to(l, 0);
    close(c);
    N(soon(l, POLLIN) & POLLIN);
    close(l);
}

static void ends(void) {
    int p[2];
    char data[16];
    PART("states");
    pair(p);
    N(state(p[0])), N(state(p[1]));
    shutdown(p[0], SHUT_WR);
    N(soon(p[1], POLLIN));
    // The end of the stream is acknowledged after a while.
    for (int i = 0; i < 100 && state(p[0]) == 4; i++) sleep_ms(10);
    N(state(p[0])), N(state(p[1]));
    T(write(p[1], "still", 5));
    N(soon(p[0], POLLIN));
    T(read(p[0], data, 16));
    shutdown(p[1], SHUT_WR);
    N(soon(p[0], POLLIN));
    N(state(p[1]));
    close(p[0]), close(p[1]);
    int l = listener(5);
    N(state(l));
    T(shutdown(l, SHUT_RD));
    N(state(l));
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    N(state(s));
    T(shutdown(s, SHUT_RDWR));
    close(s), close(l);
    PART("SO_LINGER of 0");
    struct linger linger = {1, 0};
    pair(p);
    MUST(setsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    MUST(write(p[0], "lost?", 5));
    close(p[0]);
    N(soon(p[1], POLLIN));
    N(get(p[1], SOL_SOCKET, SO_ERROR));
    T(read(p[1], data, 16));
    T(write(p[1], data, 1));
    close(p[1]);
    pair(p);
    MUST(setsockopt(p[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    close(p[0]);
    N(soon(p[1], POLLIN));
    T(read(p[1], data, 16));
    T(read(p[1], data, 16));
    close(p[1]);
    PART("closed with unread bytes");
    pair(p);
    MUST(write(p[1], "unread", 6));
    soon(p[0], POLLIN);
    close(p[0]);
    N(soon(p[1], POLLIN));
    T(read(p[1], data, 16));
    T(read(p[1], data, 16));
    close(p[1]);
    PART("both ends shut");
    pair(p);
    T(shutdown(p[0], SHUT_RDWR));
    N(soon(p[1], POLLIN));
    T(send(p[0], "x", 1, MSG_NOSIGNAL));
    T(read(p[0], data, 1));
    T(send(p[1], "x", 1, MSG_NOSIGNAL));
    T(shutdown(p[0], SHUT_RD));
    close(p[0]), close(p[1]);
    PART("SHUT_RD");
    pair(p);
    T(shutdown(p[0], SHUT_RD));
    N(events(p[0]));
    T(read(p[0], data, 1));
    T(write(p[1], "late", 4));
    N(soon(p[0], POLLIN));
    T(read(p[0], data, 16));
    T(read(p[0], data, 16));
    close(p[0]), close(p[1]);
}

static void itself(void) {
    PART("a socket connected with itself");
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in a = loopback(0);
    MUST(bind(s, (void *)&a, sizeof a));
    a = name_of(s);
    T(connect(s, (void *)&a, sizeof a));
    N(state(s));
    T(write(s, "echo", 4));
    char data[16] = {0};
    N(soon(s, POLLIN));
    T(recv(s, data, 16, MSG_DONTWAIT));
    puts(data);
    T(shutdown(s, SHUT_WR));
    T(recv(s, data, 16, 0));
    N(events(s));
    close(s);
    PART("shutdown while connecting");
    int l = listener(0);
    int fill[8];
    for (int i = 0; i < 4; i++) {
        fill[i] = to(l, SOCK_NONBLOCK);
        // One after the other: each takes its place, or finds none.
        sleep_ms(100);
    }
    s = to(l, SOCK_NONBLOCK);
    N(events(s));
    N(state(s));
    a = name_of(l);
    T(connect(s, (void *)&a, sizeof a));
    T(send(s, "x", 1, MSG_NOSIGNAL));
    T(recv(s, data, 1, 0));
    T(shutdown(s, SHUT_RDWR));
    N(events(s));
    N(state(s));
    T(recv(s, data, 1, 0));
    close(s);
    for (int i = 0; i < 4; i++) close(fill[i]);
    close(l);
    PART("refused");
    l = listener(-1);
    a = name_of(l);
    s = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int first = connect(s, (void *)&a, sizeof a) ? errno : 0;
    YES(first == EINPROGRESS || first == ECONNREFUSED);
    N(soon(s, POLLOUT));
    N(get(s, SOL_SOCKET, SO_ERROR));
    N(get(s, SOL_SOCKET, SO_ERROR));
    N(events(s));
    T(recv(s, data, 1, 0));
    T(send(s, data, 1, MSG_NOSIGNAL));
    T(connect(s, (void *)&a, sizeof a));
    close(s), close(l);
}

static void received(void) {
    PART("MSG_TRUNC discards");
    int p[2];
    char data[16] = {0};
    pair(p);
    MUST(write(p[0], "0123456789", 10));
    soon(p[1], POLLIN);
    T(recv(p[1], data, 4, MSG_TRUNC));
    T(recv(p[1], NULL, 2, MSG_TRUNC));
    T(recv(p[1], data, 16, MSG_PEEK | MSG_TRUNC));
    puts(data);
    T(recv(p[1], data, 2, 0));
    puts(data);
    PART("TCP_INQ");
    T(set(p[1], SOL_TCP, TCP_INQ_, 1));
    N(get(p[1], SOL_TCP, TCP_INQ_));
    char control[64];
    for (int i = 0; i < 4; i++) {
        struct iovec io = {data, 1};
        struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = i == 1 ? 4 : sizeof control};
        if (i == 2) MUST(shutdown(p[0], SHUT_WR)), soon(p[1], POLLRDHUP);
        ssize_t got = recvmsg(p[1], &m, MSG_DONTWAIT);
        printf("%zd flags %#x control %zu", got, m.msg_flags, m.msg_controllen);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (c) printf(" level %d kind %d value %d", c->cmsg_level, c->cmsg_type, *(int *)CMSG_DATA(c));
        puts("");
    }
    PART("SO_PEEK_OFF");
    N(get(p[1], SOL_SOCKET, SO_PEEK_OFF));
    close(p[0]), close(p[1]);
    pair(p);
    MUST(write(p[0], "0123456789", 10));
    soon(p[1], POLLIN);
    T(set(p[1], SOL_SOCKET, SO_PEEK_OFF, 2));
    for (int i = 0; i < 4; i++) {
        memset(data, 0, sizeof data);
        T(recv(p[1], data, 3, MSG_PEEK | MSG_DONTWAIT));
        printf("\"%s\" offset %d\n", data, get(p[1], SOL_SOCKET, SO_PEEK_OFF));
    }
    T(recv(p[1], data, 4, 0));
    N(get(p[1], SOL_SOCKET, SO_PEEK_OFF));
    PART("time stamps");
    T(set(p[1], SOL_SOCKET, SO_TIMESTAMP, 1));
    struct timeval tv;
    T(ioctl(p[1], SIOCGSTAMP, &tv));
    T(recv(p[1], data, 1, MSG_ERRQUEUE));
    T(recv(p[1], data, 1, MSG_OOB));
    T(sendto(p[0], "x", 1, 0, (void *)&(struct sockaddr_in){AF_INET}, sizeof(struct sockaddr_in)));
    close(p[0]), close(p[1]);
}

static void distributed(void) {
    PART("SO_REUSEPORT");
    int s[3];
    struct sockaddr_in a = loopback(0);
    for (int i = 0; i < 3; i++) {
        s[i] = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        MUST(set(s[i], SOL_SOCKET, SO_REUSEPORT, 1));
        MUST(bind(s[i], (void *)&a, sizeof a));
        a = name_of(s[i]);
        MUST(listen(s[i], 100));
    }
    int c[60], each[3] = {0};
    for (int i = 0; i < 60; i++) {
        c[i] = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(c[i], (void *)&a, sizeof a));
    }
    for (int i = 0; i < 3; i++)
        for (int n; (n = accept(s[i], NULL, NULL)) >= 0; close(n)) each[i]++;
    N(each[0] + each[1] + each[2]);
    YES(each[0] > 0 && each[1] > 0 && each[2] > 0);
    for (int i = 0; i < 60; i++) close(c[i]);
    for (int i = 0; i < 3; i++) close(s[i]);
    PART("SO_REUSEADDR");
    int l = listener(5), other = MUST(socket(AF_INET, SOCK_STREAM, 0));
    a = name_of(l);
    T(bind(other, (void *)&a, sizeof a));
    MUST(set(other, SOL_SOCKET, SO_REUSEADDR, 1));
    T(bind(other, (void *)&a, sizeof a));
    int d = to(l, 0), n = MUST(accept(l, NULL, NULL));
    close(l);
    l = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(bind(l, (void *)&a, sizeof a));
    MUST(set(l, SOL_SOCKET, SO_REUSEADDR, 1));
    T(bind(l, (void *)&a, sizeof a));
    close(d), close(n), close(l), close(other);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    PART("ranges");
    ranges();
    corks();
    deferred();
    ends();
    itself();
    received();
    distributed();
    return 0;
}

// What every operation says of a TCP socket in each of its states, and what it leaves behind.
#include "inet.h"
#include <linux/sockios.h>
#include <sys/epoll.h>

enum state {
    FRESH, BOUND, LISTENING, WAITED_FOR, CONNECTED, UNREAD, PEER_UNREAD, PEER_SHUT_WRITE, PEER_SHUT_WRITE_UNREAD, SHUT_READ, SHUT_WRITE, SHUT_BOTH,
    BOTH_SHUT_WRITE, PEER_CLOSED, PEER_CLOSED_UNREAD, RESET_UNREAD, RESET, RESET_TOLD, REFUSED, LISTENER_SHUT, DISCONNECTED, STATES,
};
static const char *const names[] = {
    "fresh", "bound", "listening", "listening, a client waits", "connected", "unread", "peer has unread", "peer shut writing", "peer shut writing, unread",
    "shut reading", "shut writing", "shut both", "both shut writing", "peer closed", "peer closed, unread", "reset, unread", "reset", "reset, told", "refused",
    "listener, shut", "disconnected",
};
static int others[8], count;
static int keep(int s) { return others[count++] = s; }
static void settle(int s, int wanted) {
    struct pollfd p = {s, wanted, 0};
    poll(&p, 1, 500);
}
static int state_of(int s) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &length) ? -1 : info.tcpi_state;
}
static void unspecified(int s) {
    struct sockaddr to = {.sa_family = AF_UNSPEC};
    MUST(connect(s, &to, sizeof to));
}

static int make(enum state state) {
    int p[2], s;
    struct sockaddr_in any = in4("127.0.0.1", 0), to;
    struct linger none = {1, 0};
    switch (state) {
    case FRESH:
        return MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    case BOUND:
    case REFUSED:
        s = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        MUST(bind(s, AS(any)));
        if (state == BOUND) return s;
        to = in4("127.0.0.1", port_of(s));
        keep(s);
        s = MUST(socket(AF_INET, SOCK_STREAM, 0));
        if (connect(s, AS(to)) == 0 || errno != ECONNREFUSED) exit(97);
        fcntl(s, F_SETFL, O_NONBLOCK);
        return s;
    case LISTENING:
    case WAITED_FOR:
    case LISTENER_SHUT:
        s = listener4(3);
        fcntl(s, F_SETFL, O_NONBLOCK);
        to = in4("127.0.0.1", port_of(s));
        if (state == WAITED_FOR) MUST(connect(keep(MUST(socket(AF_INET, SOCK_STREAM, 0))), AS(to))), settle(s, POLLIN);
        if (state == LISTENER_SHUT) MUST(shutdown(s, SHUT_RD));
        return s;
    default:
        break;
    }
    tcp_pair(p);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    if (state == UNREAD || state == PEER_SHUT_WRITE_UNREAD || state == PEER_CLOSED_UNREAD || state == RESET_UNREAD)
        MUST(send(p[1], "unread", 6, 0)), settle(p[0], POLLIN);
    if (state == PEER_UNREAD) MUST(send(p[0], "unread", 6, 0)), settle(p[1], POLLIN);
    if (state == PEER_SHUT_WRITE || state == PEER_SHUT_WRITE_UNREAD) MUST(shutdown(p[1], SHUT_WR)), settle(p[0], POLLRDHUP);
    if (state == SHUT_READ) MUST(shutdown(p[0], SHUT_RD));
    if (state == SHUT_WRITE || state == BOTH_SHUT_WRITE) MUST(shutdown(p[0], SHUT_WR)), settle(p[1], POLLRDHUP);
    if (state == BOTH_SHUT_WRITE) MUST(shutdown(p[1], SHUT_WR)), settle(p[0], POLLRDHUP);
    if (state == SHUT_BOTH) MUST(shutdown(p[0], SHUT_RDWR)), settle(p[1], POLLRDHUP);
    if (state == PEER_CLOSED || state == PEER_CLOSED_UNREAD) {
        close(p[1]);
        settle(p[0], POLLRDHUP);
        return p[0];
    }
    if (state == RESET || state == RESET_UNREAD || state == RESET_TOLD) {
        MUST(setsockopt(p[1], SOL_SOCKET, SO_LINGER, &none, sizeof none));
        close(p[1]);
        settle(p[0], POLLRDHUP);
        char byte;
        if (state == RESET_TOLD) recv(p[0], &byte, 1, 0);
        return p[0];
    }
    if (state == DISCONNECTED) unspecified(p[0]);
    // The acknowledgement of an end is there before the peer answers it.
    for (int i = 0; i < 100 && state_of(p[0]) == 4; i++) sleep_ms(2);
    keep(p[1]);
    return p[0];
}

static int number;
static long queue(int s, unsigned long request) {
    number = -7;
    return ioctl(s, request, &number);
}
static long option(int s, int which) {
    number = -7;
    return getsockopt(s, SOL_SOCKET, which, &number, &(socklen_t){4});
}
static long to_listener(int s) {
    struct sockaddr_in to = in4("127.0.0.1", port_of(keep(listener4(3))));
    long result = connect(s, AS(to));
    if (result && errno == EINPROGRESS) {
        settle(s, POLLOUT);
        return 0;
    }
    return result;
}
static long address(int s, int peer) {
    struct sockaddr_in is = {0};
    socklen_t length = sizeof is;
    long result = (peer ? getpeername : getsockname)(s, (void *)&is, &length);
    number = result ? -1 : (int)(is.sin_port != 0) + 2 * (is.sin_addr.s_addr == htonl(INADDR_LOOPBACK)) + 4 * (is.sin_addr.s_addr == 0);
    return result;
}
static long undo(int s) {
    struct sockaddr to = {.sa_family = AF_UNSPEC};
    return connect(s, &to, sizeof to);
}
static long name_again(int s) {
    struct sockaddr_in any = in4("127.0.0.1", 0);
    return bind(s, AS(any));
}
static long get(int s, int flags) {
    char bytes[32];
    return recv(s, bytes, sizeof bytes, flags);
}
static long add(int s) {
    int got = accept(s, NULL, NULL);
    if (got >= 0) keep(got);
    return got < 0 ? -1 : 0;
}
static long message(int s) {
    struct sockaddr_in to = in4("127.0.0.1", 9);
    return sendto(s, "x", 1, MSG_NOSIGNAL, AS(to));
}
static long watch(int s) {
    int ep = keep(MUST(epoll_create1(0)));
    struct epoll_event e = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {0}};
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, s, &e));
    e.events = 0;
    long n = epoll_wait(ep, &e, 1, 0);
    number = (int)e.events;
    close(others[--count]);
    return n;
}
static long number_option(int s, int which, int value, int put) {
    number = value;
    return put ? setsockopt(s, IPPROTO_TCP, which, &number, 4) : getsockopt(s, IPPROTO_TCP, which, &number, &(socklen_t){4});
}

#define OPERATIONS(X) \
    X("connect", to_listener(s)) X("connect, unspecified", undo(s)) X("listen", listen(s, 0)) X("bind", name_again(s)) X("accept", add(s)) \
    X("shutdown reading", shutdown(s, 0)) X("shutdown writing", shutdown(s, 1)) X("shutdown both", shutdown(s, 2)) X("shutdown 3", shutdown(s, 3)) \
    X("peer's name", address(s, 1)) X("own name", address(s, 0)) X("send", send(s, "bytes", 5, MSG_NOSIGNAL)) X("send to", message(s)) \
    X("send nothing", send(s, "", 0, MSG_NOSIGNAL)) X("send urgent", send(s, "u", 1, MSG_OOB | MSG_NOSIGNAL)) X("receive", get(s, 0)) \
    X("peek", get(s, MSG_PEEK)) X("receive urgent", get(s, MSG_OOB)) X("receive errors", get(s, MSG_ERRQUEUE)) X("receive all", get(s, MSG_WAITALL)) \
    X("receive nothing", recv(s, NULL, 0, 0)) X("discard", recv(s, NULL, 3, MSG_TRUNC)) X("read nothing", read(s, NULL, 0)) X("write nothing", write(s, "", 0)) \
    X("SIOCINQ", queue(s, SIOCINQ)) X("SIOCOUTQ", queue(s, SIOCOUTQ)) X("SIOCOUTQNSD", queue(s, SIOCOUTQNSD)) X("SIOCATMARK", queue(s, SIOCATMARK)) \
    X("SO_ERROR", option(s, SO_ERROR)) X("SO_ACCEPTCONN", option(s, SO_ACCEPTCONN)) X("epoll", watch(s)) \
    X("TCP_FASTOPEN", number_option(s, TCP_FASTOPEN, 5, 1)) X("TCP_DEFER_ACCEPT", number_option(s, TCP_DEFER_ACCEPT, 1, 1)) \
    X("TCP_FASTOPEN_CONNECT", number_option(s, TCP_FASTOPEN_CONNECT, 1, 1)) X("TCP_WINDOW_CLAMP of 0", number_option(s, TCP_WINDOW_CLAMP, 0, 1)) \
    X("TCP_SAVED_SYN", number_option(s, TCP_SAVED_SYN, 0, 0)) X("TCP_MAXSEG", number_option(s, TCP_MAXSEG, 1000, 1)) \
    X("V6ONLY", setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, 4)) X("no such request", ioctl(s, 0x8999, &number)) X("seek", lseek(s, 0, SEEK_CUR))

static long run(int s, int operation) {
    int at = 0;
    number = -1;
#define X(what, call) if (operation == at++) return call;
    OPERATIONS(X)
#undef X
    return -1;
}
static const char *const operations[] = {
#define X(what, call) what,
    OPERATIONS(X)
#undef X
};

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int state = 0; state < STATES; state++) {
        printf("-- %s\n", names[state]);
        for (int operation = 0; operation < (int)COUNT(operations); operation++) {
            count = 0;
            int s = make(state);
            errno = 0;
            int before = state_of(s);
            long result = run(s, operation);
            int error = errno;
            struct pollfd after = {s, POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0};
            poll(&after, 1, 0);
            // Of a closed socket they are what is left of its sequence numbers.
            if (before == 7 && !strncmp(operations[operation], "SIOCOUTQ", 8)) number = 0;
            printf("%s: ", operations[operation]);
            if (result < 0) printf("%s", check_error(error));
            else printf("%ld", result);
            printf(" (%d), state %d, %#x", number, before, after.revents);
            option(s, SO_ERROR);
            printf(" error %d\n", number);
            close(s);
            while (count) close(others[--count]);
        }
    }
    return 0;
}

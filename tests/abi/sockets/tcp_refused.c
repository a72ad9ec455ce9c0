// Options of TCP that need rights, or modules, or that a peer knows: repairs, protocols above, congestion, early data, and
// sends without a copy.
#include "inet.h"
#include <linux/errqueue.h>
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#define TCP_REPAIR_ 19

static int set(int s, int name, int value) { return setsockopt(s, IPPROTO_TCP, name, &value, sizeof value); }
static int get(int s, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, IPPROTO_TCP, name, &value, &length) ? -errno : value;
}
static int state_of(int s) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    MUST(getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &length));
    return info.tcpi_state;
}
static void text(int s, int name) {
    char value[64] = {0};
    socklen_t length = sizeof value;
    if (getsockopt(s, IPPROTO_TCP, name, value, &length)) puts(check_error(errno));
    else printf("\"%s\" %u\n", value, length);
}

static void rights(void) {
    PART("without rights");
    if (getuid() == 0) MUST(setresgid(65534, 65534, 65534)), MUST(setresuid(65534, 65534, 65534));
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(set(s, TCP_REPAIR_, 1));
    T(set(s, TCP_REPAIR_, 0));
    N(get(s, TCP_REPAIR_));
    T(set(s, TCP_QUEUE_SEQ, 5));
    T(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "nosuch", 6));
    T(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "", 0));
    T(setsockopt(s, IPPROTO_TCP, TCP_ULP, "nosuch", 6));
    text(s, TCP_ULP);
    close(s);
}

static void names(void) {
    PART("congestion control");
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    text(s, TCP_CONGESTION);
    T(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "cubic\0rest", 10));
    text(s, TCP_CONGESTION);
    char value[4];
    socklen_t length = 4;
    T(getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, value, &length));
    N(length);
    T(set(s, 500, 1));
    N(get(s, 500));
    T(set(s, -1, 1));
    N(get(s, -1));
    length = -1;
    T(getsockopt(s, IPPROTO_TCP, TCP_NODELAY, value, &length));
    length = 2;
    T(getsockopt(s, IPPROTO_TCP, TCP_NODELAY, value, &length));
    N(length);
    length = 0;
    T(getsockopt(s, IPPROTO_TCP, TCP_NODELAY, value, &length));
    close(s);
}

static void early(int flags) {
    printf("-- MSG_FASTOPEN, flags %#x\n", flags);
    int l = listener4(5), s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = in4("127.0.0.1", port_of(l));
    T(send(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL | flags));
    close(s);
    s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    T(sendto(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL | flags, &none, sizeof none));
    T(sendto(s, "early", 5, MSG_FASTOPEN | MSG_NOSIGNAL | flags, AS(to)));
    struct pollfd p = {s, POLLOUT, 0};
    T(poll(&p, 1, 1000));
    N(state_of(s));
    T(sendto(s, "more", 4, MSG_FASTOPEN | MSG_NOSIGNAL | flags, AS(to)));
    T(send(s, "then", 4, MSG_NOSIGNAL));
    int c = MUST(accept(l, NULL, NULL));
    char data[32] = {0};
    struct timeval limit = {0, 100000};
    MUST(setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    T(recv(c, data, 32, MSG_WAITALL));
    puts(data);
    close(c), close(s), close(l);
    PART("refused");
    int holder = MUST(socket(AF_INET, SOCK_STREAM, 0));
    to = in4("127.0.0.1", 0);
    MUST(bind(holder, AS(to)));
    to = in4("127.0.0.1", port_of(holder));
    s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    if (!flags) T(sendto(s, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, AS(to)));
    close(s), close(holder);
}

static void early_connect(void) {
    PART("TCP_FASTOPEN_CONNECT");
    int l = listener4(5), s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = in4("127.0.0.1", port_of(l));
    T(set(s, TCP_FASTOPEN_CONNECT, 1));
    T(set(s, TCP_FASTOPEN_CONNECT, 2));
    T(set(s, TCP_FASTOPEN_CONNECT, -1));
    N(get(s, TCP_FASTOPEN_CONNECT));
    T(connect(s, AS(to)));
    N(state_of(s));
    T(set(s, TCP_FASTOPEN_CONNECT, 1));
    N(get(s, TCP_FASTOPEN_CONNECT));
    T(send(s, "data", 4, 0));
    close(s);
    T(set(l, TCP_FASTOPEN, 10));
    N(get(l, TCP_FASTOPEN));
    T(set(l, TCP_FASTOPEN, -1));
    T(set(l, TCP_FASTOPEN, 0));
    close(l);
}

static void without_copy(void) {
    PART("MSG_ZEROCOPY");
    int p[2];
    tcp_pair(p);
    static char block[20000];
    // Without SO_ZEROCOPY the flag is ignored.
    T(send(p[0], block, sizeof block, MSG_ZEROCOPY));
    T(recv(p[0], block, 1, MSG_ERRQUEUE | MSG_DONTWAIT));
    T(set_int(p[0], SOL_SOCKET, SO_ZEROCOPY, 1));
    int got = 0;
    while (got < (int)sizeof block) got += MUST(recv(p[1], block, sizeof block, 0));
    for (int i = 0; i < 3; i++) T(send(p[0], block, 10000, MSG_ZEROCOPY));
    for (got = 0; got < 30000;) got += MUST(recv(p[1], block, sizeof block, 0));
    struct pollfd wait = {p[0], 0, 0};
    T(poll(&wait, 1, 1000));
    N(wait.revents);
    unsigned first = 99, last = 0;
    for (int i = 0; i < 10; i++) {
        char control[128];
        struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(p[0], &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            sleep_ms(5);
            continue;
        }
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        struct sock_extended_err *e = (void *)CMSG_DATA(c);
        if (first == 99) printf("level %d type %d errno %u origin %d code %d flags %#x\n", c->cmsg_level, c->cmsg_type, e->ee_errno, e->ee_origin, e->ee_code, m.msg_flags);
        if (e->ee_info < first) first = e->ee_info;
        if (e->ee_data > last) last = e->ee_data;
        if (last == 2) break;
    }
    printf("sends %u to %u\n", first, last);
    wait = (struct pollfd){p[0], POLLIN, 0};
    T(poll(&wait, 1, 0));
    close(p[0]), close(p[1]);
}

static void information(void) {
    PART("TCP_INFO");
    int p[2];
    tcp_pair(p);
    MUST(send(p[0], "12345", 5, 0));
    char data[16];
    struct pollfd wait = {p[1], POLLIN, 0};
    MUST(poll(&wait, 1, 1000));
    MUST(recv(p[1], data, 16, 0));
    MUST(send(p[1], "123", 3, 0));
    wait.fd = p[0];
    MUST(poll(&wait, 1, 1000));
    struct tcp_info info;
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof info;
        memset(&info, 0, sizeof info);
        MUST(getsockopt(p[i], IPPROTO_TCP, TCP_INFO, &info, &length));
        printf("state %d ca %d retransmits %d probes %d backoff %d options %#x mss %u %u unacked %u lost %u reordering %u\n", info.tcpi_state, info.tcpi_ca_state, info.tcpi_retransmits, info.tcpi_probes, info.tcpi_backoff, info.tcpi_options & ~0x20, info.tcpi_snd_mss > 1000, info.tcpi_advmss > 1000, info.tcpi_unacked, info.tcpi_lost, info.tcpi_reordering);
    }
    for (socklen_t room = 0; room <= 104; room += 13) {
        socklen_t length = room;
        printf("room %u: %s, %u\n", room, getsockopt(p[0], IPPROTO_TCP, TCP_INFO, &info, &length) ? check_error(errno) : "ok", length);
    }
    T(setsockopt(p[0], IPPROTO_TCP, TCP_INFO, &info, sizeof info));
    close(p[0]), close(p[1]);
}

int main(void) {
    CHILD("unprivileged", rights());
    names();
    early(0);
    early(MSG_DONTWAIT);
    early_connect();
    without_copy();
    information();
    return 0;
}

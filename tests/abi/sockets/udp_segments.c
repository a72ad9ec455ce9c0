// Datagrams sent at once and received together: UDP_SEGMENT, UDP_GRO; datagrams without a checksum.
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

static char bytes[70000];

static void option(int fd, int name, const char *text, int value) {
    int now = -7;
    socklen_t len = sizeof now;
    printf("%s = %d: %s", text, value, setsockopt(fd, SOL_UDP, name, &value, sizeof value) ? check_error(errno) : "ok");
    if (getsockopt(fd, SOL_UDP, name, &now, &len))
        printf(", %s\n", check_error(errno));
    else
        printf(", now %d in %d\n", now, (int)len);
}
#define SET(fd, name, value) option(fd, name, #name, value)

static void receive(int fd) {
    char control[128];
    for (;;) {
        struct iovec io = {bytes, sizeof bytes};
        struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
        if (n < 0) {
            printf("%s\n", check_error(errno));
            return;
        }
        printf("%zd bytes", n);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            printf(", %d %d %zu: %d", c->cmsg_level, c->cmsg_type, c->cmsg_len, *(int *)CMSG_DATA(c));
        printf("\n");
    }
}

static long count(int fd) {
    long n = 0;
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) n++;
    return n;
}

static void send_segments(int fd, size_t len, int type, int size, uint32_t segment) {
    char control[CMSG_SPACE(4)] = {0};
    struct iovec io = {bytes, len};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_UDP;
    head->cmsg_type = type;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), &segment, size);
    T(sendmsg(fd, &m, 0));
}

int main(void) {
    alarm(30);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int to = MUST(socket(AF_INET, SOCK_DGRAM, 0)), from = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(bind(to, (void *)&at, len));
    MUST(getsockname(to, (void *)&at, &len));
    MUST(connect(from, (void *)&at, len));
    int room = 1 << 20;
    MUST(setsockopt(to, SOL_SOCKET, SO_RCVBUF, &room, sizeof room));

    PART("UDP_SEGMENT");
    SET(from, UDP_SEGMENT, 1000);
    T(send(from, bytes, 2500, 0));
    receive(to);
    T(send(from, bytes, 1000, 0));
    receive(to);
    T(send(from, bytes, 500, 0));
    T(send(from, bytes, 0, 0));
    receive(to);
    T(send(from, bytes, 65000, 0));
    N(count(to));
    T(send(from, bytes, 66000, 0));
    SET(from, UDP_SEGMENT, 70000);
    SET(from, UDP_SEGMENT, -1);
    SET(from, UDP_SEGMENT, 65535);
    T(send(from, bytes, 60000, 0));
    receive(to);
    SET(from, UDP_SEGMENT, 10);
    T(send(from, bytes, 640, 0));
    N(count(to));
    T(send(from, bytes, 2000, 0));
    SET(from, UDP_SEGMENT, 0);
    PART("of one message");
    send_segments(from, 1500, UDP_SEGMENT, 2, 700);
    receive(to);
    send_segments(from, 1500, UDP_SEGMENT, 4, 700);
    send_segments(from, 1500, 99, 2, 700);
    receive(to);

    PART("put together first");
    SET(from, UDP_SEGMENT, 300);
    T(send(from, bytes, 500, MSG_MORE));
    T(send(from, bytes, 200, 0));
    receive(to);

    PART("UDP_GRO");
    SET(to, UDP_GRO, 1);
    T(send(from, bytes, 650, 0));
    T(send(from, bytes, 300, 0));
    T(send(from, bytes, 100, 0));
    receive(to);
    T(send(from, bytes, 650, 0));
    struct iovec io = {bytes, 400};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    T(recvmsg(to, &m, MSG_DONTWAIT));
    N(m.msg_flags & MSG_TRUNC);
    SET(to, UDP_GRO, 0);
    T(send(from, bytes, 650, 0));
    receive(to);

    PART("without checksums");
    int on = 1;
    SET(from, UDP_NO_CHECK6_TX, 1);
    SET(from, UDP_NO_CHECK6_RX, 1);
    T(setsockopt(from, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on));
    T(send(from, bytes, 650, 0));
    T(send(from, bytes, 100, 0));
    receive(to);
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    len = sizeof at6;
    int to6 = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), from6 = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    MUST(bind(to6, (void *)&at6, len));
    MUST(getsockname(to6, (void *)&at6, &len));
    MUST(connect(from6, (void *)&at6, len));
    SET(from6, UDP_SEGMENT, 100);
    T(send(from6, bytes, 250, 0));
    receive(to6);
    SET(from6, UDP_SEGMENT, 0);
    SET(from6, UDP_NO_CHECK6_TX, 1);
    T(send(from6, bytes, 10, 0));
    usleep(20000);
    receive(to6);
    SET(to6, UDP_NO_CHECK6_RX, 1);
    T(send(from6, bytes, 11, 0));
    receive(to6);
    return 0;
}

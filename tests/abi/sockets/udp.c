// UDP over the loopback device.
#include "inet.h"

static int bound(const char *address) {
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in at = in4(address, 0);
    MUST(bind(fd, AS(at)));
    return fd;
}

int main(void) {
    PART("fresh sockets");
    int a = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    T(poll_now(a, 0));
    show_name("own", a, 0);
    show_name("peer", a, 1);
    T(send(a, "x", 1, 0));
    T(shutdown(a, SHUT_RDWR));
    T(listen(a, 1));
    T(accept(a, NULL, NULL));
    RECEIVE(a, 10, MSG_DONTWAIT);
    close(a);

    PART("datagrams");
    a = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int b = bound("127.0.0.1");
    struct sockaddr_in to = in4("127.0.0.1", port_of(b)), from;
    socklen_t len = sizeof from;
    char buffer[100] = {0};
    T(sendto(a, "one", 3, 0, AS(to)));
    show_name("own after sending", a, 0);
    T(sendto(a, "", 0, 0, AS(to)));
    T(sendto(a, "three!", 6, 0, AS(to)));
    T(poll_now(b, 1000));
    int n = 0;
    T(ioctl(b, FIONREAD, &n));
    N(n);
    T(recvfrom(b, buffer, 100, MSG_PEEK, (struct sockaddr *)&from, &len));
    show_address("from", &from, len);
    YES(ntohs(from.sin_port) == port_of(a));
    RECEIVE(b, 2, MSG_TRUNC);
    T(ioctl(b, FIONREAD, &n));
    N(n);
    RECEIVE(b, 100, 0);
    struct iovec part = {buffer, 3};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
    T(recvmsg(b, &message, 0));
    N(message.msg_flags & MSG_TRUNC);
    N(message.msg_namelen);
    N(message.msg_controllen);
    RECEIVE(b, 100, MSG_DONTWAIT);
    T(sendto(b, "back", 4, 0, (struct sockaddr *)&from, sizeof from));
    RECEIVE(a, 100, 0);
    T(sendto(a, "oob", 3, MSG_OOB, AS(to)));

    PART("bad calls");
    struct sockaddr_in zero = in4("127.0.0.1", 0);
    struct sockaddr_in6 six = in6("::1", 9);
    static char large[70000];
    T(sendto(a, "x", 1, 0, AS(zero)));
    T(sendto(a, "x", 1, 0, AS(six)));
    T(sendto(a, "x", 1, 0, (struct sockaddr *)&to, 8));
    T(sendto(a, large, 65508, 0, AS(to)));
    T(sendto(a, large, 65507, 0, AS(to)));
    T(sendto(a, large, 70000, 0, AS(to)));
    T(recv(b, large, sizeof large, 0));
    T(sendto(a, BAD, 10, 0, AS(to)));
    T(recv(b, large, sizeof large, MSG_DONTWAIT));
    struct sockaddr_in loose = to;
    loose.sin_family = AF_UNSPEC;
    T(sendto(a, "unspec", 6, 0, AS(loose)));
    RECEIVE(b, 10, 0);
    struct sockaddr_in all = in4("127.255.255.255", port_of(b));
    T(sendto(a, "x", 1, 0, AS(all)));
    T(connect(a, AS(all)));

    PART("connected");
    T(connect(a, AS(to)));
    show_name("own", a, 0);
    show_name("peer", a, 1);
    T(send(a, "connected", 9, 0));
    len = sizeof from;
    T(recvfrom(b, buffer, 100, 0, (struct sockaddr *)&from, &len));
    int c = bound("127.0.0.1");
    struct sockaddr_in to_a = in4("127.0.0.1", port_of(a)), to_c = in4("127.0.0.1", port_of(c));
    T(sendto(c, "stranger", 8, 0, AS(to_a)));
    RECEIVE(a, 100, MSG_DONTWAIT);
    T(sendto(b, "friend", 6, 0, AS(to_a)));
    RECEIVE(a, 100, 0);
    T(sendto(a, "elsewhere", 9, 0, AS(to_c)));
    RECEIVE(c, 100, 0);
    T(connect(a, AS(to_c)));
    T(write(a, "reconnected", 11));
    RECEIVE(c, 100, 0);
    struct sockaddr none = {AF_UNSPEC, {0}};
    T(connect(a, &none, sizeof none));
    show_name("peer", a, 1);
    T(send(a, "x", 1, 0));

    PART("nobody there");
    close(c);
    T(connect(a, AS(to_c)));
    T(send(a, "x", 1, 0));
    sleep_ms(20);
    T(poll_now(a, 0));
    T(send(a, "x", 1, 0));
    T(send(a, "x", 1, 0));
    sleep_ms(20);
    RECEIVE(a, 10, 0);
    T(send(a, "x", 1, 0));
    sleep_ms(20);
    T(int_option(a, SOL_SOCKET, SO_ERROR));
    T(int_option(a, SOL_SOCKET, SO_ERROR));
    T(connect(a, &none, sizeof none));
    T(sendto(a, "x", 1, 0, AS(to_c)));
    sleep_ms(20);
    T(poll_now(a, 0));

    PART("shut down");
    T(connect(a, AS(to)));
    T(shutdown(a, SHUT_WR));
    T(send(a, "x", 1, 0));
    T(poll_now(a, 0));
    T(shutdown(a, SHUT_RD));
    T(poll_now(a, 0));
    RECEIVE(a, 10, 0);
    RECEIVE(a, 10, MSG_DONTWAIT);
    close(a);

    PART("put together");
    a = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(connect(a, AS(to)));
    T(send(a, "first ", 6, MSG_MORE));
    T(send(a, "second ", 7, MSG_MORE));
    T(send(a, "third", 5, 0));
    RECEIVE(b, 100, 0);
    T(set_int(a, IPPROTO_UDP, 1, 1));
    T(send(a, "cork ", 5, 0));
    T(send(a, "age", 3, 0));
    RECEIVE(b, 100, MSG_DONTWAIT);
    T(set_int(a, IPPROTO_UDP, 1, 0));
    RECEIVE(b, 100, 0);

    PART("several at once");
    struct iovec parts[3] = {{"aa", 2}, {"bbb", 3}, {"c", 1}};
    struct mmsghdr many[3] = {0};
    for (int i = 0; i < 3; i++) many[i].msg_hdr.msg_iov = &parts[i], many[i].msg_hdr.msg_iovlen = 1;
    T(sendmmsg(a, many, 3, 0));
    N(many[1].msg_len);
    char texts[4][10] = {{0}};
    struct iovec rooms[4];
    struct mmsghdr got[4] = {0};
    for (int i = 0; i < 4; i++) {
        rooms[i] = (struct iovec){texts[i], 10};
        got[i].msg_hdr.msg_iov = &rooms[i], got[i].msg_hdr.msg_iovlen = 1;
    }
    T(recvmmsg(b, got, 4, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 3; i++) printf("%u %s\n", got[i].msg_len, texts[i]);
    T(recvmmsg(b, got, 4, MSG_DONTWAIT, NULL));
    struct timeval soon = {0, 20000};
    T(setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    RECEIVE(b, 10, 0);

    PART("the queue is full");
    T(set_int(b, SOL_SOCKET, SO_RCVBUF, 5000));
    T(int_option(b, SOL_SOCKET, SO_RCVBUF));
    int sent = 0, kept = 0;
    for (int i = 0; i < 200; i++) sent += send(a, "0123456789", 10, 0) == 10;
    while (recv(b, buffer, 100, MSG_DONTWAIT) > 0) kept++;
    N(sent);
    YES(kept > 2 && kept < 40);
    PART("broadcasts");
    T(set_int(a, SOL_SOCKET, SO_BROADCAST, 1));
    int any = bound("0.0.0.0");
    all.sin_port = htons(port_of(any));
    T(sendto(a, "all", 3, 0, AS(all)));
    RECEIVE(any, 10, 0);
    return 0;
}

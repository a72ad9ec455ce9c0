// Control data of datagrams: addresses, hops, time stamps, errors.
#include "inet.h"
#include <linux/errqueue.h>

static void show_control(struct msghdr *message) {
    for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one)) {
        printf("level %d, kind %d, %zu bytes", one->cmsg_level, one->cmsg_type, (size_t)one->cmsg_len);
        unsigned char *data = CMSG_DATA(one);
        if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo *info = (void *)data;
            char local[20], to[20];
            inet_ntop(AF_INET, &info->ipi_spec_dst, local, sizeof local);
            inet_ntop(AF_INET, &info->ipi_addr, to, sizeof to);
            printf(": device %d, %s, %s", info->ipi_ifindex, local, to);
        } else if (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo *info = (void *)data;
            char to[50];
            inet_ntop(AF_INET6, &info->ipi6_addr, to, sizeof to);
            printf(": device %d, %s", info->ipi6_ifindex, to);
        } else if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_RECVERR) {
            struct sock_extended_err *error = (void *)data;
            printf(": %s, %d %d %d", check_error(error->ee_errno), error->ee_origin, error->ee_type, error->ee_code);
        } else if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS) {
            printf(": %d", data[0]);
        } else if (one->cmsg_level != SOL_SOCKET && one->cmsg_len == CMSG_LEN(4)) {
            printf(": %d", *(int *)data);
        } else if (one->cmsg_level == SOL_SOCKET) {
            struct timeval *at = (void *)data;
            printf(": %s", llabs((long long)at->tv_sec - (long long)time(NULL)) < 10 ? "now" : "another time");
        }
        printf("\n");
    }
}

static void receive(int fd, int flags, size_t room) {
    char text[50] = {0}, control[512];
    struct sockaddr_storage from;
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof from,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = room};
    ssize_t got = recvmsg(fd, &message, flags);
    if (got < 0) {
        printf("recvmsg: %s\n", check_error(errno));
        return;
    }
    printf("recvmsg: %zd \"%s\", flags %#x, control %zu\n", got, text, message.msg_flags, (size_t)message.msg_controllen);
    show_address("from", &from, message.msg_namelen);
    show_control(&message);
}

static void send_with(int fd, const void *to, socklen_t to_len, int level, int kind, const void *data, size_t len) {
    char control[128] = {0};
    struct iovec part = {"controlled", 10};
    struct msghdr message = {.msg_name = (void *)to, .msg_namelen = to_len, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = CMSG_SPACE(len)};
    struct cmsghdr *one = CMSG_FIRSTHDR(&message);
    one->cmsg_level = level;
    one->cmsg_type = kind;
    one->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(one), data, len);
    T(sendmsg(fd, &message, 0));
}

int main(void) {
    PART("IPv4");
    int a = MUST(socket(AF_INET, SOCK_DGRAM, 0)), b = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in any = in4("0.0.0.0", 0);
    MUST(bind(b, AS(any)));
    struct sockaddr_in to = in4("127.0.0.5", port_of(b));
    T(set_int(b, IPPROTO_IP, IP_PKTINFO, 1));
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, 512);
    T(set_int(b, IPPROTO_IP, IP_RECVTTL, 1));
    T(set_int(b, IPPROTO_IP, IP_RECVTOS, 1));
    T(set_int(a, IPPROTO_IP, IP_TTL, 77));
    T(set_int(a, IPPROTO_IP, IP_TOS, 0x10));
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, 512);
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, 0);
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, CMSG_SPACE(sizeof(struct in_pktinfo)));
    T(set_int(b, IPPROTO_IP, IP_PKTINFO, 0));
    T(set_int(b, IPPROTO_IP, IP_RECVTOS, 0));
    int ttl = 5, tos = 8;
    send_with(a, AS(to), IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
    receive(b, 0, 512);
    T(set_int(b, IPPROTO_IP, IP_RECVTTL, 0));
    T(set_int(b, IPPROTO_IP, IP_RECVTOS, 1));
    send_with(a, AS(to), IPPROTO_IP, IP_TOS, &tos, sizeof tos);
    receive(b, 0, 512);
    T(set_int(b, IPPROTO_IP, IP_RECVTOS, 0));
    struct in_pktinfo info = {.ipi_spec_dst = {htonl(0x7f000009)}};
    send_with(a, AS(to), IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    receive(b, 0, 512);
    ttl = 0;
    send_with(a, AS(to), IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
    send_with(a, AS(to), IPPROTO_IP, 99, &ttl, sizeof ttl);
    T(set_int(b, IPPROTO_IP, IP_RECVORIGDSTADDR, 1));
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, 512);
    T(set_int(b, IPPROTO_IP, IP_RECVORIGDSTADDR, 0));
    T(set_int(b, SOL_SOCKET, SO_TIMESTAMP, 1));
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, 512);
    T(set_int(b, SOL_SOCKET, SO_TIMESTAMPNS, 1));
    T(int_option(b, SOL_SOCKET, SO_TIMESTAMPNS));
    T(sendto(a, "x", 1, 0, AS(to)));
    receive(b, 0, 512);

    PART("errors");
    close(b);
    T(set_int(a, IPPROTO_IP, IP_RECVERR, 1));
    T(sendto(a, "lost", 4, 0, AS(to)));
    sleep_ms(20);
    T(poll_now(a, 0));
    receive(a, MSG_ERRQUEUE, 512);
    receive(a, MSG_ERRQUEUE, 512);
    T(int_option(a, SOL_SOCKET, SO_ERROR));
    T(poll_now(a, 0));
    close(a);

    PART("IPv6");
    a = MUST(socket(AF_INET6, SOCK_DGRAM, 0)), b = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    struct sockaddr_in6 any6 = in6("::", 0);
    MUST(bind(b, AS(any6)));
    struct sockaddr_in6 to6 = in6("::1", port_of(b)), mapped = in6("::ffff:127.0.0.3", port_of(b));
    T(set_int(b, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
    T(set_int(b, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1));
    T(set_int(b, IPPROTO_IPV6, IPV6_RECVTCLASS, 1));
    T(set_int(a, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9));
    T(set_int(a, IPPROTO_IPV6, IPV6_TCLASS, 4));
    T(sendto(a, "six", 3, 0, AS(to6)));
    receive(b, 0, 512);
    ttl = 3;
    send_with(a, AS(to6), IPPROTO_IPV6, IPV6_HOPLIMIT, &ttl, sizeof ttl);
    receive(b, 0, 512);
    close(a);
    a = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    T(sendto(a, "mapped", 6, 0, AS(mapped)));
    receive(b, 0, 512);
    struct sockaddr_in plain = in4("127.0.0.1", port_of(b));
    T(sendto(a, "plain", 5, 0, AS(plain)));
    receive(b, 0, 512);
    return 0;
}

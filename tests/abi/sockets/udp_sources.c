// Source addresses that control data chooses, and answers from the address that a datagram came to.
#include "inet.h"

static char text[64];

// Sends with a source address, or without.
static void send_from(int fd, const struct sockaddr *to, socklen_t len, const char *source) {
    char control[128] = {0};
    struct iovec part = {"from", 4};
    struct msghdr message = {.msg_name = (void *)to, .msg_namelen = len, .msg_iov = &part, .msg_iovlen = 1};
    if (source) {
        int six = strchr(source, ':') != NULL;
        message.msg_control = control;
        message.msg_controllen = six ? CMSG_SPACE(sizeof(struct in6_pktinfo)) : CMSG_SPACE(sizeof(struct in_pktinfo));
        struct cmsghdr *one = CMSG_FIRSTHDR(&message);
        one->cmsg_level = six ? IPPROTO_IPV6 : IPPROTO_IP;
        one->cmsg_type = six ? IPV6_PKTINFO : IP_PKTINFO;
        one->cmsg_len = six ? CMSG_LEN(sizeof(struct in6_pktinfo)) : CMSG_LEN(sizeof(struct in_pktinfo));
        if (six) {
            struct in6_pktinfo info = {0};
            inet_pton(AF_INET6, source, &info.ipi6_addr);
            memcpy(CMSG_DATA(one), &info, sizeof info);
        } else {
            struct in_pktinfo info = {0};
            inet_pton(AF_INET, source, &info.ipi_spec_dst);
            memcpy(CMSG_DATA(one), &info, sizeof info);
        }
    }
    printf("from %s: ", source ? source : "any");
    T(sendmsg(fd, &message, 0));
}

// Receives, prints the addresses, and returns them.
static void receive(int fd, struct sockaddr_storage *from, socklen_t *len, char *to) {
    char control[256];
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_name = from, .msg_namelen = sizeof *from, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    if (got < 0) {
        printf("received: %s\n", check_error(errno));
        return;
    }
    char name[50];
    struct sockaddr_in6 *six = (void *)from;
    struct sockaddr_in *four = (void *)from;
    if (from->ss_family == AF_INET6) inet_ntop(AF_INET6, &six->sin6_addr, name, sizeof name);
    else inet_ntop(AF_INET, &four->sin_addr, name, sizeof name);
    *len = message.msg_namelen;
    printf("received %zd of %s", got, name);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo *info = (void *)CMSG_DATA(one);
            inet_ntop(AF_INET, &info->ipi_addr, to, 50);
            printf(", device %d, to %s", info->ipi_ifindex, to);
        } else if (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo *info = (void *)CMSG_DATA(one);
            inet_ntop(AF_INET6, &info->ipi6_addr, to, 50);
            printf(", device %d, to %s", info->ipi6_ifindex, to);
        } else {
            printf(", level %d kind %d", one->cmsg_level, one->cmsg_type);
        }
    }
    puts("");
}

static int bound(int family, const char *address) {
    int s = MUST(socket(family, SOCK_DGRAM, 0));
    struct sockaddr_in four = in4(family == AF_INET ? address : "0.0.0.0", 0);
    struct sockaddr_in6 six = in6(family == AF_INET6 ? address : "::", 0);
    if (family == AF_INET) MUST(bind(s, AS(four)));
    else MUST(bind(s, AS(six)));
    if (family == AF_INET) MUST(set_int(s, IPPROTO_IP, IP_PKTINFO, 1));
    else MUST(set_int(s, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
    return s;
}

int main(void) {
    struct sockaddr_storage from, other;
    socklen_t len, other_len;
    char to[50];
    PART("a server that answers from the address that it was asked at");
    int server = bound(AF_INET, "0.0.0.0"), client = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in at = in4("127.0.0.5", port_of(server));
    MUST(connect(client, AS(at)));
    for (int i = 0; i < 3; i++) {
        T(send(client, "ask", 3, 0));
        receive(server, &from, &len, to);
        send_from(server, (void *)&from, len, to);
        T(recv(client, text, sizeof text, MSG_DONTWAIT));
    }
    // From another address the connected client does not take it.
    send_from(server, (void *)&from, len, "127.0.0.6");
    T(recv(client, text, sizeof text, MSG_DONTWAIT));
    close(client);

    PART("sources");
    client = bound(AF_INET, "0.0.0.0");
    static const char *const sources[] = {"127.0.0.9", NULL, "127.0.0.9", "127.0.0.10", "0.0.0.0"};
    for (size_t i = 0; i < COUNT(sources); i++) {
        send_from(client, AS(at), sources[i]);
        receive(server, &from, &len, to);
        T(sendto(server, "answer", 6, 0, (void *)&from, len));
        receive(client, &other, &other_len, to);
        receive(client, &other, &other_len, to);
    }
    close(client);
    PART("of a bound and of a connected socket");
    client = bound(AF_INET, "127.0.0.3");
    send_from(client, AS(at), "127.0.0.9");
    receive(server, &from, &len, to);
    send_from(client, AS(at), "127.0.0.3");
    receive(server, &from, &len, to);
    MUST(connect(client, AS(at)));
    send_from(client, NULL, 0, "127.0.0.9");
    receive(server, &from, &len, to);
    send_from(client, NULL, 0, NULL);
    receive(server, &from, &len, to);
    close(client);
    close(server);

    PART("IPv6");
    server = bound(AF_INET6, "::");
    client = bound(AF_INET6, "::");
    struct sockaddr_in6 at6 = in6("::1", port_of(server)), mapped = in6("::ffff:127.0.0.5", port_of(server));
    static const char *const sources6[] = {"::1", NULL, "2001:db8::1", "::"};
    for (size_t i = 0; i < COUNT(sources6); i++) {
        send_from(client, AS(at6), sources6[i]);
        receive(server, &from, &len, to);
    }
    send_from(client, AS(mapped), "::ffff:127.0.0.9");
    receive(server, &from, &len, to);
    send_from(server, (void *)&from, len, NULL);
    receive(client, &from, &len, to);
    send_from(client, AS(mapped), NULL);
    receive(server, &from, &len, to);
    return 0;
}

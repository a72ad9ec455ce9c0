// Options of internet sockets: which there are, what they start with, what they keep.
#include "inet.h"
#include <linux/ip.h>

static void show(int fd, const char *what, int level, int name) {
    int value = -77;
    socklen_t len = sizeof value;
    if (getsockopt(fd, level, name, &value, &len) == -1)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: %d (%u bytes)\n", what, value, len);
}
#define SHOW(fd, level, name) show(fd, #name, level, name)
#define SET(fd, level, name, value)                                                                                    \
    do {                                                                                                               \
        printf("%s = %d: %s, ", #name, value, set_int(fd, level, name, value) ? check_error(errno) : "ok");            \
        show(fd, "is", level, name);                                                                                   \
    } while (0)

static void both(int fd) {
    SHOW(fd, SOL_SOCKET, SO_TYPE);
    SHOW(fd, SOL_SOCKET, SO_DOMAIN);
    SHOW(fd, SOL_SOCKET, SO_PROTOCOL);
    SHOW(fd, SOL_SOCKET, SO_ERROR);
    SHOW(fd, SOL_SOCKET, SO_ACCEPTCONN);
    SET(fd, SOL_SOCKET, SO_REUSEADDR, 5);
    SET(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    SET(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    SET(fd, SOL_SOCKET, SO_BROADCAST, 1);
    SET(fd, SOL_SOCKET, SO_OOBINLINE, 1);
    SET(fd, SOL_SOCKET, SO_DONTROUTE, 1);
    SET(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
    SET(fd, SOL_SOCKET, SO_SNDBUF, 30000);
    SET(fd, SOL_SOCKET, SO_RCVBUF, 30000);
    SET(fd, SOL_SOCKET, SO_SNDBUF, 1);
    SET(fd, SOL_SOCKET, SO_RCVBUF, 1);
    SET(fd, SOL_SOCKET, SO_RCVLOWAT, 0);
    SET(fd, SOL_SOCKET, SO_SNDLOWAT, 5);
    SET(fd, SOL_SOCKET, SO_TYPE, 1);
    SET(fd, SOL_SOCKET, SO_ERROR, 1);
    SET(fd, SOL_SOCKET, SO_PRIORITY, 3);
    SET(fd, SOL_SOCKET, 9999, 3);
    T(set_int(fd, 9999, 1, 3));
    struct linger linger = {5, 7};
    socklen_t len = sizeof linger;
    T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    memset(&linger, 0, sizeof linger);
    T(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
    N(linger.l_onoff);
    N(linger.l_linger);
    T(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4));
    struct timeval time = {3, 500000};
    T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    time.tv_usec = 1000000;
    T(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    len = sizeof time;
    T(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &len));
    N(time.tv_sec);
    N(time.tv_usec);
    T(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &len, 3));
    T(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, BAD, 4));
    T(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &len, -1));
    len = -1;
    T(getsockopt(fd, SOL_SOCKET, SO_TYPE, &time, &len));
    len = 2;
    T(getsockopt(fd, SOL_SOCKET, SO_TYPE, &time, &len));
    N(len);
    struct { int pid; unsigned uid, gid; } peer;
    len = sizeof peer;
    T(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len));
    N(peer.pid);
    N((int)peer.uid);
    T(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "none", 4));
    T(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    char name[16] = "";
    len = sizeof name;
    T(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len));
    printf("%s, %u\n", name, len);
    SET(fd, IPPROTO_IP, IP_TTL, 0);
    SHOW(fd, IPPROTO_IP, IP_TTL);
    SET(fd, IPPROTO_IP, IP_TTL, 9);
    SET(fd, IPPROTO_IP, IP_TTL, -1);
    SET(fd, IPPROTO_IP, IP_TTL, 256);
    SET(fd, IPPROTO_IP, IP_TOS, 16);
    SHOW(fd, IPPROTO_IP, IP_MULTICAST_TTL);
    SHOW(fd, IPPROTO_IP, IP_MULTICAST_LOOP);
    SHOW(fd, IPPROTO_IP, IP_MTU);
    SET(fd, IPPROTO_IP, IP_RECVERR, 1);
    SET(fd, IPPROTO_IP, IP_PKTINFO, 1);
    SET(fd, IPPROTO_IP, IP_FREEBIND, 1);
    SET(fd, IPPROTO_IP, IP_MTU_DISCOVER, 2);
    SET(fd, IPPROTO_IP, IP_MTU_DISCOVER, 77);
}

int main(void) {
    PART("TCP");
    int tcp = MUST(socket(AF_INET, SOCK_STREAM, 0));
    SHOW(tcp, SOL_SOCKET, SO_RCVLOWAT);
    SHOW(tcp, SOL_SOCKET, SO_SNDLOWAT);
    both(tcp);
    SHOW(tcp, IPPROTO_TCP, TCP_MAXSEG);
    SET(tcp, IPPROTO_TCP, TCP_NODELAY, 7);
    SET(tcp, IPPROTO_TCP, TCP_CORK, 1);
    SET(tcp, IPPROTO_TCP, TCP_KEEPIDLE, 100);
    SET(tcp, IPPROTO_TCP, TCP_KEEPIDLE, 0);
    SET(tcp, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    SET(tcp, IPPROTO_TCP, TCP_KEEPINTVL, 32768);
    SET(tcp, IPPROTO_TCP, TCP_KEEPCNT, 5);
    SET(tcp, IPPROTO_TCP, TCP_KEEPCNT, 128);
    SET(tcp, IPPROTO_TCP, TCP_SYNCNT, 3);
    SET(tcp, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
    SET(tcp, IPPROTO_TCP, TCP_USER_TIMEOUT, 3000);
    SET(tcp, IPPROTO_TCP, TCP_USER_TIMEOUT, -1);
    SHOW(tcp, IPPROTO_TCP, TCP_LINGER2);
    SET(tcp, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384);
    SET(tcp, IPPROTO_TCP, 250, 1);
    char name[16];
    socklen_t len = sizeof name;
    T(setsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, "nothing", 7));
    T(setsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    T(getsockopt(tcp, IPPROTO_TCP, TCP_CONGESTION, name, &len));
    printf("%s %u\n", name, len);
    T(set_int(tcp, IPPROTO_IPV6, IPV6_V6ONLY, 1));
    T(set_int(tcp, IPPROTO_UDP, 1, 1));

    PART("UDP");
    int udp = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    both(udp);
    T(set_int(udp, IPPROTO_TCP, TCP_NODELAY, 1));
    SET(udp, IPPROTO_UDP, 1, 1);

    PART("IPv6");
    int six = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    SHOW(six, SOL_SOCKET, SO_DOMAIN);
    SET(six, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    SET(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 7);
    SET(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS, -1);
    SET(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 256);
    SET(six, IPPROTO_IPV6, IPV6_TCLASS, 7);
    SET(six, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    SET(six, IPPROTO_IPV6, IPV6_MTU_DISCOVER, 1);
    SHOW(six, IPPROTO_IPV6, IPV6_MTU);
    SET(six, IPPROTO_IP, IP_TTL, 7);
    SET(six, IPPROTO_IPV6, 250, 7);
    SET(six, IPPROTO_TCP, TCP_NODELAY, 1);

    PART("what a connection inherits");
    int server = listener4(3);
    MUST(set_int(server, IPPROTO_TCP, TCP_NODELAY, 1));
    MUST(set_int(server, SOL_SOCKET, SO_KEEPALIVE, 1));
    MUST(set_int(server, SOL_SOCKET, SO_RCVBUF, 20000));
    MUST(set_int(server, IPPROTO_IP, IP_TOS, 8));
    struct sockaddr_in to = in4("127.0.0.1", port_of(server));
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, AS(to)));
    int end = MUST(accept(server, NULL, NULL));
    SHOW(end, IPPROTO_TCP, TCP_NODELAY);
    SHOW(end, SOL_SOCKET, SO_KEEPALIVE);
    SHOW(end, SOL_SOCKET, SO_RCVBUF);
    SHOW(end, SOL_SOCKET, SO_REUSEADDR);
    SHOW(end, IPPROTO_IP, IP_TOS);
    SHOW(end, IPPROTO_IP, IP_MTU);
    struct tcp_info info;
    len = sizeof info;
    T(getsockopt(end, IPPROTO_TCP, TCP_INFO, &info, &len));
    N(info.tcpi_state);
    N(info.tcpi_ca_state);
    len = sizeof info;
    T(getsockopt(server, IPPROTO_TCP, TCP_INFO, &info, &len));
    N(info.tcpi_state);
    N(info.tcpi_sacked);
    close(client);
    sleep_ms(20);
    len = 8;
    T(getsockopt(end, IPPROTO_TCP, TCP_INFO, &info, &len));
    N(len);
    N(info.tcpi_state);
    return 0;
}

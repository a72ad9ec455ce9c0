// Sources of multicast memberships.
#include "../check.h"
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#define G "239.1.2.3"
static struct ip_mreq_source src(const char *g, const char *i, const char *s) {
    struct ip_mreq_source r; r.imr_multiaddr.s_addr = inet_addr(g); r.imr_interface.s_addr = inet_addr(i); r.imr_sourceaddr.s_addr = inet_addr(s); return r;
}
static struct group_source_req gsrc(const char *g, int i, const char *s) {
    struct group_source_req r; memset(&r, 0, sizeof r); r.gsr_interface = i;
    struct sockaddr_in *a = (void *)&r.gsr_group, *b = (void *)&r.gsr_source;
    a->sin_family = b->sin_family = AF_INET; a->sin_addr.s_addr = inet_addr(g); b->sin_addr.s_addr = inet_addr(s); return r;
}
static struct group_source_req gsrc6(const char *g, int i, const char *s) {
    struct group_source_req r; memset(&r, 0, sizeof r); r.gsr_interface = i;
    struct sockaddr_in6 *a = (void *)&r.gsr_group, *b = (void *)&r.gsr_source;
    a->sin6_family = b->sin6_family = AF_INET6; inet_pton(AF_INET6, g, &a->sin6_addr); inet_pton(AF_INET6, s, &b->sin6_addr); return r;
}
static int port, out, out2;
static int fresh(void) {
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)); int one = 1;
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)}; 
    MUST(bind(fd, (void *)&at, sizeof at));
    if (!port) { socklen_t len = sizeof at; getsockname(fd, (void *)&at, &len); port = ntohs(at.sin_port); }
    int off = 0;
    MUST(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
    return fd;
}
static void heard(int fd) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr(G)};
    char buffer[10];
    MUST(sendto(out, "1", 1, 0, (void *)&to, sizeof to));
    MUST(sendto(out2, "2", 1, 0, (void *)&to, sizeof to));
    // What was sent before it has arrived when it does.
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(sendto(out, ".", 1, 0, (void *)&to, sizeof to));
    printf("   hears:");
    while (recv(fd, buffer, sizeof buffer, 0) == 1 && buffer[0] != '.') printf(" %c", buffer[0]);
    printf("\n");
}

static int sender(const char *from) {
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(from)};
    MUST(bind(fd, (void *)&at, sizeof at));
    struct in_addr lo = {inet_addr("127.0.0.1")};
    MUST(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof lo));
    return fd;
}
#define SET(fd, name, value) OK(setsockopt(fd, IPPROTO_IP, name, &value, sizeof value))
int main(void) {
    // On one processor what is sent stays in order.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    int fd = fresh();
    out = sender("127.0.0.1"); out2 = sender("127.0.0.2");
    struct ip_mreq_source s1 = src(G, "127.0.0.1", "127.0.0.1"), s2 = src(G, "127.0.0.1", "127.0.0.2"), bad;
    struct ip_mreq any = {{inet_addr(G)}, {inet_addr("127.0.0.1")}};
    PART("one source"); heard(fd);
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, s1); heard(fd);
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, s1);
    SET(fd, IP_BLOCK_SOURCE, s1);
    SET(fd, IP_UNBLOCK_SOURCE, s1);
    SET(fd, IP_ADD_MEMBERSHIP, any); heard(fd);
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, s2); heard(fd);
    SET(fd, IP_DROP_SOURCE_MEMBERSHIP, s1); heard(fd);
    SET(fd, IP_DROP_SOURCE_MEMBERSHIP, s1);
    SET(fd, IP_DROP_SOURCE_MEMBERSHIP, s2); heard(fd);
    SET(fd, IP_DROP_SOURCE_MEMBERSHIP, s2);
    SET(fd, IP_DROP_MEMBERSHIP, any);
    PART("all but one");
    SET(fd, IP_BLOCK_SOURCE, s1);
    SET(fd, IP_ADD_MEMBERSHIP, any); heard(fd);
    SET(fd, IP_UNBLOCK_SOURCE, s1);
    SET(fd, IP_BLOCK_SOURCE, s1); heard(fd);
    SET(fd, IP_BLOCK_SOURCE, s1);
    SET(fd, IP_BLOCK_SOURCE, s2); heard(fd);
    SET(fd, IP_UNBLOCK_SOURCE, s1); heard(fd);
    SET(fd, IP_UNBLOCK_SOURCE, s1);
    SET(fd, IP_DROP_SOURCE_MEMBERSHIP, s1);
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, s1);
    SET(fd, IP_UNBLOCK_SOURCE, s2); heard(fd);
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, s1); heard(fd);
    SET(fd, IP_DROP_MEMBERSHIP, any); heard(fd);
    SET(fd, IP_DROP_MEMBERSHIP, any);
    PART("leave with sources");
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, s1);
    SET(fd, IP_DROP_MEMBERSHIP, any); heard(fd);
    PART("errors");
    bad = src("10.1.1.1", "127.0.0.1", "127.0.0.1");
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, bad); SET(fd, IP_DROP_SOURCE_MEMBERSHIP, bad); SET(fd, IP_BLOCK_SOURCE, bad); SET(fd, IP_UNBLOCK_SOURCE, bad);
    bad = src(G, "10.99.99.99", "127.0.0.1");
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, bad); SET(fd, IP_DROP_SOURCE_MEMBERSHIP, bad); SET(fd, IP_BLOCK_SOURCE, bad); SET(fd, IP_UNBLOCK_SOURCE, bad);
    bad = src(G, "127.0.0.1", "0.0.0.0");
    SET(fd, IP_ADD_SOURCE_MEMBERSHIP, bad); heard(fd); SET(fd, IP_DROP_SOURCE_MEMBERSHIP, bad);
    for (socklen_t len = 0; len < 13; len += 3) {
        N(len);
        OK(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &s1, len));
        OK(setsockopt(fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &s1, len));
        OK(setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &s1, len));
    }
    OK(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &s1, 20));
    OK(setsockopt(fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &s1, sizeof s1));
    OK(setsockopt(fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, BAD, sizeof s1));
    PART("by index");
    struct group_source_req g1 = gsrc(G, 1, "127.0.0.1"), g2 = gsrc(G, 1, "127.0.0.2"), g9 = gsrc(G, 999, "127.0.0.1"), gu = gsrc("10.1.1.1", 1, "127.0.0.1"), x;
    SET(fd, MCAST_JOIN_SOURCE_GROUP, g1); heard(fd);
    SET(fd, MCAST_JOIN_SOURCE_GROUP, g1);
    SET(fd, MCAST_JOIN_SOURCE_GROUP, g2); heard(fd);
    SET(fd, MCAST_BLOCK_SOURCE, g2);
    SET(fd, MCAST_LEAVE_SOURCE_GROUP, g1); heard(fd);
    SET(fd, MCAST_LEAVE_SOURCE_GROUP, g1);
    SET(fd, MCAST_LEAVE_SOURCE_GROUP, g2); heard(fd);
    SET(fd, MCAST_JOIN_SOURCE_GROUP, g9); SET(fd, MCAST_LEAVE_SOURCE_GROUP, g9); SET(fd, MCAST_BLOCK_SOURCE, g9); SET(fd, MCAST_UNBLOCK_SOURCE, g9);
    SET(fd, MCAST_JOIN_SOURCE_GROUP, gu); SET(fd, MCAST_LEAVE_SOURCE_GROUP, gu); SET(fd, MCAST_BLOCK_SOURCE, gu);
    x = g1; ((struct sockaddr *)&x.gsr_group)->sa_family = AF_UNIX; SET(fd, MCAST_JOIN_SOURCE_GROUP, x); SET(fd, MCAST_BLOCK_SOURCE, x);
    x = g1; ((struct sockaddr *)&x.gsr_source)->sa_family = AF_UNIX; SET(fd, MCAST_JOIN_SOURCE_GROUP, x); SET(fd, MCAST_BLOCK_SOURCE, x);
    x = g1; ((struct sockaddr *)&x.gsr_source)->sa_family = AF_INET6; SET(fd, MCAST_JOIN_SOURCE_GROUP, x);
    OK(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &g1, sizeof g1 - 1));
    OK(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &g1, sizeof g1 + 1));
    OK(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_SOURCE_GROUP, &g1, sizeof g1));
    struct group_req gr; memset(&gr, 0, sizeof gr); gr.gr_interface = 1; memcpy(&gr.gr_group, &g1.gsr_group, sizeof gr.gr_group);
    SET(fd, MCAST_JOIN_GROUP, gr); heard(fd);
    SET(fd, MCAST_BLOCK_SOURCE, g1); heard(fd);
    SET(fd, MCAST_UNBLOCK_SOURCE, g1); heard(fd);
    SET(fd, MCAST_LEAVE_GROUP, gr); heard(fd);
    PART("many sources");
    for (int i = 1; i < 15; i++) { char a[20]; snprintf(a, sizeof a, "127.0.0.%d", i); bad = src(G, "127.0.0.1", a); SET(fd, IP_ADD_SOURCE_MEMBERSHIP, bad); }
    heard(fd);
    SET(fd, IP_DROP_MEMBERSHIP, any);
    PART("not bound to a port, not for datagrams");
    int tcp = MUST(socket(AF_INET, SOCK_STREAM, 0));
    SET(tcp, IP_ADD_SOURCE_MEMBERSHIP, s1);
    SET(tcp, MCAST_JOIN_SOURCE_GROUP, g1);
    PART("IPv6");
    int six = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    struct group_source_req h1 = gsrc6("ff02::1234", 1, "::1"), h2 = gsrc6("ff02::1234", 1, "::2"), h9 = gsrc6("ff02::1234", 999, "::1"), hu = gsrc6("fe80::1", 1, "::1");
#define SET6(name, value) OK(setsockopt(six, IPPROTO_IPV6, name, &value, sizeof value))
    SET6(MCAST_JOIN_SOURCE_GROUP, h1); SET6(MCAST_JOIN_SOURCE_GROUP, h1); SET6(MCAST_JOIN_SOURCE_GROUP, h2); SET6(MCAST_BLOCK_SOURCE, h2);
    SET6(MCAST_LEAVE_SOURCE_GROUP, h1); SET6(MCAST_LEAVE_SOURCE_GROUP, h1); SET6(MCAST_LEAVE_SOURCE_GROUP, h2); SET6(MCAST_LEAVE_SOURCE_GROUP, h2);
    SET6(MCAST_JOIN_SOURCE_GROUP, h9); SET6(MCAST_LEAVE_SOURCE_GROUP, h9); SET6(MCAST_BLOCK_SOURCE, h9); SET6(MCAST_JOIN_SOURCE_GROUP, hu); SET6(MCAST_BLOCK_SOURCE, hu);
    SET6(MCAST_JOIN_SOURCE_GROUP, g1);
    return 0;
}

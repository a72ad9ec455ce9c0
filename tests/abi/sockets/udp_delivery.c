// Which of several sockets gets a datagram: addresses, connections, devices, sharing, groups, broadcast, both versions.
#include "inet.h"
#include <net/if.h>

#define MOST 8
static int sockets[MOST], count;
static int port;
static void reset(void) {
    while (count) close(sockets[--count]);
    port = 0;
}
// Another socket of the port, which all share.
static int add(int family, const char *address, int option, int only) {
    int s = MUST(socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    if (option) MUST(set_int(s, SOL_SOCKET, option, 1));
    if (family == AF_INET6) MUST(set_int(s, IPPROTO_IPV6, IPV6_V6ONLY, only));
    struct sockaddr_in four = in4(family == AF_INET ? address : "0.0.0.0", port);
    struct sockaddr_in6 six = in6(family == AF_INET6 ? address : "::", port);
    if (family == AF_INET ? bind(s, AS(four)) : bind(s, AS(six))) {
        printf("socket %d: %s\n", count, check_error(errno));
    } else if (!port) {
        port = port_of(s);
    }
    return sockets[count++] = s;
}
// Sends to an address and prints the sockets that got it, from how many datagrams.
static void send_to(const char *what, int from, const char *address, int n) {
    int own = from < 0 ? MUST(socket(strchr(address, ':') ? AF_INET6 : AF_INET, SOCK_DGRAM, 0)) : from;
    struct sockaddr_in four = in4(address, port);
    struct sockaddr_in6 six = in6(address, port);
    int sent = 0;
    for (int i = 0; i < n; i++) {
        ssize_t result = strchr(address, ':') ? sendto(own, "x", 1, 0, AS(six)) : sendto(own, "x", 1, 0, AS(four));
        if (result == 1) sent++;
        else printf("%s: %s\n", what, check_error(errno));
    }
    printf("%s to %s:", what, address);
    char byte;
    for (int i = 0; i < count; i++) {
        int got = 0;
        while (recv(sockets[i], &byte, 1, 0) == 1) got++;
        printf(" %d", got);
    }
    puts("");
    if (from < 0) close(own);
}
static int peer(int port_to_bind) {
    int s = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    struct sockaddr_in a = in4("127.0.0.1", port_to_bind);
    MUST(bind(s, AS(a)));
    return s;
}

static void addresses(int option) {
    printf("-- addresses, option %d\n", option);
    add(AF_INET, "0.0.0.0", option, 0);
    add(AF_INET, "127.0.0.1", option, 0);
    add(AF_INET, "127.0.0.2", option, 0);
    add(AF_INET6, "::", option, 1);
    add(AF_INET6, "::1", option, 1);
    static const char *const to[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1", "127.255.255.255"};
    for (size_t i = 0; i < COUNT(to); i++) send_to("one", -1, to[i], 1);
    int client = peer(0);
    struct sockaddr_in a = in4("127.0.0.1", port_of(client));
    T(connect(sockets[0], AS(a)));
    send_to("from the connected", client, "127.0.0.1", 1);
    send_to("from another", -1, "127.0.0.1", 1);
    send_to("from another", -1, "127.0.0.3", 1);
    T(connect(sockets[2], AS(a)));
    send_to("from the connected", client, "127.0.0.2", 1);
    send_to("from another", -1, "127.0.0.2", 1);
    close(client);
    reset();
}

static void both_versions(void) {
    PART("both versions");
    for (int order = 0; order < 2; order++) {
        if (order) add(AF_INET6, "::", SO_REUSEADDR, 0);
        add(AF_INET, "0.0.0.0", SO_REUSEADDR, 0);
        if (!order) add(AF_INET6, "::", SO_REUSEADDR, 0);
        send_to("one", -1, "127.0.0.1", 1);
        send_to("one", -1, "::1", 1);
        send_to("one", -1, "::ffff:127.0.0.1", 1);
        send_to("one", -1, "::ffff:127.0.0.9", 1);
        add(AF_INET6, "::ffff:127.0.0.9", SO_REUSEADDR, 0);
        send_to("one", -1, "127.0.0.9", 1);
        send_to("one", -1, "127.0.0.1", 1);
        reset();
    }
}

static void last_wins(int option) {
    printf("-- the same address, option %d\n", option);
    for (int i = 0; i < 4; i++) add(AF_INET, "127.0.0.1", option, 0);
    if (option == SO_REUSEADDR) send_to("one", -1, "127.0.0.1", 1);
    close(sockets[3]);
    sockets[3] = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    if (option == SO_REUSEADDR) send_to("the last is gone", -1, "127.0.0.1", 1);
    int client = peer(0);
    struct sockaddr_in a = in4("127.0.0.1", port_of(client));
    T(connect(sockets[1], AS(a)));
    send_to("a connected one", client, "127.0.0.1", 3);
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    T(connect(sockets[1], &none, sizeof none));
    if (option == SO_REUSEADDR) send_to("dissolved", client, "127.0.0.1", 1);
    close(client);
    reset();
}

static void devices(void) {
    PART("devices");
    add(AF_INET, "0.0.0.0", SO_REUSEADDR, 0);
    add(AF_INET, "0.0.0.0", SO_REUSEADDR, 0);
    T(setsockopt(sockets[0], SOL_SOCKET, SO_BINDTODEVICE, "lo", 2));
    send_to("one", -1, "127.0.0.1", 1);
    T(setsockopt(sockets[0], SOL_SOCKET, SO_BINDTODEVICE, "", 0));
    send_to("one", -1, "127.0.0.1", 1);
    T(setsockopt(sockets[0], SOL_SOCKET, SO_BINDTODEVICE, "no such", 7));
    reset();
}

static void groups(void) {
    PART("groups");
    int lo = if_nametoindex("lo");
    struct ip_mreqn join = {.imr_ifindex = lo};
    inet_pton(AF_INET, "239.1.2.3", &join.imr_multiaddr);
    for (int i = 0; i < 5; i++) add(AF_INET, i == 3 ? "239.1.2.3" : i == 4 ? "127.0.0.1" : "0.0.0.0", SO_REUSEADDR, 0);
    int s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    T(setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &(struct ip_mreqn){.imr_ifindex = lo}, sizeof(struct ip_mreqn)));
    send_to("no member", s, "239.1.2.3", 1);
    T(setsockopt(sockets[0], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    send_to("a member", s, "239.1.2.3", 1);
    T(set_int(sockets[1], IPPROTO_IP, IP_MULTICAST_ALL, 0));
    send_to("one wants its own groups only", s, "239.1.2.3", 1);
    T(setsockopt(sockets[1], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    send_to("two members", s, "239.1.2.3", 2);
    send_to("another group", s, "239.1.2.4", 1);
    T(set_int(s, IPPROTO_IP, IP_MULTICAST_LOOP, 0));
    send_to("without a loop", s, "239.1.2.3", 1);
    T(set_int(s, IPPROTO_IP, IP_MULTICAST_LOOP, 1));
    T(set_int(s, IPPROTO_IP, IP_MULTICAST_TTL, 0));
    send_to("with no hop", s, "239.1.2.3", 1);
    T(setsockopt(sockets[0], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    T(setsockopt(sockets[0], IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join));
    T(setsockopt(sockets[0], IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join));
    send_to("one left", s, "239.1.2.3", 1);
    join.imr_multiaddr.s_addr = htonl(0x7f000001);
    T(setsockopt(sockets[0], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    join.imr_ifindex = 4242;
    inet_pton(AF_INET, "239.1.2.9", &join.imr_multiaddr);
    T(setsockopt(sockets[0], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
    T(setsockopt(sockets[0], IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, 4));
    PART("SO_BROADCAST");
    T(set_int(s, SOL_SOCKET, SO_BROADCAST, 0));
    send_to("not allowed", s, "127.255.255.255", 1);
    T(set_int(s, SOL_SOCKET, SO_BROADCAST, 1));
    send_to("allowed", s, "127.255.255.255", 1);
    struct sockaddr_in wide = in4("127.255.255.255", port);
    T(set_int(s, SOL_SOCKET, SO_BROADCAST, 0));
    T(connect(s, AS(wide)));
    T(send(s, "x", 1, 0));
    close(s);
    reset();
    PART("groups of IPv6");
    static const char *const six[] = {"ff11::42", "ff02::42", "ff05::42", "ff0e::42", "ff12::1"};
    for (size_t i = 0; i < COUNT(six); i++)
        for (int scope = 0; scope < 2; scope++) {
            s = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
            struct sockaddr_in6 at = in6(six[i], 0);
            at.sin6_scope_id = scope * lo;
            printf("%s, scope %d: %s\n", six[i], scope, bind(s, AS(at)) ? check_error(errno) : "ok");
            struct ipv6_mreq of = {.ipv6mr_multiaddr = at.sin6_addr, .ipv6mr_interface = lo};
            T(setsockopt(s, IPPROTO_IPV6, IPV6_JOIN_GROUP, &of, sizeof of));
            T(setsockopt(s, IPPROTO_IPV6, IPV6_JOIN_GROUP, &of, sizeof of));
            T(setsockopt(s, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &of, sizeof of));
            T(setsockopt(s, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &of, sizeof of));
            close(s);
        }
}

int main(void) {
    addresses(SO_REUSEADDR);
    addresses(0);
    both_versions();
    last_wins(SO_REUSEADDR);
    last_wins(SO_REUSEPORT);
    devices();
    groups();
    return 0;
}

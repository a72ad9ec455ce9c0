// The loopback device as programs see it: ioctl(2), netlink, getifaddrs(3).
#include "inet.h"
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>

static void requests(int fd) {
    struct ifreq request = {.ifr_name = "lo"};
    T(ioctl(fd, SIOCGIFINDEX, &request));
    N(request.ifr_ifindex);
    T(ioctl(fd, SIOCGIFFLAGS, &request));
    printf("flags %#x\n", request.ifr_flags);
    T(ioctl(fd, SIOCGIFMTU, &request));
    N(request.ifr_mtu);
    T(ioctl(fd, SIOCGIFHWADDR, &request));
    N(request.ifr_hwaddr.sa_family);
    T(ioctl(fd, SIOCGIFADDR, &request));
    show_address("address", &request.ifr_addr, sizeof request.ifr_addr);
    T(ioctl(fd, SIOCGIFNETMASK, &request));
    show_address("mask", &request.ifr_addr, sizeof request.ifr_addr);
    T(ioctl(fd, SIOCGIFMETRIC, &request));
    N(request.ifr_metric);
    struct ifreq none = {.ifr_name = "nothing0"};
    T(ioctl(fd, SIOCGIFINDEX, &none));
    T(ioctl(fd, SIOCGIFFLAGS, &none));
    none.ifr_ifindex = 1;
    T(ioctl(fd, SIOCGIFNAME, &none));
    printf("%s\n", none.ifr_name);
    none.ifr_ifindex = 99999;
    T(ioctl(fd, SIOCGIFNAME, &none));
    T(ioctl(fd, 0x5599, &none));
    T(ioctl(fd, TCGETS, &none));
}

static void question(const char *what, int kind, int flags, int family, int want) {
    int fd = MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct { struct nlmsghdr header; struct rtgenmsg body; char rest[64]; } ask = {
        {sizeof ask, kind, flags, 77, 0}, {family}, {0}};
    ask.header.nlmsg_len = NLMSG_LENGTH(16);
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    MUST(sendto(fd, &ask, ask.header.nlmsg_len, 0, AS(kernel)));
    static char buffer[65536];
    int done = 0, found = 0, count = 0;
    while (!done) {
        struct sockaddr_nl from;
        socklen_t len = sizeof from;
        ssize_t got = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len);
        if (got <= 0) break;
        if (from.nl_pid != 0 || len != sizeof from) printf("a stranger\n");
        for (struct nlmsghdr *one = (void *)buffer; NLMSG_OK(one, got); one = NLMSG_NEXT(one, got)) {
            if (one->nlmsg_seq != 77) printf("sequence %u\n", one->nlmsg_seq);
            if (one->nlmsg_type == NLMSG_DONE) {
                done = 1;
            } else if (one->nlmsg_type == NLMSG_ERROR) {
                struct nlmsgerr *error = NLMSG_DATA(one);
                printf("%s: %s\n", what, error->error ? check_error(-error->error) : "ok");
                done = 1;
            } else {
                count++;
                if (one->nlmsg_type == want) found++;
                if (!(one->nlmsg_flags & NLM_F_MULTI)) done = 1;
            }
        }
    }
    printf("%s: %s\n", what, count == 0 ? "nothing" : found == count ? "answers" : "other answers");
    close(fd);
}

int main(void) {
    PART("requests");
    int tcp = MUST(socket(AF_INET, SOCK_STREAM, 0)), local = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    requests(tcp);
    struct ifreq request = {.ifr_name = "lo"};
    T(ioctl(local, SIOCGIFINDEX, &request));
    T(ioctl(local, SIOCGIFADDR, &request));
    N(if_nametoindex("lo"));
    N(if_nametoindex("nothing0"));
    char name[IF_NAMESIZE];
    printf("%s\n", if_indextoname(1, name));

    PART("netlink");
    int fd = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    T(bind(fd, (struct sockaddr *)&own, 11));
    T(bind(fd, AS(own)));
    socklen_t len = sizeof own;
    T(getsockname(fd, (struct sockaddr *)&own, &len));
    N(len);
    YES(own.nl_pid == (unsigned)getpid());
    int second = MUST(socket(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE));
    own.nl_pid = 0;
    T(bind(second, AS(own)));
    T(getsockname(second, (struct sockaddr *)&own, &len));
    YES(own.nl_pid != (unsigned)getpid() && own.nl_pid != 0);
    T(int_option(fd, SOL_SOCKET, SO_TYPE));
    T(int_option(fd, SOL_SOCKET, SO_DOMAIN));
    T(set_int(fd, 270, NETLINK_EXT_ACK, 1));
    RECEIVE(fd, 10, MSG_DONTWAIT);
    T(poll_now(fd, 0));
    T(socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
    T(socket(AF_NETLINK, SOCK_RAW, 77));
    T(shutdown(fd, SHUT_RDWR));
    T(listen(fd, 1));
    question("links", RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, AF_UNSPEC, RTM_NEWLINK);
    question("addresses", RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, AF_UNSPEC, RTM_NEWADDR);
    question("IPv4 addresses", RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, AF_INET, RTM_NEWADDR);
    question("routes", RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, AF_INET, RTM_NEWROUTE);
    question("a bad kind", 200, NLM_F_REQUEST, AF_INET, 0);

    PART("getifaddrs");
    struct ifaddrs *all;
    T(getifaddrs(&all));
    for (struct ifaddrs *one = all; one; one = one->ifa_next)
        if (!strcmp(one->ifa_name, "lo") && one->ifa_addr) {
            printf("lo: flags %#x, family %d\n", one->ifa_flags, one->ifa_addr->sa_family);
            if (one->ifa_addr->sa_family == AF_INET) show_address("mask", one->ifa_netmask, sizeof(struct sockaddr_in));
            if (one->ifa_addr->sa_family == AF_INET6) show_address("mask", one->ifa_netmask, sizeof(struct sockaddr_in6));
        }
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    T(getaddrinfo("127.0.0.1", "80", &hints, &found));
    T(getaddrinfo("::1", "80", &hints, &found));
    hints.ai_flags = AI_PASSIVE;
    T(getaddrinfo(NULL, "80", &hints, &found));
    for (; found; found = found->ai_next) show_address("passive", found->ai_addr, found->ai_addrlen);
    return 0;
}

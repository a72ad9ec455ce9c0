// Network namespaces: network_namespaces(7), netdevice(7), rtnetlink(7), unix(7).
#include "../check.h"
#include <arpa/inet.h>
#include <linux/capability.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static int self_ns(void) { return MUST(open("/proc/self/ns/net", O_RDONLY)); }

static struct sockaddr_in v4(const char *ip, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &to.sin_addr);
    return to;
}

static int bound(int kind, const char *ip, int port) {
    struct sockaddr_in to = v4(ip, port);
    int fd = socket(AF_INET, kind, 0), on = 1;
    if (port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (void *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connected(const char *ip, int port) {
    struct sockaddr_in to = v4(ip, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&to, sizeof to) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int named(int kind, const char *name, bool listens) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, kind, 0);
    un.sun_path[0] = 0;
    strcpy(un.sun_path + 1, name);
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
    int done = listens ? bind(fd, (void *)&un, size) : connect(fd, (void *)&un, size);
    if (done == 0 && listens && kind == SOCK_STREAM)
        listen(fd, 5);
    if (done == 0)
        return fd;
    close(fd);
    return -1;
}

static int ifreq(int request, short flags) {
    struct ifreq r = {.ifr_flags = flags};
    strcpy(r.ifr_name, "lo");
    int fd = socket(AF_INET, SOCK_DGRAM, 0), done = ioctl(fd, request, &r), error = errno;
    close(fd);
    errno = error;
    return done < 0 ? done : (unsigned short)r.ifr_flags;
}

static int lines_with(const char *path, const char *word) {
    char line[512];
    int n = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, word) != NULL;
    if (f)
        fclose(f);
    return n;
}

// Sends a request about an address or the device, with one address attribute if there is one; the error of the answer.
static int request(int type, int flags, int family, int bits, const char *ip, unsigned device_flags) {
    struct {
        struct nlmsghdr head;
        union {
            struct ifaddrmsg address;
            struct ifinfomsg link;
        };
        char rest[64];
    } m = {.head = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags, .nlmsg_seq = 7}};
    size_t size;
    if (type == RTM_NEWADDR || type == RTM_DELADDR) {
        m.address = (struct ifaddrmsg){.ifa_family = family, .ifa_prefixlen = bits, .ifa_index = 1};
        size = NLMSG_LENGTH(sizeof m.address);
        for (int kind = IFA_ADDRESS; ip && kind <= IFA_LOCAL; kind++) {
            struct rtattr *a = (void *)((char *)&m + NLMSG_ALIGN(size));
            int bytes = family == AF_INET ? 4 : 16;
            *a = (struct rtattr){.rta_type = kind, .rta_len = RTA_LENGTH(bytes)};
            inet_pton(family, ip, RTA_DATA(a));
            size = NLMSG_ALIGN(size) + a->rta_len;
        }
    } else {
        m.link = (struct ifinfomsg){.ifi_index = 1, .ifi_flags = device_flags, .ifi_change = device_flags ? device_flags : IFF_UP};
        size = NLMSG_LENGTH(sizeof m.link);
    }
    m.head.nlmsg_len = size;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (send(fd, &m, size, 0) < 0)
        return -1;
    char answer[4096];
    ssize_t n = recv(fd, answer, sizeof answer, 0);
    close(fd);
    struct nlmsghdr *h = (void *)answer;
    if (n < (ssize_t)sizeof *h || h->nlmsg_type != NLMSG_ERROR || h->nlmsg_seq != 7)
        return errno = EPROTO, -1;
    int error = ((struct nlmsgerr *)NLMSG_DATA(h))->error;
    errno = -error;
    return error ? -1 : 0;
}

static void fresh(void) {
    puts("-- a new namespace");
    T(ifreq(SIOCGIFFLAGS, 0));
    OK(ifreq(SIOCGIFADDR, 0));
    T(connected("127.0.0.1", 4000));
    T(connected("10.1.2.3", 4000));
    int early = bound(SOCK_STREAM, "127.0.0.1", 4000);
    OK(early);
    close(early);
    OK(bound(SOCK_STREAM, "0.0.0.0", 4001));
    T(lines_with("/proc/net/if_inet6", "lo"));
    T(lines_with("/proc/net/dev", ":"));
    T(lines_with("/proc/net/tcp", ":"));
    struct sockaddr_in to = v4("127.0.0.1", 9);
    T(sendto(socket(AF_INET, SOCK_DGRAM, 0), "x", 1, 0, (void *)&to, sizeof to));
    struct ifconf list = {0};
    T(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCGIFCONF, &list));
    T(list.ifc_len / (int)sizeof(struct ifreq));
}

static void comes_up(void) {
    puts("-- lo up");
    T(ifreq(SIOCSIFFLAGS, IFF_UP));
    T(ifreq(SIOCGIFFLAGS, 0));
    OK(ifreq(SIOCGIFADDR, 0));
    T(lines_with("/proc/net/if_inet6", "lo"));
    int server = bound(SOCK_STREAM, "127.0.0.1", 4000);
    OK(server);
    OK(listen(server, 5));
    int client = connected("127.0.0.1", 4000);
    OK(client);
    OK(connected("0.0.0.0", 4000));
    char c = 0;
    int accepted = accept(server, NULL, NULL);
    T(write(client, "x", 1));
    T(read(accepted, &c, 1));
    T(lines_with("/proc/net/tcp", ":0FA0"));
    T(connected("10.1.2.3", 4000));
    puts("-- lo down");
    T(ifreq(SIOCSIFFLAGS, 0));
    T(ifreq(SIOCGIFFLAGS, 0));
    OK(ifreq(SIOCGIFADDR, 0));
    T(lines_with("/proc/net/if_inet6", "lo"));
    OK(bound(SOCK_DGRAM, "127.0.0.1", 4005));
    close(server), close(client), close(accepted);
}

static void addresses(void) {
    puts("-- rtnetlink");
    T(request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, AF_INET, 8, "127.0.0.1", 0));
    T(request(RTM_NEWLINK, 0, 0, 0, NULL, IFF_UP));
    T(request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, AF_INET, 24, "10.9.8.7", 0));
    T(request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, AF_INET, 24, "10.9.8.7", 0));
    T(request(RTM_NEWADDR, NLM_F_REPLACE, AF_INET, 24, "10.9.8.7", 0));
    T(request(RTM_NEWADDR, NLM_F_CREATE, AF_INET, 33, "10.9.8.6", 0));
    T(request(RTM_NEWADDR, NLM_F_CREATE, AF_INET, 24, NULL, 0));
    T(request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, AF_INET6, 64, "fd00::5", 0));
    T(request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, AF_INET6, 64, "fd00::5", 0));
    int server = bound(SOCK_STREAM, "10.9.8.7", 4100);
    OK(server);
    OK(listen(server, 5));
    int client = connected("10.9.8.7", 4100);
    OK(client);
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    getsockname(client, (void *)&own, &size);
    puts(inet_ntoa(own.sin_addr));
    OK(bound(SOCK_DGRAM, "10.9.8.200", 4101));
    T(bound(SOCK_DGRAM, "10.9.9.1", 4101));
    T(lines_with("/proc/net/if_inet6", "lo"));
    T(request(RTM_DELADDR, 0, AF_INET, 24, "10.9.8.7", 0));
    T(request(RTM_DELADDR, 0, AF_INET, 24, "10.9.8.7", 0));
    T(connected("10.9.8.7", 4100));
    T(request(RTM_DELADDR, 0, AF_INET6, 64, "fd00::5", 0));
    T(request(RTM_DELLINK, 0, 0, 0, NULL, 0));
    close(server), close(client);
}

static void listeners(void) {
    puts("-- multicast groups");
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl own = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR};
    OK(bind(fd, (void *)&own, sizeof own));
    char buffer[8192];
    T(recv(fd, buffer, sizeof buffer, 0));
    T(request(RTM_NEWADDR, NLM_F_CREATE, AF_INET, 32, "10.5.5.5", 0));
    OK(recv(fd, buffer, sizeof buffer, 0));
    T(((struct nlmsghdr *)buffer)->nlmsg_type == RTM_NEWADDR);
    T(request(RTM_DELADDR, 0, AF_INET, 32, "10.5.5.5", 0));
    OK(recv(fd, buffer, sizeof buffer, 0));
    T(((struct nlmsghdr *)buffer)->nlmsg_type == RTM_DELADDR);
    T(ifreq(SIOCSIFFLAGS, 0));
    bool link = false;
    while (recv(fd, buffer, sizeof buffer, 0) > 0)
        link |= ((struct nlmsghdr *)buffer)->nlmsg_type == RTM_NEWLINK;
    YES(link);
    T(ifreq(SIOCSIFFLAGS, IFF_UP));
    close(fd);
}

static int setting(const char *name, const char *value) {
    char path[128];
    snprintf(path, sizeof path, "/proc/sys/net/%s", name);
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -1;
    int n = write(fd, value, strlen(value)), error = errno;
    close(fd);
    errno = error;
    return n;
}

static void show(const char *name) {
    char path[128], text[128] = "";
    snprintf(path, sizeof path, "/proc/sys/net/%s", name);
    FILE *f = fopen(path, "r");
    if (f && fgets(text, sizeof text, f))
        printf("%s: %s", name, text);
    if (f)
        fclose(f);
}

static void settings(void) {
    puts("-- settings");
    show("ipv4/ip_unprivileged_port_start");
    show("ipv4/ip_local_port_range");
    show("ipv4/ping_group_range");
    T(setting("ipv4/ip_unprivileged_port_start", "80\n"));
    T(setting("ipv4/ip_unprivileged_port_start", "x"));
    T(setting("ipv4/ip_unprivileged_port_start", "70000"));
    T(setting("ipv4/ip_local_port_range", "40000 40003"));
    T(setting("ipv4/ip_local_port_range", "5 4"));
    T(setting("ipv4/ping_group_range", "0 5"));
    T(setting("ipv6/bindv6only", "1"));
    show("ipv4/ip_unprivileged_port_start");
    show("ipv4/ip_local_port_range");
    show("ipv4/ping_group_range");
    for (int i = 0; i < 4; i++) {
        struct sockaddr_in own;
        socklen_t size = sizeof own;
        getsockname(bound(SOCK_DGRAM, "127.0.0.1", 0), (void *)&own, &size);
        YES(ntohs(own.sin_port) >= 40000 && ntohs(own.sin_port) <= 40003);
    }
    T(bound(SOCK_DGRAM, "127.0.0.1", 0));
    int only = 9;
    socklen_t size = sizeof only;
    T(getsockopt(socket(AF_INET6, SOCK_STREAM, 0), IPPROTO_IPV6, IPV6_V6ONLY, &only, &size));
    T(only);
    T(setting("ipv6/bindv6only", "0"));
    T(setting("ipv4/ip_local_port_range", "32768 60999"));
}

static unsigned long long cookie(int fd) {
    unsigned long long value = 0;
    socklen_t size = sizeof value;
    getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &value, &size);
    return value;
}

int main(void) {
    int first = self_ns();
    struct stat a, b;
    MUST(fstat(first, &a));
    int outer = named(SOCK_STREAM, "hull-nets", true);
    OK(outer);
    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int file = socket(AF_UNIX, SOCK_STREAM, 0);
    OK(bind(file, (void *)&path, sizeof path));
    OK(listen(file, 5));
    int tcp = socket(AF_INET, SOCK_STREAM, 0);

    OK(unshare(CLONE_NEWNET));
    int second = self_ns();
    MUST(fstat(second, &b));
    YES(a.st_ino != b.st_ino);
    T(ioctl(second, NS_GET_NSTYPE));
    fresh();
    comes_up();
    addresses();
    listeners();
    settings();

    puts("-- names and sockets");
    T(named(SOCK_STREAM, "hull-nets", false));
    OK(named(SOCK_STREAM, "hull-nets", true));
    OK(named(SOCK_STREAM, "hull-nets", false));
    T(lines_with("/proc/net/unix", "hull-nets") > 0);
    int through = socket(AF_UNIX, SOCK_STREAM, 0);
    OK(connect(through, (void *)&path, sizeof path));
    YES(cookie(tcp) != cookie(socket(AF_INET, SOCK_STREAM, 0)));
    YES(cookie(through) == cookie(socket(AF_INET, SOCK_STREAM, 0)));
    int of_socket = ioctl(through, SIOCGSKNS);
    OK(of_socket);
    struct stat c;
    MUST(fstat(of_socket, &c));
    YES(c.st_ino == b.st_ino);
    of_socket = ioctl(tcp, SIOCGSKNS);
    MUST(fstat(of_socket, &c));
    YES(c.st_ino == a.st_ino);
    int pid = fork();
    if (pid == 0) {
        MUST(fstat(self_ns(), &c));
        YES(c.st_ino == b.st_ino);
        OK(setns(first, CLONE_NEWNET));
        T(lines_with("/proc/self/net/unix", "@hull-nets") > 0);
        OK(named(SOCK_STREAM, "hull-nets", false));
        T(bound(SOCK_STREAM, "10.9.8.7", 4100));
        // A socket keeps its namespace.
        struct ifreq r = {0};
        strcpy(r.ifr_name, "lo");
        T(ioctl(through, SIOCGIFFLAGS, &r));
        _exit(0);
    }
    waitpid(pid, NULL, 0);

    puts("-- as a mounted file");
    MUST(unshare(CLONE_NEWNS));
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(close(open("kept", O_CREAT | O_WRONLY, 0600)));
    OK(mount("/proc/self/ns/net", "kept", NULL, MS_BIND, NULL));
    OK(mount("/proc/self/ns/mnt", "kept", NULL, MS_BIND, NULL));
    OK(unshare(CLONE_NEWNET));
    T(setns(MUST(open("kept", O_RDONLY)), CLONE_NEWUTS));
    OK(setns(MUST(open("kept", O_RDONLY)), CLONE_NEWNET));
    MUST(fstat(self_ns(), &c));
    YES(c.st_ino == b.st_ino);
    OK(umount2("kept", MNT_DETACH));

    puts("-- capabilities");
    OK(setns(first, CLONE_NEWNET));
    OK(unshare(CLONE_NEWUSER));
    T(unshare(CLONE_NEWNET) == 0 ? 0 : -1);
    T(ifreq(SIOCSIFFLAGS, IFF_UP));
    OK(bound(SOCK_STREAM, "127.0.0.1", 81));
    T(setns(first, CLONE_NEWNET));
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    MUST(syscall(SYS_capset, &head, none));
    T(ifreq(SIOCSIFFLAGS, 0));
    T(request(RTM_NEWLINK, 0, 0, 0, NULL, 0));
    T(bound(SOCK_STREAM, "127.0.0.1", 82));
    T(unshare(CLONE_NEWNET));
    T(ioctl(tcp, SIOCGSKNS));
    return 0;
}

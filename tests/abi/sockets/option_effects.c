// Effects of options of SOL_SOCKET: control data that comes along, what waits and what is lost, filters, permissions.
#include "check.h"
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SO_RCVPRIORITY_ 82
#define SO_INQ_ 84
#define MSG_ZEROCOPY_ 0x4000000

static int set(int s, int option, int value) { return setsockopt(s, SOL_SOCKET, option, &value, sizeof value); }
static int value_of(int s, int option) {
    int value = -12345;
    socklen_t length = sizeof value;
    return getsockopt(s, SOL_SOCKET, option, &value, &length) ? -errno : value;
}
#define SET(s, option, value) T(set(s, option, value))
#define GET(s, option) printf("%s: %d\n", #option, value_of(s, option))

// A bound socket of datagrams, and one that is connected with it.
static void datagrams(int family, int out[2]) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (void *)&to : (void *)&to6;
    socklen_t length = family == AF_INET ? sizeof to : sizeof to6;
    out[0] = MUST(socket(family, SOCK_DGRAM, 0));
    out[1] = MUST(socket(family, SOCK_DGRAM, 0));
    MUST(bind(out[0], at, length));
    MUST(getsockname(out[0], at, &length));
    MUST(connect(out[1], at, length));
}
static void streams(int out[2]) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(bind(listener, (void *)&to, sizeof to));
    MUST(listen(listener, 1));
    MUST(getsockname(listener, (void *)&to, &length));
    out[1] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(out[1], (void *)&to, sizeof to));
    out[0] = MUST(accept(listener, NULL, NULL));
    close(listener);
}
static void close_both(int p[2]) {
    close(p[0]);
    close(p[1]);
}

// Whether a time is of the last minute.
static const char *recent(long seconds) {
    long now = time(NULL);
    return seconds && seconds >= now - 60 && seconds <= now + 60 ? "recent" : seconds ? "wrong" : "none";
}
static void show(struct cmsghdr *c) {
    long words[6] = {0};
    int number;
    memcpy(words, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < sizeof words ? c->cmsg_len - CMSG_LEN(0) : sizeof words);
    memcpy(&number, words, sizeof number);
    printf(" [level %d type %d length %zu:", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
    if (c->cmsg_level != SOL_SOCKET) {
        for (size_t i = 0; i < c->cmsg_len - CMSG_LEN(0); i++) printf(" %02x", CMSG_DATA(c)[i]);
    } else {
        switch (c->cmsg_type) {
        case SO_TIMESTAMP_OLD:
        case SO_TIMESTAMP_NEW:
        case SO_TIMESTAMPNS_OLD:
        case SO_TIMESTAMPNS_NEW:
            printf(" %s", recent(words[0]));
            break;
        case SO_TIMESTAMPING_OLD:
        case SO_TIMESTAMPING_NEW:
            printf(" %s %s %s", recent(words[0]), recent(words[2]), recent(words[4]));
            break;
        case SCM_CREDENTIALS:
            printf(" credentials");
            break;
        default:
            printf(" %d", number);
        }
    }
    printf("]");
}
static void receive(const char *what, int s, int flags) {
    char bytes[256], control[512];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(s, &m, flags | MSG_DONTWAIT);
    printf("%s: %zd %s flags %#x", what, got, got < 0 ? check_error(errno) : "bytes", got < 0 ? 0 : m.msg_flags);
    if (got >= 0)
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) show(c);
    printf("\n");
}
// Sends one byte with control data of this type.
static long with_control(int s, int type, const void *data, size_t length) {
    char control[64] = {0};
    char byte = 'c';
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(length)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = type, .cmsg_len = CMSG_LEN(length)};
    memcpy(CMSG_DATA(c), data, length);
    return sendmsg(s, &m, MSG_DONTWAIT);
}
static void events(const char *what, int s) {
    struct pollfd p = {s, POLLIN | POLLPRI | POLLOUT, 0};
    poll(&p, 1, 0);
    printf("%s: events %#x\n", what, p.revents);
}

static void marks(int family) {
    PART("marks and priorities");
    int p[2];
    datagrams(family, p);
    SET(p[0], SO_RCVMARK, 1);
    SET(p[0], SO_RCVPRIORITY_, 1);
    T(send(p[1], "a", 1, 0));
    receive("without any", p[0], 0);
    SET(p[1], SO_MARK, 0x1234);
    SET(p[1], SO_PRIORITY, 5);
    T(send(p[1], "a", 1, 0));
    receive("of the socket", p[0], 0);
    T(with_control(p[1], SO_MARK, &(int){99}, 4));
    receive("mark of the message", p[0], 0);
    T(with_control(p[1], SO_PRIORITY, &(int){3}, 4));
    receive("priority of the message", p[0], 0);
    T(with_control(p[1], SO_MARK, &(long){99}, 8));
    T(with_control(p[1], SO_PRIORITY, &(long){99}, 8));
    T(with_control(p[1], SO_RCVBUF, &(int){99}, 4));
    T(with_control(p[1], SO_TXTIME, &(long){0}, 8));
    T(setsockopt(p[1], SOL_SOCKET, SO_TXTIME, (int[]){CLOCK_MONOTONIC, 0}, 8));
    T(with_control(p[1], SO_TXTIME, &(long){0}, 8));
    T(with_control(p[1], SO_TXTIME, &(int){0}, 4));
    receive("with a departure", p[0], 0);
    if (family == AF_INET) {
        for (int tos = 0; tos < 256; tos += 12) {
            MUST(setsockopt(p[1], IPPROTO_IP, IP_TOS, &tos, sizeof tos));
            printf("service %d: priority %d\n", tos, value_of(p[1], SO_PRIORITY));
        }
    }
    SET(p[0], SO_RCVMARK, 0);
    SET(p[0], SO_RCVPRIORITY_, 0);
    T(send(p[1], "a", 1, 0));
    receive("switched off", p[0], 0);
    close_both(p);
}

static void stamps(const char *what, int p[2]) {
    static const int options[] = {SO_TIMESTAMP_OLD, SO_TIMESTAMPNS_OLD, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW};
    printf("-- times of %s\n", what);
    for (size_t i = 0; i < COUNT(options); i++) {
        MUST(set(p[0], options[i], 1));
        // Linux begins to take times a while later.
        sleep_ms(20);
        MUST(send(p[1], "ab", 2, 0));
        sleep_ms(2);
        receive("a peek", p[0], MSG_PEEK);
        receive("a receive", p[0], 0);
        for (size_t j = 0; j < COUNT(options); j++) printf(" %d", value_of(p[0], options[j]));
        printf("\n");
        MUST(set(p[0], options[i], 0));
    }
    SET(p[0], SO_TIMESTAMPING_OLD, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE);
    MUST(send(p[1], "ab", 2, 0));
    sleep_ms(2);
    receive("by software", p[0], 0);
    MUST(set(p[0], SO_TIMESTAMP_OLD, 1));
    MUST(send(p[1], "ab", 2, 0));
    sleep_ms(2);
    receive("both", p[0], 0);
    MUST(set(p[0], SO_TIMESTAMP_OLD, 0));
    SET(p[0], SO_TIMESTAMPING_NEW, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE);
    MUST(send(p[1], "ab", 2, 0));
    sleep_ms(2);
    receive("by the new option", p[0], 0);
    SET(p[0], SO_TIMESTAMPING_NEW, 0);
    close_both(p);
}

static void lost(void) {
    PART("what is lost, and memory");
    int p[2], before, after;
    unsigned info[9];
    socklen_t length = sizeof info;
    datagrams(AF_INET, p);
    SET(p[0], SO_RXQ_OVFL, 1);
    MUST(set(p[0], SO_RCVBUF, 4096));
    static char block[1000];
    for (int i = 0; i < 30; i++) MUST(send(p[1], block, sizeof block, 0));
    MUST(getsockopt(p[0], SOL_SOCKET, SO_MEMINFO, info, &length));
    printf("received %s, limits %u %u, lost %s\n", info[0] > 1000 ? "some" : "none", info[1], info[3], info[8] ? "some" : "none");
    before = info[8];
    while (recv(p[0], block, sizeof block, MSG_DONTWAIT) > 0) {}
    MUST(send(p[1], "x", 1, 0));
    char control[64];
    struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
    MUST(recvmsg(p[0], &m, MSG_DONTWAIT));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c) memcpy(&after, CMSG_DATA(c), 4);
    if (c) printf("told: level %d type %d length %zu, all %s\n", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len, before == after ? "that were lost" : "others");
    close_both(p);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    MUST(send(p[1], block, sizeof block, 0));
    MUST(getsockopt(p[1], SOL_SOCKET, SO_MEMINFO, info, &length));
    printf("sent %u, limits %u %u\n", info[2], info[1], info[3]);
    GET(p[1], SO_BUF_LOCK);
    MUST(set(p[1], SO_SNDBUF, 5000));
    GET(p[1], SO_BUF_LOCK);
    MUST(set(p[1], SO_RCVBUF, 5000));
    GET(p[1], SO_BUF_LOCK);
    SET(p[1], SO_BUF_LOCK, 0);
    GET(p[1], SO_BUF_LOCK);
    close_both(p);
}

static void left(void) {
    PART("bytes that are left");
    int p[2];
    char small[3];
    struct iovec part = {small, sizeof small};
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    SET(p[0], SO_INQ_, 1);
    for (int i = 0; i < 3; i++) MUST(send(p[1], "0123456789", 10, 0));
    for (int i = 0; i < 3; i++) {
        char control[128];
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        T(recvmsg(p[0], &m, i == 0 ? MSG_PEEK : 0));
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) show(c);
        printf(" flags %#x\n", m.msg_flags);
    }
    SET(p[0], SO_PASSCRED, 1);
    receive("with credentials", p[0], 0);
    receive("nothing", p[0], 0);
    SET(p[0], SO_PASSCRED, 0);
    close(p[1]);
    receive("the end", p[0], 0);
    close(p[0]);
}

static void filters(void) {
    PART("filters");
    int p[2];
    struct sock_filter first[] = {{BPF_LD | BPF_B | BPF_ABS, 0, 0, 0}, {BPF_JMP | BPF_JEQ, 0, 1, 'y'}, {BPF_RET, 0, 0, 2}, {BPF_RET, 0, 0, 0}};
    struct sock_fprog program = {COUNT(first), first};
    struct sock_filter back[16];
    socklen_t length;
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    T(setsockopt(p[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    for (socklen_t room = 0; room < 6; room++) {
        length = room;
        memset(back, 0, sizeof back);
        T(getsockopt(p[0], SOL_SOCKET, SO_GET_FILTER, back, &length));
        printf("room %u: length %u, %s\n", room, length, memcmp(back, first, sizeof first) ? "another" : "the same");
    }
    T(send(p[1], "no", 2, 0));
    T(send(p[1], "yes", 3, 0));
    receive("what passed", p[0], 0);
    receive("no more", p[0], 0);
    SET(p[0], SO_LOCK_FILTER, 1);
    SET(p[0], SO_LOCK_FILTER, 0);
    T(setsockopt(p[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    SET(p[0], SO_DETACH_FILTER, 0);
    SET(p[0], SO_ATTACH_BPF, -1);
    T(setsockopt(p[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program));
    close_both(p);
    int s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    T(setsockopt(s, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program));
    SET(s, SO_DETACH_REUSEPORT_BPF, 0);
    SET(s, SO_REUSEPORT, 1);
    SET(s, SO_DETACH_REUSEPORT_BPF, 0);
    SET(s, SO_ATTACH_BPF, 1);
    SET(s, SO_ATTACH_REUSEPORT_EBPF, 1);
    close(s);

    // Answers of netlink: the type of the first message.
    s = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    struct { struct nlmsghdr head; struct rtgenmsg body; } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    struct sock_filter none[] = {{BPF_RET, 0, 0, 0}}, some[] = {{BPF_RET, 0, 0, 20}};
    program = (struct sock_fprog){1, none};
    T(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    MUST(send(s, &ask, sizeof ask, 0));
    receive("no answer", s, MSG_DONTWAIT);
    program = (struct sock_fprog){1, some};
    T(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    close(s);
    s = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    T(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    SET(s, SO_PASSCRED, 1);
    MUST(send(s, &ask, sizeof ask, 0));
    receive("20 bytes of the answer", s, MSG_DONTWAIT);
    SET(s, SO_DETACH_FILTER, 0);
    SET(s, SO_DETACH_FILTER, 0);
    close(s);
}

static void completions(const char *what, int p[2]) {
    printf("-- completions of %s\n", what);
    struct pollfd wait = {p[1], 0, 0};
    T(send(p[1], "a", 1, MSG_ZEROCOPY_));
    events("without the option", p[1]);
    SET(p[1], SO_ZEROCOPY, 1);
    T(send(p[1], "a", 1, 0));
    events("without the flag", p[1]);
    char bytes[16];
    while (recv(p[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    for (int i = 0; i < 2; i++) T(send(p[1], "ab", 2, MSG_ZEROCOPY_));
    while (recv(p[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    T(poll(&wait, 1, 5000));
    sleep_ms(30);
    events("completed", p[1]);
    receive("report", p[1], MSG_ERRQUEUE);
    receive("no more", p[1], MSG_ERRQUEUE);
    SET(p[1], SO_SELECT_ERR_QUEUE, 1);
    T(send(p[1], "ab", 2, MSG_ZEROCOPY_));
    while (recv(p[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    T(poll(&wait, 1, 5000));
    sleep_ms(30);
    events("select sees it", p[1]);
    receive("the next report", p[1], MSG_ERRQUEUE);
    events("nothing", p[1]);
    close_both(p);
}

static void refused(void) {
    PART("an error, and select");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(setsockopt(s, IPPROTO_IP, IP_RECVERR, &(int){1}, 4));
    MUST(set(s, SO_SELECT_ERR_QUEUE, 1));
    MUST(connect(s, (void *)&to, sizeof to));
    T(send(s, "a", 1, 0));
    sleep_ms(10);
    events("refused", s);
    close(s);
}

static void device(void) {
    PART("a device");
    char name[IFNAMSIZ];
    socklen_t length;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    for (int index = 0; index < 3; index++) {
        int s = MUST(socket(AF_INET, SOCK_DGRAM, 0)), s6 = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
        int stream = MUST(socket(AF_INET, SOCK_STREAM, 0));
        int number = index == 2 ? 1000 : index;
        printf("number %d\n", number);
        SET(s, SO_BINDTOIFINDEX, number);
        MUST(set(s6, SO_BINDTOIFINDEX, number));
        MUST(set(stream, SO_BINDTOIFINDEX, number));
        for (int room = 0; room < 20; room += 5) {
            length = room;
            T(getsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, name, &length));
            N(length);
        }
        T(sendto(s, "a", 1, 0, (void *)&to, sizeof to));
        T(sendto(s6, "a", 1, 0, (void *)&to6, sizeof to6));
        T(connect(s, (void *)&to, sizeof to));
        T(connect(stream, (void *)&to, sizeof to));
        close(s);
        close(s6);
        close(stream);
    }
}

static void unprivileged(void) {
    PART("without capabilities");
    int s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(setresgid(65534, 65534, 65534));
    MUST(setresuid(65534, 65534, 65534));
    static const int options[][2] = {
        {SO_DEBUG, 0}, {SO_DEBUG, 1}, {SO_PRIORITY, 0}, {SO_PRIORITY, 6}, {SO_PRIORITY, 7}, {SO_PRIORITY, -1}, {SO_MARK, 1},
        {SO_SNDBUFFORCE, 9999}, {SO_RCVBUFFORCE, 9999}, {SO_PREFER_BUSY_POLL, 1}, {SO_PREFER_BUSY_POLL, 0}, {SO_BUSY_POLL, 5},
        {SO_BUSY_POLL_BUDGET, 0}, {SO_BUSY_POLL_BUDGET, 5}, {SO_BUSY_POLL_BUDGET, -5}, {SO_RCVMARK, 1}, {SO_RCVMARK, 0},
        {SO_RCVPRIORITY_, 1}, {SO_RCVPRIORITY_, 0}, {SO_BINDTOIFINDEX, 1}, {SO_BINDTOIFINDEX, 0}, {SO_REUSEPORT, 1}, {SO_ZEROCOPY, 1},
    };
    for (size_t i = 0; i < COUNT(options); i++)
        printf("%d to %d: %s\n", options[i][0], options[i][1], set(s, options[i][0], options[i][1]) ? check_error(errno) : "ok");
    T(setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, "", 0));
    T(setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, "none", 5));
    T(setsockopt(s, SOL_SOCKET, SO_TXTIME, (int[]){CLOCK_MONOTONIC, 3}, 8));
    T(setsockopt(s, SOL_SOCKET, SO_TXTIME, (int[]){CLOCK_TAI, 0}, 8));
    T(setsockopt(s, SOL_SOCKET, SO_TXTIME, (int[]){77, 0}, 8));
    T(setsockopt(s, SOL_SOCKET, SO_TXTIME, (int[]){CLOCK_MONOTONIC, 4}, 8));
    close(s);
}

static void cpus(void) {
    PART("processors");
    int p[2];
    streams(p);
    MUST(send(p[1], "a", 1, 0));
    sleep_ms(5);
    YES(value_of(p[0], SO_INCOMING_CPU) >= 0);
    close_both(p);
    datagrams(AF_INET, p);
    MUST(send(p[1], "a", 1, 0));
    GET(p[0], SO_INCOMING_CPU);
    SET(p[0], SO_INCOMING_CPU, 3);
    GET(p[0], SO_INCOMING_CPU);
    close_both(p);
}

int main(void) {
    int p[2];
    marks(AF_INET);
    marks(AF_INET6);
    datagrams(AF_INET, p);
    stamps("datagrams", p);
    datagrams(AF_INET6, p);
    stamps("datagrams of version 6", p);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    stamps("local datagrams", p);
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p));
    stamps("local packets", p);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    stamps("a local stream", p);
    streams(p);
    stamps("a connection", p);
    lost();
    left();
    filters();
    datagrams(AF_INET, p);
    completions("datagrams", p);
    datagrams(AF_INET6, p);
    completions("datagrams of version 6", p);
    streams(p);
    completions("a connection", p);
    refused();
    device();
    cpus();
    CHILD("unprivileged", unprivileged());
    return 0;
}

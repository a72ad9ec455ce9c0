// UDP in the corners: offsets of peeks, time stamps, errors that wait, filters.
#include "inet.h"
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/sockios.h>

static int on = 1;
static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }
static int get(int s, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, level, name, &value, &length) ? -errno : value;
}
static int bound(const char *address, int port, int reuse) {
    int s = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    if (reuse) MUST(set(s, SOL_SOCKET, reuse, 1));
    struct sockaddr_in a = in4(address, port);
    MUST(bind(s, AS(a)));
    return s;
}
static void got(const char *what, int s, int flags) {
    char data[64] = {0};
    ssize_t n = recv(s, data, 63, flags);
    if (n < 0) printf("%s: %s\n", what, check_error(errno));
    else printf("%s: %zd \"%s\"\n", what, n, data);
}

static void offsets(void) {
    PART("SO_PEEK_OFF");
    int r = bound("127.0.0.1", 0, 0), s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in a = in4("127.0.0.1", port_of(r));
    MUST(connect(s, AS(a)));
    N(get(r, SOL_SOCKET, SO_PEEK_OFF));
    MUST(send(s, "hello", 5, 0)), MUST(send(s, "world", 5, 0));
    T(set(r, SOL_SOCKET, SO_PEEK_OFF, 0));
    char data[8];
    for (int i = 0; i < 5; i++) {
        memset(data, 0, sizeof data);
        T(recv(r, data, 3, MSG_PEEK));
        printf("\"%s\" offset %d\n", data, get(r, SOL_SOCKET, SO_PEEK_OFF));
    }
    got("first", r, 0);
    N(get(r, SOL_SOCKET, SO_PEEK_OFF));
    got("peek", r, MSG_PEEK);
    PART("SIOCGSTAMP");
    struct timeval tv = {0};
    struct timespec ts = {0}, now;
    int fresh = bound("127.0.0.1", 0, 0);
    T(ioctl(fresh, SIOCGSTAMP, &tv));
    T(ioctl(r, SIOCGSTAMP, &tv));
    T(ioctl(r, SIOCGSTAMPNS, &ts));
    clock_gettime(CLOCK_REALTIME, &now);
    YES(now.tv_sec - tv.tv_sec < 5 && now.tv_sec - ts.tv_sec < 5);
    close(r), close(s), close(fresh);
}

static void errors(void) {
    PART("errors that wait");
    int holder = bound("127.0.0.1", 0, 0);
    struct sockaddr_in to = in4("127.0.0.1", port_of(holder));
    close(holder);
    int s = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    T(set(s, SOL_IP, IP_RECVERR, 1));
    T(sendto(s, "lost", 4, 0, AS(to)));
    struct pollfd p = {s, POLLIN | POLLERR, 0};
    T(poll(&p, 1, 500));
    N(p.revents);
    N(get(s, SOL_SOCKET, SO_ERROR));
    N(get(s, SOL_SOCKET, SO_ERROR));
    T(poll(&p, 1, 0));
    char data[16], control[256];
    struct sockaddr_in name;
    struct iovec io = {data, 2};
    struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    T(recvmsg(s, &m, MSG_ERRQUEUE));
    N(m.msg_flags), N(m.msg_namelen);
    YES(name.sin_port == to.sin_port);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        struct sock_extended_err *e = (void *)CMSG_DATA(c);
        printf("level %d kind %d length %zu error %s origin %d type %d code %d offender %d\n", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len, check_error(e->ee_errno), e->ee_origin, e->ee_type, e->ee_code, SO_EE_OFFENDER(e)->sa_family);
    }
    T(recvmsg(s, &m, MSG_ERRQUEUE));
    T(sendto(s, "lost", 4, 0, AS(to)));
    T(sendto(s, "told", 4, 0, AS(to)));
    T(sendto(s, "again", 5, 0, AS(to)));
    T(set(s, SOL_IP, IP_RECVERR, 0));
    got("queue", s, MSG_ERRQUEUE);
    close(s);
    s = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    T(sendto(s, "lost", 4, 0, AS(to)));
    got("not connected: silent", s, 0);
    MUST(connect(s, AS(to)));
    T(send(s, "lost", 4, 0));
    got("connected", s, 0);
    got("once", s, 0);
    close(s);
    PART("too large");
    s = bound("127.0.0.1", 0, 0);
    to = in4("127.0.0.1", port_of(s));
    static char big[70000];
    T(sendto(s, big, 65507, 0, AS(to)));
    T(recv(s, big, sizeof big, 0));
    T(sendto(s, big, 65508, 0, AS(to)));
    T(sendto(s, big, 70000, 0, AS(to)));
    T(sendto(s, big, 0, 0, AS(to)));
    T(recv(s, big, 10, 0));
    T(recv(s, big, 10, 0));
    close(s);
}

static void filters(void) {
    PART("filters");
    int r = bound("127.0.0.1", 0, 0), s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in a = in4("127.0.0.1", port_of(r));
    MUST(connect(s, AS(a)));
    // Takes what begins with 'y'; the header of UDP comes first.
    struct sock_filter first[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 8), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'y', 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {COUNT(first), first};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    MUST(send(s, "no", 2, 0)), MUST(send(s, "yes", 3, 0)), MUST(send(s, "", 0, 0));
    got("filtered", r, 0);
    got("then", r, 0);
    struct sock_filter cut[] = {BPF_STMT(BPF_RET | BPF_K, 8 + 2)};
    program = (struct sock_fprog){1, cut};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    MUST(send(s, "abcdef", 6, 0));
    got("cut", r, 0);
    struct sock_filter length[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 8 + 4, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)};
    program = (struct sock_fprog){COUNT(length), length};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    MUST(send(s, "abc", 3, 0)), MUST(send(s, "abcd", 4, 0)), MUST(send(s, "abcde", 5, 0));
    got("of length 4", r, 0);
    got("then", r, 0);
    struct sock_filter indirect[] = {BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 8), BPF_STMT(BPF_LD | BPF_H | BPF_IND, 1), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'b' << 8 | 'c', 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)};
    program = (struct sock_fprog){COUNT(indirect), indirect};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    MUST(send(s, "abc", 3, 0)), MUST(send(s, "xyz", 3, 0)), MUST(send(s, "ab", 2, 0));
    got("indirect", r, 0);
    got("then", r, 0);
    struct sock_filter nibble[] = {BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 8), BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)};
    program = (struct sock_fprog){COUNT(nibble), nibble};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    MUST(send(s, "ab", 2, 0)), MUST(send(s, "2", 1, 0));
    got("nibble", r, 0);
    T(setsockopt(r, SOL_SOCKET, SO_DETACH_FILTER, &on, sizeof on));
    T(setsockopt(r, SOL_SOCKET, SO_DETACH_FILTER, &on, sizeof on));
    MUST(send(s, "free", 4, 0));
    got("none", r, 0);
    PART("refused filters");
    struct sock_filter bad[] = {BPF_STMT(BPF_LD | BPF_W | BPF_IMM, 0)};
    program = (struct sock_fprog){1, bad};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program = (struct sock_fprog){0, cut};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program = (struct sock_fprog){5000, cut};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    program = (struct sock_fprog){1, BAD};
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program - 1));
    PART("locked filters");
    program = (struct sock_fprog){1, cut};
    N(get(r, SOL_SOCKET, SO_LOCK_FILTER));
    T(set(r, SOL_SOCKET, SO_LOCK_FILTER, 1));
    N(get(r, SOL_SOCKET, SO_LOCK_FILTER));
    T(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    T(setsockopt(r, SOL_SOCKET, SO_DETACH_FILTER, &on, sizeof on));
    T(set(r, SOL_SOCKET, SO_LOCK_FILTER, 0));
    T(set(r, SOL_SOCKET, SO_LOCK_FILTER, 1));
    close(r), close(s);
    PART("local datagrams");
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    first[0].k = 0;
    program = (struct sock_fprog){COUNT(first), first};
    T(setsockopt(p[1], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    T(send(p[0], "no", 2, 0)), T(send(p[0], "yes", 3, 0));
    got("filtered", p[1], MSG_DONTWAIT);
    got("then", p[1], MSG_DONTWAIT);
    close(p[0]), close(p[1]);
}

int main(void) {
    offsets();
    errors();
    filters();
    return 0;
}

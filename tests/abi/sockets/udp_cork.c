// Datagrams in several calls: UDP_CORK and MSG_MORE, with names, sizes, control data, errors, splices; MSG_TRUNC and MSG_CTRUNC.
#include "inet.h"
#include <linux/sockios.h>
#include <sys/sendfile.h>
#define UDP_CORK_ 1
#define UDP_SEGMENT_ 103
#define SOL_UDP_ 17

static int a, b;
static struct sockaddr_in to, elsewhere;
static void show(const char *what) {
    char data[256] = {0};
    struct iovec io = {data, 255};
    struct sockaddr_in from;
    struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &io, .msg_iovlen = 1};
    ssize_t n = recvmsg(b, &m, MSG_DONTWAIT);
    if (n < 0) printf("%s: %s\n", what, check_error(errno));
    else printf("%s: %zd \"%s\" flags %#x\n", what, n, data, m.msg_flags);
}
static int outq(void) {
    int n = -1;
    ioctl(a, SIOCOUTQ, &n);
    return n > 0;
}
static void fresh(int family) {
    if (a) close(a), close(b);
    a = MUST(socket(family, SOCK_DGRAM, 0));
    b = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in any = in4("127.0.0.1", 0);
    MUST(bind(b, AS(any)));
    to = in4("127.0.0.1", port_of(b));
    elsewhere = in4("127.0.0.1", 1);
}

static char large[70000];
static void parts(void) {
    PART("MSG_MORE");
    fresh(AF_INET);
    T(sendto(a, "one ", 4, MSG_MORE, AS(to)));
    show("held");
    YES(outq());
    T(sendto(a, "two ", 4, MSG_MORE, AS(elsewhere)));
    T(send(a, "three", 5, 0));
    show("together");
    YES(outq());
    T(send(a, "x", 1, MSG_MORE));
    MUST(connect(a, AS(to)));
    T(send(a, "x", 1, MSG_MORE));
    T(send(a, "", 0, 0));
    show("ended by nothing");
    T(send(a, "", 0, MSG_MORE));
    T(send(a, "", 0, 0));
    show("nothing twice");
    T(send(a, "x", 1, MSG_MORE));
    T(shutdown(a, SHUT_WR));
    T(send(a, "x", 1, MSG_NOSIGNAL));
    show("after shutdown");
    PART("UDP_CORK");
    fresh(AF_INET);
    MUST(connect(a, AS(to)));
    T(set_int(a, SOL_UDP_, UDP_CORK_, 1));
    T(int_option(a, SOL_UDP_, UDP_CORK_));
    T(write(a, "one ", 4));
    T(write(a, "two", 3));
    show("held");
    T(set_int(a, SOL_UDP_, UDP_CORK_, 1));
    show("set again");
    T(set_int(a, SOL_UDP_, UDP_CORK_, 0));
    show("opened");
    T(set_int(a, SOL_UDP_, UDP_CORK_, 0));
    show("opened again");
    T(set_int(a, SOL_UDP_, UDP_CORK_, 77));
    T(int_option(a, SOL_UDP_, UDP_CORK_));
    T(write(a, "held", 4));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    T(connect(a, &none, sizeof none));
    T(set_int(a, SOL_UDP_, UDP_CORK_, 0));
    show("dissolved meanwhile");
    T(sendto(a, "held", 4, MSG_MORE, AS(to)));
    close(a);
    a = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    show("closed meanwhile");
    PART("too large");
    MUST(connect(a, AS(to)));
    T(send(a, large, 60000, MSG_MORE));
    T(send(a, large, 6000, MSG_MORE));
    T(send(a, "rest", 4, 0));
    T(recv(b, large, sizeof large, MSG_DONTWAIT));
    T(recv(b, large, sizeof large, MSG_DONTWAIT));
    T(send(a, large, 65507, MSG_MORE));
    T(send(a, "", 0, 0));
    T(recv(b, large, sizeof large, MSG_DONTWAIT));
    T(send(a, large, 65508, MSG_MORE));
    T(send(a, "after", 5, 0));
    T(recv(b, large, sizeof large, MSG_DONTWAIT));
    PART("a bad part");
    T(send(a, "good ", 5, MSG_MORE));
    T(send(a, BAD, 5, MSG_MORE));
    T(send(a, "end", 3, 0));
    show("after a fault");
    show("and");
    T(send(a, "good", 4, MSG_MORE | MSG_OOB));
    T(send(a, "good ", 5, MSG_MORE));
    T(send(a, "bad", 3, MSG_OOB));
    T(send(a, "end", 3, 0));
    show("after a bad flag");
    PART("with segments");
    T(set_int(a, SOL_UDP_, UDP_SEGMENT_, 4));
    T(send(a, "abcdef", 6, MSG_MORE));
    T(send(a, "ghij", 4, 0));
    for (int i = 0; i < 4; i++) show("piece");
    T(set_int(a, SOL_UDP_, UDP_SEGMENT_, 0));
    PART("times to live");
    MUST(set_int(b, IPPROTO_IP, IP_RECVTTL, 1));
    T(set_int(a, IPPROTO_IP, IP_TTL, 9));
    T(send(a, "a", 1, MSG_MORE));
    T(set_int(a, IPPROTO_IP, IP_TTL, 10));
    T(send(a, "b", 1, 0));
    char data[8], control[64];
    struct iovec io = {data, 8};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    T(recvmsg(b, &m, MSG_DONTWAIT));
    if (m.msg_controllen) N(*(int *)CMSG_DATA(CMSG_FIRSTHDR(&m)));
    PART("of a file");
    put_file("data", "bytes of a file");
    int file = MUST(open("data", O_RDONLY)), p[2];
    T(sendfile(a, file, NULL, 5));
    show("sendfile");
    T(sendfile(a, file, NULL, 100));
    show("sendfile");
    T(sendfile(a, file, NULL, 100));
    show("sendfile at the end");
    MUST(pipe(p));
    MUST(write(p[1], "spliced", 7));
    T(splice(p[0], NULL, a, NULL, 3, SPLICE_F_MORE));
    show("spliced, more");
    T(splice(p[0], NULL, a, NULL, 100, 0));
    show("spliced");
    MUST(write(p[1], "ab", 2));
    MUST(write(p[1], "cd", 2));
    T(splice(p[0], NULL, a, NULL, 4, 0));
    show("two buffers");
    close(p[0]), close(p[1]), close(file);
}

static void six(void) {
    PART("IPv6");
    fresh(AF_INET6);
    close(b);
    b = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    struct sockaddr_in6 any = in6("::1", 0);
    MUST(bind(b, AS(any)));
    struct sockaddr_in6 at = in6("::1", port_of(b)), mapped = in6("::ffff:127.0.0.1", port_of(b));
    T(sendto(a, "one ", 4, MSG_MORE, AS(at)));
    T(sendto(a, "two", 3, 0, AS(at)));
    show("together");
    T(sendto(a, "one ", 4, MSG_MORE, AS(at)));
    T(sendto(a, "two", 3, 0, AS(mapped)));
    T(sendto(a, "three", 5, 0, AS(at)));
    show("with a mapped one");
    show("rest");
    T(set_int(a, SOL_UDP_, UDP_CORK_, 1));
    T(sendto(a, "one ", 4, 0, AS(at)));
    T(sendto(a, "two", 3, 0, AS(at)));
    T(set_int(a, SOL_UDP_, UDP_CORK_, 0));
    show("corked");
}

static void vectors(void) {
    PART("sendmmsg and recvmmsg");
    fresh(AF_INET);
    MUST(connect(a, AS(to)));
    struct iovec io[4] = {{"ab", 2}, {"cd", 2}, {BAD, 2}, {"ef", 2}};
    struct mmsghdr m[4] = {0};
    for (int i = 0; i < 4; i++) m[i].msg_hdr.msg_iov = &io[i], m[i].msg_hdr.msg_iovlen = 1;
    T(sendmmsg(a, m, 4, 0));
    for (int i = 0; i < 4; i++) printf(" %u", m[i].msg_len);
    puts("");
    T(sendmmsg(a, m + 2, 2, 0));
    T(sendmmsg(a, m, 2, MSG_MORE));
    T(send(a, "!", 1, 0));
    char data[6][4];
    struct iovec in[6];
    struct mmsghdr r[6] = {0};
    for (int i = 0; i < 6; i++) in[i] = (struct iovec){data[i], 3}, r[i].msg_hdr.msg_iov = &in[i], r[i].msg_hdr.msg_iovlen = 1;
    memset(data, 0, sizeof data);
    T(recvmmsg(b, r, 6, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 6; i++) printf(" %u \"%.3s\" %#x", r[i].msg_len, data[i], r[i].msg_hdr.msg_flags);
    puts("");
    T(recvmmsg(b, r, 6, MSG_DONTWAIT, NULL));
    struct timespec limit = {0, 50000000};
    MUST(send(a, "1", 1, 0));
    T(recvmmsg(b, r, 6, MSG_WAITFORONE, &limit));
    YES(limit.tv_sec == 0 && limit.tv_nsec <= 50000000);
    limit = (struct timespec){0, 1000000000};
    T(recvmmsg(b, r, 6, MSG_DONTWAIT, &limit));
    T(recvmmsg(b, r, 0, MSG_DONTWAIT, NULL));
    T(sendmmsg(a, r, 0, 0));
    T(sendmmsg(a, BAD, 1, 0));
    T(recvmmsg(b, BAD, 1, MSG_DONTWAIT, NULL));
    MUST(send(a, "1", 1, 0));
    MUST(send(a, "2", 1, 0));
    in[1].iov_base = BAD;
    T(recvmmsg(b, r, 6, MSG_DONTWAIT, NULL));
    T(recv(b, data[0], 1, MSG_DONTWAIT));
    T(recv(b, data[0], 1, MSG_DONTWAIT));
}

int main(void) {
    parts();
    six();
    vectors();
    return 0;
}

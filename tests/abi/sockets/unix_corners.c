// Local sockets in the corners: buffers, urgent bytes, wrong kinds, shutdown, offsets of peeks, names.
#include "check.h"
#include <linux/sockios.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <pthread.h>

static char big[1 << 20];

static struct sockaddr_un named(const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, name);
    return a;
}
static socklen_t abstract(struct sockaddr_un *a, const char *name) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    sprintf(a->sun_path + 1, "hull-corner-%s-%d", name, getpid());
    return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a->sun_path + 1);
}
static int option(int s, int name, int value) { return setsockopt(s, SOL_SOCKET, name, &value, sizeof value); }
static int flag(int s, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, SOL_SOCKET, name, &value, &length) ? -errno : value;
}
static int request(int s, unsigned long what) {
    int value = -1;
    return ioctl(s, what, &value) ? -errno : value;
}
static int events(int s) {
    struct pollfd p = {s, POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDBAND | POLLWRBAND, 0};
    poll(&p, 1, 0);
    return p.revents;
}
// Writes without blocking until nothing fits: the number of messages.
static int fill(int s, size_t size) {
    int sent = 0;
    while (sent < 100000 && send(s, big, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size) sent++;
    return sent;
}
static void *reader(void *socket) {
    sleep_ms(60);
    // A sender that waits comes to its turn when three quarters have been read.
    while (recv(*(int *)socket, big + (512 << 10), 256 << 10, MSG_DONTWAIT) > 0) {}
    return NULL;
}

static void buffers(int kind, const char *name) {
    int p[2];
    printf("-- buffers, %s\n", name);
    static const int sizes[] = {0, 4608, 10000, 50000, -1};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        MUST(socketpair(AF_UNIX, kind, 0, p));
        T(option(p[0], SO_SNDBUF, sizes[i]));
        N(flag(p[0], SO_SNDBUF));
        static const size_t pieces[] = {1, 100, 1000, 3000, 4096, 8192, 20000};
        for (size_t j = 0; j < COUNT(pieces); j++) {
            int q[2];
            MUST(socketpair(AF_UNIX, kind, 0, q));
            if (sizes[i] >= 0) MUST(option(q[0], SO_SNDBUF, sizes[i]));
            if (kind == SOCK_DGRAM) MUST(option(q[0], SO_SNDBUF, sizes[i] < 0 ? 200000 : sizes[i]));
            int n = fill(q[0], pieces[j]);
            printf("%d of %zu bytes: %s", n, pieces[j], check_error(errno));
                printf(", events %#x inq %d outq %d\n", events(q[0]), request(q[1], SIOCINQ), request(q[0], SIOCOUTQ));
            char one[1];
            T(recv(q[1], one, 1, MSG_DONTWAIT));
            printf("outq %d events %#x\n", request(q[0], SIOCOUTQ), events(q[0]));
            close(q[0]), close(q[1]);
        }
        close(p[0]), close(p[1]);
    }
    MUST(socketpair(AF_UNIX, kind, 0, p));
    MUST(option(p[0], SO_SNDBUF, 5000));
    fill(p[0], 1000);
    PART("too large");
    T(send(p[0], big, 9000, MSG_DONTWAIT));
    T(send(p[0], big, 9968, MSG_DONTWAIT));
    T(send(p[0], big, 9969, MSG_DONTWAIT));
    T(send(p[0], big, 10001, MSG_DONTWAIT));
    PART("blocked, then room");
    pthread_t thread;
    pthread_create(&thread, NULL, reader, &p[1]);
    T(send(p[0], big, 100, 0));
    pthread_join(thread, NULL);
    close(p[0]), close(p[1]);
}

static void more_room(void) {
    PART("a larger SO_SNDBUF gives room at once");
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    MUST(option(p[0], SO_SNDBUF, 5000));
    fill(p[0], 500);
    T(send(p[0], big, 500, MSG_DONTWAIT));
    MUST(option(p[0], SO_SNDBUF, 100000));
    T(send(p[0], big, 500, MSG_DONTWAIT));
    close(p[0]), close(p[1]);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    MUST(option(p[1], SO_RCVBUF, 2000));
    N(fill(p[0], 1000) > 100);
    close(p[0]), close(p[1]);
}

static void got(const char *what, int s, int flags) {
    char data[64] = {0};
    ssize_t n = recv(s, data, 63, flags | MSG_DONTWAIT);
    if (n < 0) printf("%s: %s\n", what, check_error(errno));
    else printf("%s: %zd \"%s\"\n", what, n, data);
}

static volatile int signals;
static void count(int number) {
    (void)number;
    signals++;
}

static void urgent(void) {
    PART("urgent bytes");
    int p[2];
    signal(SIGURG, count);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    MUST(fcntl(p[1], F_SETOWN, getpid()));
    got("none", p[1], MSG_OOB);
    T(send(p[0], "", 0, MSG_OOB));
    T(send(p[0], "abc", 3, MSG_OOB));
    N(signals);
    N(events(p[1]));
    N(request(p[1], SIOCATMARK));
    N(request(p[1], SIOCINQ));
    got("peek", p[1], MSG_PEEK);
    got("peek urgent", p[1], MSG_OOB | MSG_PEEK);
    got("data", p[1], 0);
    N(request(p[1], SIOCATMARK));
    N(events(p[1]));
    got("again", p[1], 0);
    got("urgent", p[1], MSG_OOB);
    got("urgent again", p[1], MSG_OOB);
    N(request(p[1], SIOCATMARK));
    N(events(p[1]));
    T(send(p[0], "xy", 2, MSG_OOB));
    T(send(p[0], "next", 4, 0));
    got("before the mark", p[1], 0);
    N(request(p[1], SIOCATMARK));
    got("behind the mark", p[1], 0);
    got("urgent, passed", p[1], MSG_OOB);
    T(send(p[0], "1", 1, MSG_OOB));
    T(send(p[0], "2", 1, MSG_OOB));
    got("second replaces", p[1], MSG_OOB);
    got("the first", p[1], 0);
    got("and then", p[1], 0);
    PART("inline");
    MUST(option(p[1], SO_OOBINLINE, 1));
    T(send(p[0], "in", 2, MSG_OOB));
    T(send(p[0], "line", 4, 0));
    got("urgent", p[1], MSG_OOB);
    N(events(p[1]));
    got("to the mark", p[1], 0);
    N(request(p[1], SIOCATMARK));
    got("rest", p[1], 0);
    N(events(p[1]));
    MUST(option(p[1], SO_OOBINLINE, 0));
    T(send(p[0], "z", 1, MSG_OOB));
    MUST(shutdown(p[0], SHUT_WR));
    got("before the end", p[1], 0);
    N(events(p[1]));
    got("urgent", p[1], MSG_OOB);
    T(send(p[0], "z", 1, MSG_OOB | MSG_NOSIGNAL));
    close(p[0]), close(p[1]);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    T(send(p[0], "z", 1, MSG_OOB));
    close(p[1]);
    got("unread urgent byte is a reset", p[0], 0);
    got("then", p[0], 0);
    close(p[0]);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    T(send(p[0], "z", 1, MSG_OOB));
    got("urgent", p[1], MSG_OOB);
    close(p[1]);
    got("all was read", p[0], 0);
    close(p[0]);
    PART("an urgent byte out of turn");
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    MUST(send(p[0], "12", 2, 0));
    MUST(send(p[0], "u", 1, MSG_OOB));
    MUST(send(p[0], "34", 2, 0));
    got("urgent", p[1], MSG_OOB);
    N(events(p[1]));
    got("peek", p[1], MSG_PEEK);
    got("to the mark", p[1], 0);
    N(request(p[1], SIOCATMARK));
    got("peek", p[1], MSG_PEEK);
    got("rest", p[1], 0);
    MUST(send(p[0], "u", 1, MSG_OOB));
    got("urgent", p[1], MSG_OOB);
    N(events(p[1]));
    N(request(p[1], SIOCATMARK));
    got("nothing", p[1], 0);
    N(events(p[1]));
    N(request(p[1], SIOCATMARK));
    close(p[0]), close(p[1]);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    T(send(p[0], "z", 1, MSG_OOB));
    got("datagrams", p[1], MSG_OOB);
    N(request(p[1], SIOCATMARK));
    close(p[0]), close(p[1]);
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p));
    T(send(p[0], "z", 1, MSG_OOB));
    got("packets", p[1], MSG_OOB);
    N(request(p[1], SIOCATMARK));
    close(p[0]), close(p[1]);
}

static void kinds(void) {
    PART("wrong kinds");
    static const int kind[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int path = 0; path < 2; path++)
        for (int to = 0; to < 3; to++) {
            struct sockaddr_un a;
            socklen_t length;
            if (path) a = named("kind"), length = sizeof a;
            else length = abstract(&a, "kind");
            int holder = MUST(socket(AF_UNIX, kind[to], 0));
            MUST(bind(holder, (void *)&a, length));
            for (int listening = 0; listening <= (kind[to] != SOCK_DGRAM); listening++) {
                if (listening) MUST(listen(holder, 5));
                for (int from = 0; from < 3; from++) {
                    int s = MUST(socket(AF_UNIX, kind[from], 0));
                    printf("path %d listening %d from %d to %d: %s", path, listening, from, to, connect(s, (void *)&a, length) ? check_error(errno) : "ok");
                    printf(", sendto %s\n", sendto(s, "x", 1, MSG_NOSIGNAL, (void *)&a, length) < 0 ? check_error(errno) : "ok");
                    close(s);
                }
            }
            close(holder);
            unlink("kind");
        }
}

static void datagrams(void) {
    PART("datagrams only from the peer");
    struct sockaddr_un a[3];
    socklen_t length[3];
    int s[3];
    static const char *const names[] = {"0", "1", "2"};
    for (int i = 0; i < 3; i++) {
        length[i] = abstract(&a[i], names[i]);
        s[i] = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
        MUST(bind(s[i], (void *)&a[i], length[i]));
    }
    T(sendto(s[1], "early", 5, 0, (void *)&a[0], length[0]));
    T(sendto(s[2], "kept?", 5, 0, (void *)&a[0], length[0]));
    T(connect(s[0], (void *)&a[1], length[1]));
    got("from 1", s[0], 0);
    got("from 2", s[0], 0);
    T(sendto(s[2], "x", 1, 0, (void *)&a[0], length[0]));
    T(connect(s[2], (void *)&a[0], length[0]));
    T(sendto(s[1], "yes", 3, 0, (void *)&a[0], length[0]));
    got("from 1", s[0], 0);
    T(connect(s[1], (void *)&a[2], length[2]));
    T(send(s[0], "x", 1, 0));
    struct sockaddr none = {AF_UNSPEC};
    T(connect(s[0], &none, sizeof none));
    T(send(s[0], "x", 1, 0));
    T(sendto(s[2], "now", 3, 0, (void *)&a[0], length[0]));
    got("from 2", s[0], 0);
    PART("a peer that goes");
    T(connect(s[2], (void *)&a[0], length[0]));
    close(s[0]);
    N(events(s[2]));
    T(send(s[2], "x", 1, 0));
    T(send(s[2], "x", 1, 0));
    close(s[1]), close(s[2]);
    PART("a full receiver");
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    N(fill(p[0], 10));
    N(events(p[0]));
    got("one", p[1], 0);
    N(events(p[0]));
    while (recv(p[1], big, 10, MSG_DONTWAIT) > 0) {}
    T(send(p[0], "", 0, 0));
    N(events(p[1]));
    T(recv(p[1], big, 10, MSG_DONTWAIT));
    T(recv(p[1], big, 10, MSG_DONTWAIT));
    close(p[0]), close(p[1]);
}

static void ends(int kind) {
    printf("-- shutdown, kind %d\n", kind);
    for (int how = 0; how < 3; how++)
        for (int after = 0; after < 2; after++) {
            int p[2];
            char data[8];
            MUST(socketpair(AF_UNIX, kind, 0, p));
            if (after) MUST(send(p[0], "early", 5, 0)), MUST(send(p[1], "early", 5, 0));
            T(shutdown(p[0], how));
            printf("how %d: own %#x peer %#x\n", how, events(p[0]), events(p[1]));
            T(send(p[0], "x", 1, MSG_NOSIGNAL));
            T(send(p[1], "x", 1, MSG_NOSIGNAL));
            T(recv(p[0], data, 8, MSG_DONTWAIT));
            T(recv(p[0], data, 8, MSG_DONTWAIT));
            T(recv(p[1], data, 8, MSG_DONTWAIT));
            T(recv(p[1], data, 8, MSG_DONTWAIT));
            T(shutdown(p[1], how));
            printf("both: own %#x peer %#x\n", events(p[0]), events(p[1]));
            close(p[0]);
            printf("closed: %#x\n", events(p[1]));
            T(send(p[1], "x", 1, MSG_NOSIGNAL));
            T(recv(p[1], data, 8, MSG_DONTWAIT));
            N(flag(p[1], SO_ERROR));
            close(p[1]);
        }
    int s = MUST(socket(AF_UNIX, kind, 0));
    T(shutdown(s, SHUT_RD));
    T(shutdown(s, 3));
    N(events(s));
    close(s);
    if (kind == SOCK_DGRAM) return;
    struct sockaddr_un a;
    socklen_t length = abstract(&a, "end");
    s = MUST(socket(AF_UNIX, kind, 0));
    MUST(bind(s, (void *)&a, length));
    MUST(listen(s, 0));
    int c = MUST(socket(AF_UNIX, kind, 0)), d = MUST(socket(AF_UNIX, kind | SOCK_NONBLOCK, 0));
    T(connect(c, (void *)&a, length));
    T(connect(d, (void *)&a, length));
    N(events(d));
    N(events(s));
    T(shutdown(s, SHUT_WR));
    T(listen(s, 1));
    T(connect(d, (void *)&a, length));
    T(shutdown(s, SHUT_RD));
    N(events(s));
    T(accept(s, NULL, NULL));
    int e = MUST(socket(AF_UNIX, kind | SOCK_NONBLOCK, 0));
    T(connect(e, (void *)&a, length));
    T(listen(s, 1));
    T(connect(e, (void *)&a, length));
    close(s);
    N(events(c));
    T(send(c, "x", 1, MSG_NOSIGNAL));
    N(flag(c, SO_ERROR));
    got("refused", d, 0);
    got("refused", d, 0);
    close(c), close(d), close(e);
}

static void packets(void) {
    PART("packets are cut");
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p));
    MUST(send(p[0], "0123456789", 10, 0));
    MUST(send(p[0], "next", 4, MSG_EOR));
    MUST(send(p[0], "", 0, 0));
    MUST(send(p[0], "last", 4, 0));
    char data[16] = {0};
    N(request(p[1], SIOCINQ));
    T(recv(p[1], data, 4, MSG_PEEK | MSG_TRUNC));
    T(recv(p[1], data, 4, MSG_PEEK));
    struct iovec io = {data, 4};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    T(recvmsg(p[1], &m, 0));
    N(m.msg_flags);
    io.iov_len = 16;
    T(recvmsg(p[1], &m, 0));
    N(m.msg_flags);
    T(recv(p[1], data, 16, 0));
    T(recv(p[1], data, 16, MSG_WAITALL));
    T(sendto(p[0], "ignored", 7, 0, (void *)&(struct sockaddr_un){AF_UNIX, "nowhere"}, sizeof(struct sockaddr_un)));
    T(write(p[0], NULL, 0));
    close(p[0]), close(p[1]);
}

static void offsets(int kind) {
    printf("-- SO_PEEK_OFF, kind %d\n", kind);
    int p[2];
    MUST(socketpair(AF_UNIX, kind, 0, p));
    N(flag(p[1], SO_PEEK_OFF));
    MUST(send(p[0], "hello", 5, 0));
    MUST(send(p[0], "world", 5, 0));
    T(option(p[1], SO_PEEK_OFF, 0));
    char data[16];
    for (int i = 0; i < 5; i++) {
        memset(data, 0, sizeof data);
        T(recv(p[1], data, 3, MSG_PEEK | MSG_DONTWAIT));
        printf("\"%s\" offset %d\n", data, flag(p[1], SO_PEEK_OFF));
    }
    memset(data, 0, sizeof data);
    T(recv(p[1], data, 2, MSG_DONTWAIT));
    printf("\"%s\" offset %d\n", data, flag(p[1], SO_PEEK_OFF));
    T(option(p[1], SO_PEEK_OFF, 1));
    memset(data, 0, sizeof data);
    T(recv(p[1], data, 16, MSG_PEEK | MSG_DONTWAIT));
    printf("\"%s\" offset %d\n", data, flag(p[1], SO_PEEK_OFF));
    T(option(p[1], SO_PEEK_OFF, -1));
    memset(data, 0, sizeof data);
    T(recv(p[1], data, 16, MSG_PEEK | MSG_DONTWAIT));
    printf("\"%s\" offset %d\n", data, flag(p[1], SO_PEEK_OFF));
    T(option(p[1], SO_PEEK_OFF, -5));
    N(flag(p[1], SO_PEEK_OFF));
    close(p[0]), close(p[1]);
}

static void names(void) {
    PART("names");
    int s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(bind(s, (void *)&(struct sockaddr_un){AF_UNIX}, 2));
    struct sockaddr_un a = {0};
    socklen_t length = sizeof a;
    T(getsockname(s, (void *)&a, &length));
    N(length);
    YES(a.sun_path[0] == 0 && strspn(a.sun_path + 1, "0123456789abcdef") == 5);
    T(listen(s, 1));
    int c = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(connect(c, (void *)&a, length));
    int peer = MUST(accept(s, NULL, NULL));
    close(peer), close(c), close(s);
    s = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(option(s, SO_PASSCRED, 1));
    int to = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    length = abstract(&a, "auto");
    MUST(bind(to, (void *)&a, length));
    T(sendto(s, "x", 1, 0, (void *)&a, length));
    length = sizeof a;
    T(getsockname(s, (void *)&a, &length));
    // A sender that passes credentials got a name.
    N(length);
    struct sockaddr_un from = {0};
    length = sizeof from;
    T(recvfrom(to, big, 10, 0, (void *)&from, &length));
    N(length);
    close(s), close(to);
    PART("paths of every length");
    for (int n = 104; n <= 108; n++) {
        memset(&a, 0, sizeof a);
        a.sun_family = AF_UNIX;
        memset(a.sun_path, 'n', n);
        s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
        T(bind(s, (void *)&a, sizeof a));
        length = sizeof from;
        T(getsockname(s, (void *)&from, &length));
        N(length);
        T(unlink((char[]){[0] = 0}));
        char path[120] = {0};
        memcpy(path, a.sun_path, n);
        T(unlink(path));
        close(s);
    }
    s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    a = named("short");
    T(bind(s, (void *)&a, 2 + 3));
    length = sizeof from;
    T(getsockname(s, (void *)&from, &length));
    N(length);
    T(unlink("sho"));
    struct stat st;
    MUST(fstat(s, &st));
    N(S_ISSOCK(st.st_mode));
    N(st.st_mode & 0777);
    MUST(fchmod(s, 0600));
    MUST(fstat(s, &st));
    N(st.st_mode & 0777);
    T(fchown(s, 5, 6));
    MUST(fstat(s, &st));
    N(st.st_uid), N(st.st_gid);
    close(s);
    umask(027);
    s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    a = named("mask");
    T(bind(s, (void *)&a, sizeof a));
    MUST(stat("mask", &st));
    N(st.st_mode & 0777);
    MUST(fchmod(s, 0640));
    s = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(fchmod(s, 0604));
    unlink("mask");
    T(bind(s, (void *)&a, sizeof a));
    MUST(stat("mask", &st));
    N(st.st_mode & 0777);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    buffers(SOCK_STREAM, "stream");
    buffers(SOCK_DGRAM, "datagram");
    buffers(SOCK_SEQPACKET, "packets");
    more_room();
    urgent();
    kinds();
    datagrams();
    ends(SOCK_STREAM);
    ends(SOCK_SEQPACKET);
    ends(SOCK_DGRAM);
    packets();
    offsets(SOCK_STREAM);
    offsets(SOCK_DGRAM);
    offsets(SOCK_SEQPACKET);
    names();
    return 0;
}

// What every operation says of a local socket in each of its states, and what it leaves behind.
#include "check.h"
#include <linux/sockios.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SIOCUNIXFILE (SIOCPROTOPRIVATE + 0)

static const struct kind {
    const char *name;
    int type;
} kinds[] = {{"stream", SOCK_STREAM}, {"packets", SOCK_SEQPACKET}, {"datagrams", SOCK_DGRAM}};

enum state {
    FRESH, BOUND, LISTENING, WAITED_FOR, LISTENING_SHUT, CLIENT, UNACCEPTED, LISTENER_CLOSED, ACCEPTED, PAIR, PAIR_UNREAD,
    PEER_UNREAD, PEER_CLOSED, PEER_CLOSED_UNREAD, PEER_SHUT_READ, PEER_SHUT_WRITE, SHUT_READ, SHUT_WRITE, SHUT_BOTH, FRESH_SHUT, STATES,
};
static const char *const states[] = {
    "fresh", "bound", "listening", "listening, a client waits", "listening, shut", "client", "client, not accepted", "client, listener closed",
    "accepted", "pair", "pair, unread", "pair, peer has unread", "peer closed", "peer closed with unread", "peer shut reading",
    "peer shut writing", "shut reading", "shut writing", "shut both", "fresh, shut",
};

static socklen_t name(struct sockaddr_un *to, const char *text) {
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(to->sun_path + 1, text);
    return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text);
}
static int named(int type, const char *text) {
    struct sockaddr_un at;
    int s = MUST(socket(AF_UNIX, type | SOCK_NONBLOCK, 0));
    MUST(bind(s, (void *)&at, name(&at, text)));
    return s;
}
static int join(int s, const char *text) {
    struct sockaddr_un to;
    return connect(s, (void *)&to, name(&to, text));
}
// Sockets that belong to a state or an operation.
static int others[16], count;
static int keep(int s) { return others[count++] = s; }

static int make(int type, enum state state) {
    int p[2], s = -1, stream = type != SOCK_DGRAM;
    switch (state) {
    case FRESH:
    case FRESH_SHUT:
        s = MUST(socket(AF_UNIX, type | SOCK_NONBLOCK, 0));
        if (state == FRESH_SHUT) shutdown(s, SHUT_RDWR);
        return s;
    case BOUND:
        return named(type, "own");
    case LISTENING:
    case WAITED_FOR:
    case LISTENING_SHUT:
        s = named(type, "own");
        if (listen(s, 3)) return close(s), -1;
        if (state == WAITED_FOR) MUST(join(keep(MUST(socket(AF_UNIX, type, 0))), "own"));
        if (state == LISTENING_SHUT) shutdown(s, SHUT_RDWR);
        return s;
    case CLIENT:
    case UNACCEPTED:
    case LISTENER_CLOSED:
    case ACCEPTED: {
        int listener = named(type, "peer");
        if (stream) MUST(listen(listener, 3));
        s = MUST(socket(AF_UNIX, type | SOCK_NONBLOCK, 0));
        MUST(join(s, "peer"));
        if (state == LISTENER_CLOSED) return close(listener), s;
        keep(listener);
        if (!stream || state == UNACCEPTED) return s;
        int other = MUST(accept4(listener, NULL, NULL, SOCK_NONBLOCK));
        if (state == CLIENT) return keep(other), s;
        return keep(s), other;
    }
    default:
        break;
    }
    MUST(socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, p));
    switch (state) {
    case PAIR_UNREAD:
        MUST(send(p[1], "unread", 6, 0));
        MUST(send(p[1], "more", 4, 0));
        break;
    case PEER_UNREAD:
        MUST(send(p[0], "unread", 6, 0));
        MUST(send(p[0], "more", 4, 0));
        break;
    case PEER_CLOSED_UNREAD:
        MUST(send(p[0], "unread", 6, 0));
        MUST(send(p[1], "sent", 4, 0));
        // fall through
    case PEER_CLOSED:
        close(p[1]);
        return p[0];
    case PEER_SHUT_READ:
        MUST(shutdown(p[1], SHUT_RD));
        break;
    case PEER_SHUT_WRITE:
        MUST(shutdown(p[1], SHUT_WR));
        break;
    case SHUT_READ:
        MUST(shutdown(p[0], SHUT_RD));
        break;
    case SHUT_WRITE:
        MUST(shutdown(p[0], SHUT_WR));
        break;
    case SHUT_BOTH:
        MUST(shutdown(p[0], SHUT_RDWR));
        break;
    default:
        break;
    }
    keep(p[1]);
    return p[0];
}

static int number; // What an operation read.
static long queue(int s, unsigned long request) {
    number = -7;
    return ioctl(s, request, &number);
}
static long option(int s, int which) {
    number = -7;
    return getsockopt(s, SOL_SOCKET, which, &number, &(socklen_t){4});
}
static long full(int s, int type) {
    int listener = keep(named(type, "full"));
    if (listen(listener, 0)) return -1;
    if (type != SOCK_DGRAM) MUST(join(keep(MUST(socket(AF_UNIX, type, 0))), "full"));
    return join(s, "full");
}
static long good(int s, int type) {
    int listener = keep(named(type, "good"));
    if (type != SOCK_DGRAM) MUST(listen(listener, 3));
    return join(s, "good");
}
static long deaf(int s, int type) {
    keep(named(type, "deaf"));
    return join(s, "deaf");
}
static long unspecified(int s) {
    struct sockaddr to = {.sa_family = AF_UNSPEC};
    return connect(s, &to, sizeof to);
}
static long address(int s, int peer) {
    struct sockaddr_un is;
    socklen_t length = sizeof is;
    memset(&is, 0x5a, sizeof is);
    long result = peer ? getpeername(s, (void *)&is, &length) : getsockname(s, (void *)&is, &length);
    number = result ? -1 : (int)length;
    return result;
}
static long message(int s, int type, int to) {
    struct sockaddr_un at;
    if (to) keep(named(type, "target"));
    socklen_t length = name(&at, "target");
    return sendto(s, "bytes", 5, MSG_NOSIGNAL, to ? (void *)&at : NULL, to ? length : 0);
}
static long get(int s, int flags) {
    char bytes[32];
    return recv(s, bytes, sizeof bytes, flags);
}
static long bind_to(int s, const char *text) {
    struct sockaddr_un at;
    return bind(s, (void *)&at, text ? name(&at, text) : (name(&at, ""), sizeof at.sun_family));
}
static long add(int s) {
    int got = accept4(s, NULL, NULL, SOCK_NONBLOCK);
    if (got >= 0) keep(got);
    return got < 0 ? -1 : 0;
}
static long file_of(int s) {
    int fd = ioctl(s, SIOCUNIXFILE);
    if (fd >= 0) close(fd);
    return fd < 0 ? -1 : 0;
}

#define OPERATIONS(X) \
    X("connect", good(s, type)) X("connect, full", full(s, type)) X("connect, not listening", deaf(s, type)) \
    X("connect, another kind", deaf(s, type == SOCK_DGRAM ? SOCK_STREAM : SOCK_DGRAM)) \
    X("connect, nobody", join(s, "nobody")) X("connect, self", join(s, "own")) X("connect, unspecified", unspecified(s)) \
    X("connect, short", connect(s, (void *)"\1", 1)) X("listen", listen(s, 0)) X("listen, negative", listen(s, -1)) \
    X("bind", bind_to(s, "bound")) X("bind, automatic", bind_to(s, NULL)) X("accept", add(s)) X("shutdown reading", shutdown(s, 0)) \
    X("shutdown writing", shutdown(s, 1)) X("shutdown both", shutdown(s, 2)) X("shutdown 3", shutdown(s, 3)) \
    X("peer's name", address(s, 1)) X("own name", address(s, 0)) X("send", message(s, type, 0)) X("send to", message(s, type, 1)) \
    X("send nothing", send(s, "", 0, MSG_NOSIGNAL)) X("send urgent", send(s, "u", 1, MSG_OOB | MSG_NOSIGNAL)) \
    X("receive", get(s, 0)) X("peek", get(s, MSG_PEEK)) X("receive urgent", get(s, MSG_OOB)) X("receive all", get(s, MSG_WAITALL)) \
    X("receive nothing", recv(s, NULL, 0, 0)) X("receive truncated", recv(s, NULL, 0, MSG_TRUNC)) X("read nothing", read(s, NULL, 0)) \
    X("write nothing", write(s, "", 0)) X("SIOCINQ", queue(s, SIOCINQ)) X("SIOCOUTQ", queue(s, SIOCOUTQ)) \
    X("SIOCATMARK", queue(s, SIOCATMARK)) X("SIOCUNIXFILE", file_of(s)) X("SIOCGSTAMP", ioctl(s, SIOCGSTAMP, (long[2]){0})) \
    X("SO_ERROR", option(s, SO_ERROR)) X("SO_ACCEPTCONN", option(s, SO_ACCEPTCONN)) X("SO_PEERGROUPS", option(s, SO_PEERGROUPS)) \
    X("SO_PEERSEC", option(s, SO_PEERSEC)) X("seek", lseek(s, 0, SEEK_CUR)) X("fsync", fsync(s))

static long run(int s, int type, int operation) {
    int at = 0;
    number = -1;
#define X(what, call) if (operation == at++) return call;
    OPERATIONS(X)
#undef X
    return -1;
}
static const char *const operations[] = {
#define X(what, call) what,
    OPERATIONS(X)
#undef X
};

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int state = 0; state < STATES; state++) {
            printf("-- %s, %s\n", kinds[k].name, states[state]);
            for (int operation = 0; operation < (int)COUNT(operations); operation++) {
                count = 0;
                int s = make(kinds[k].type, state);
                if (s < 0) {
                    printf("cannot be\n");
                } else {
                    errno = 0;
                    long result = run(s, kinds[k].type, operation);
                    int error = errno;
                    struct pollfd after = {s, POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0};
                    poll(&after, 1, 0);
                    printf("%s: ", operations[operation]);
                    if (result < 0) printf("%s", check_error(error));
                    else printf("%ld", result);
                    printf(" (%d), then %#x", number, after.revents);
                    option(s, SO_ERROR);
                    printf(" error %d", number);
                    for (int i = 0; i < count; i++) {
                        struct pollfd other = {others[i], POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0};
                        poll(&other, 1, 0);
                        printf(" %#x", other.revents);
                    }
                    printf("\n");
                    close(s);
                }
                while (count) close(others[--count]);
                if (s < 0) break;
            }
        }
    return 0;
}

// Names of local sockets and their lengths, control data without content, flags, full backlogs, kinds that do not exist.
#include "check.h"
#include <linux/sockios.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SIOCUNIXFILE (SIOCPROTOPRIVATE + 0)
#define HEAD offsetof(struct sockaddr_un, sun_path)

static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

static int fresh(int type) { return MUST(socket(AF_UNIX, type, 0)); }

// Prints what getsockname says with little and much room.
static void names(const char *what, int s, int peer) {
    static const int rooms[] = {0, 1, 2, 3, 4, 10, 109, 110, 111, 128, -1};
    for (size_t i = 0; i < COUNT(rooms); i++) {
        unsigned char bytes[140];
        socklen_t length = rooms[i];
        memset(bytes, 0x5a, sizeof bytes);
        int failed = peer ? getpeername(s, (void *)bytes, &length) : getsockname(s, (void *)bytes, &length);
        size_t stored = sizeof bytes;
        while (stored && bytes[stored - 1] == 0x5a) stored--;
        printf("%s, room %d: %s length %d stored %zu", what, rooms[i], failed ? check_error(errno) : "ok", (int)length, stored);
        if (stored && stored < 4)
            for (size_t j = 0; j < stored; j++) printf(" %02x", bytes[j]);
        printf("\n");
    }
}

static void lengths(void) {
    PART("lengths of names");
    static const int sizes[] = {-1, 0, 1, 2, 3, 4, 5, 50, 108, 109, 110, 111, 112, 128, 129};
    static const char fills[] = {'p', 0};
    for (size_t f = 0; f < COUNT(fills); f++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            char bytes[160];
            memset(bytes, 'n', sizeof bytes);
            *(sa_family_t *)bytes = AF_UNIX;
            bytes[HEAD] = fills[f];
            int a = fresh(SOCK_STREAM), b = fresh(SOCK_DGRAM), c = fresh(SOCK_DGRAM);
            printf("%s, length %d: ", f ? "abstract" : "path", sizes[i]);
            printf("%s ", connect(a, (void *)bytes, sizes[i]) ? check_error(errno) : "ok");
            printf("%s ", sendto(b, "x", 1, 0, (void *)bytes, sizes[i]) < 0 ? check_error(errno) : "ok");
            int bound = bind(c, (void *)bytes, sizes[i]);
            printf("%s ", bound ? check_error(errno) : "ok");
            printf("%s ", sendto(b, "x", 1, 0, (void *)bytes, sizes[i]) < 0 ? check_error(errno) : "ok");
            socklen_t length = sizeof bytes;
            getsockname(c, (void *)bytes, &length);
            printf("%d\n", (int)length);
            if (!bound && length > HEAD && bytes[HEAD]) {
                bytes[length] = 0;
                printf("%s\n", unlink(bytes + HEAD) ? check_error(errno) : "removed");
            }
            close(a);
            close(b);
            close(c);
        }
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, "a\0b", 3);
    int s = fresh(SOCK_DGRAM);
    T(bind(s, (void *)&at, HEAD + 3));
    names("a zero within a path", s, 0);
    close(s);
    T(unlink("a"));
    s = fresh(SOCK_DGRAM);
    memcpy(at.sun_path, "\0\0\0", 3);
    T(bind(s, (void *)&at, HEAD + 3));
    names("zeros", s, 0);
    int other = fresh(SOCK_DGRAM);
    T(bind(other, (void *)&at, HEAD + 2));
    T(connect(other, (void *)&at, HEAD + 3));
    names("zeros of the peer", other, 1);
    close(other);
    other = fresh(SOCK_DGRAM);
    T(bind(other, (void *)&at, HEAD + 3));
    close(other);
    close(s);
    s = fresh(SOCK_STREAM);
    at.sun_family = AF_UNSPEC;
    T(bind(s, (void *)&at, HEAD + 3));
    at.sun_family = AF_INET;
    T(bind(s, (void *)&at, HEAD + 3));
    names("none", s, 0);
    names("none of a peer", s, 1);
    close(s);
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    names("of a pair", p[0], 0);
    names("of a pair's peer", p[0], 1);
    close(p[0]);
    close(p[1]);
}

static void automatic(void) {
    PART("automatic names");
    for (size_t i = 0; i < COUNT(types); i++) {
        struct sockaddr_un at = {.sun_family = AF_UNIX}, is;
        socklen_t length = sizeof is;
        int s = fresh(types[i]), other = fresh(types[i]);
        T(bind(s, (void *)&at, HEAD));
        T(getsockname(s, (void *)&is, &length));
        int digits = 0;
        for (socklen_t j = HEAD + 1; j < length; j++) digits += strchr("0123456789abcdef", is.sun_path[j]) != NULL;
        printf("length %d, first %d, digits %d\n", (int)length, is.sun_path[0], digits);
        T(bind(s, (void *)&at, HEAD));
        at.sun_path[1] = 'x';
        T(bind(s, (void *)&at, HEAD + 2));
        if (types[i] != SOCK_DGRAM) T(listen(s, 1));
        T(bind(other, (void *)&is, length));
        T(connect(other, (void *)&is, length));
        T(connect(other, (void *)&is, HEAD));
        close(s);
        close(other);

        // A sender that wants credentials gets a name.
        static const int options[] = {SO_PASSCRED, 76 /* SO_PASSPIDFD */};
        for (size_t o = 0; o < COUNT(options); o++)
            for (int how = 0; how < 4; how++) {
                s = fresh(types[i]);
                other = fresh(types[i]);
                MUST(bind(other, (void *)&is, length));
                if (types[i] != SOCK_DGRAM) MUST(listen(other, 1));
                MUST(setsockopt(s, SOL_SOCKET, options[o], &(int){1}, 4));
                long result;
                if (how == 0) result = connect(s, (void *)&is, length);
                else if (how == 1) result = sendto(s, "x", 1, MSG_NOSIGNAL, (void *)&is, length);
                else if (how == 2) result = send(s, "x", 1, MSG_NOSIGNAL);
                else result = connect(s, (void *)&is, HEAD);
                int error = errno;
                struct sockaddr_un own;
                socklen_t size = sizeof own;
                MUST(getsockname(s, (void *)&own, &size));
                printf("type %d option %d way %d: %s, then a name of %d\n", types[i], options[o], how, result < 0 ? check_error(error) : "ok", (int)size);
                close(s);
                close(other);
            }
        int p[2];
        MUST(socketpair(AF_UNIX, types[i], 0, p));
        MUST(setsockopt(p[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, 4));
        T(send(p[0], "x", 1, 0));
        names("of a pair", p[0], 0);
        struct sockaddr_un from;
        length = sizeof from;
        char byte;
        T(recvfrom(p[1], &byte, 1, 0, (void *)&from, &length));
        N(length);
        close(p[0]);
        close(p[1]);
    }
}

static void file(void) {
    PART("the file of a name");
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "node"};
    int s = fresh(SOCK_STREAM), client = fresh(SOCK_STREAM);
    MUST(bind(s, (void *)&at, sizeof at));
    MUST(listen(s, 1));
    int fd = ioctl(s, SIOCUNIXFILE);
    YES(fd >= 0);
    struct stat one, other;
    MUST(fstat(fd, &one));
    MUST(stat("node", &other));
    printf("mode %o, %s\n", one.st_mode, one.st_ino == other.st_ino && one.st_dev == other.st_dev ? "the same" : "another");
    printf("flags %#x %#x\n", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    T(read(fd, &one, 1));
    char path[64], place[PATH_MAX], here[PATH_MAX + 8];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, place, sizeof place - 1);
    place[length < 0 ? 0 : length] = 0;
    MUST((long)getcwd(here, PATH_MAX));
    strcat(here, "/node");
    YES(!strcmp(here, place));
    MUST(unlink("node"));
    close(fd);
    fd = ioctl(s, SIOCUNIXFILE);
    YES(fd >= 0);
    MUST(fstat(fd, &one));
    N(one.st_nlink);
    close(fd);
    T(ioctl(client, SIOCUNIXFILE));
    close(s);
    close(client);
    s = fresh(SOCK_STREAM);
    MUST(bind(s, (void *)&at, sizeof at));
    MUST(listen(s, 1));
    client = fresh(SOCK_STREAM);
    MUST(connect(client, (void *)&at, sizeof at));
    int accepted = MUST(accept(s, NULL, NULL));
    close(s);
    fd = ioctl(accepted, SIOCUNIXFILE);
    YES(fd >= 0);
    close(fd);
    T(ioctl(client, SIOCUNIXFILE));
    CHILD("unprivileged", {
        MUST(setresuid(65534, 65534, 65534));
        T(ioctl(accepted, SIOCUNIXFILE));
        T(ioctl(client, SIOCUNIXFILE));
    });
    close(accepted);
    close(client);
    MUST(unlink("node"));
}

static void control(void) {
    PART("control data");
    for (size_t i = 0; i < COUNT(types); i++) {
        int p[2];
        MUST(socketpair(AF_UNIX, types[i], 0, p));
        static const struct { const char *what; size_t length; size_t head; int level, type; } cases[] = {
            {"nothing", 0, 0, 0, 0}, {"one byte", 1, 0, 0, 0}, {"half a header", 15, 16, SOL_SOCKET, SCM_RIGHTS},
            {"a header", 16, 16, SOL_SOCKET, SCM_RIGHTS}, {"no length", 16, 0, SOL_SOCKET, SCM_RIGHTS},
            {"too long", 16, 17, SOL_SOCKET, SCM_RIGHTS}, {"too short", 24, 15, SOL_SOCKET, SCM_RIGHTS},
            {"three bytes", 24, 19, SOL_SOCKET, SCM_RIGHTS}, {"a descriptor", 24, 20, SOL_SOCKET, SCM_RIGHTS},
            {"five bytes", 24, 21, SOL_SOCKET, SCM_RIGHTS}, {"credentials without", 16, 16, SOL_SOCKET, SCM_CREDENTIALS},
            {"short credentials", 32, 24, SOL_SOCKET, SCM_CREDENTIALS}, {"long credentials", 40, 32, SOL_SOCKET, SCM_CREDENTIALS},
            {"unknown type 0", 16, 16, SOL_SOCKET, 0}, {"security", 16, 16, SOL_SOCKET, 3}, {"process", 20, 20, SOL_SOCKET, 4},
            {"unknown type 99", 16, 16, SOL_SOCKET, 99}, {"a mark", 24, 20, SOL_SOCKET, SO_MARK},
            {"another level", 16, 16, SOL_IP, SCM_RIGHTS}, {"another level, too long", 16, 40, SOL_IP, SCM_RIGHTS},
        };
        for (size_t c = 0; c < COUNT(cases); c++) {
            _Alignas(8) char bytes[64] = {0};
            char byte = 'b';
            struct iovec part = {&byte, 1};
            struct cmsghdr head = {.cmsg_len = cases[c].head, .cmsg_level = cases[c].level, .cmsg_type = cases[c].type};
            memcpy(bytes, &head, sizeof head);
            struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = bytes, .msg_controllen = cases[c].length};
            printf("%d %s: %s", types[i], cases[c].what, sendmsg(p[0], &m, 0) < 0 ? check_error(errno) : "sent");
            m.msg_controllen = sizeof bytes;
            ssize_t got = recvmsg(p[1], &m, MSG_DONTWAIT);
            printf(", %s", got < 0 ? check_error(errno) : "received");
            if (got >= 0) printf(" control %zu flags %#x", (size_t)m.msg_controllen, m.msg_flags);
            if (got >= 0 && m.msg_controllen >= 20) close(*(int *)(bytes + 16));
            printf("\n");
        }
        struct msghdr m = {.msg_control = NULL, .msg_controllen = 24};
        T(sendmsg(p[0], &m, 0));
        m.msg_control = BAD;
        T(sendmsg(p[0], &m, 0));
        m.msg_controllen = 8;
        T(sendmsg(p[0], &m, 0));
        m.msg_controllen = 1 << 30;
        T(sendmsg(p[0], &m, 0));
        m.msg_controllen = 0;
        m.msg_namelen = -1;
        T(sendmsg(p[0], &m, 0));
        m.msg_name = BAD;
        T(sendmsg(p[0], &m, 0));
        m.msg_namelen = 0;
        T(sendmsg(p[0], &m, 0));
        close(p[0]);
        close(p[1]);
    }
}

static void flags(void) {
    PART("flags");
    for (size_t i = 0; i < COUNT(types); i++)
        for (int bit = 0; bit < 32; bit++) {
            int p[2];
            char bytes[8] = {0}, more[8] = {0};
            MUST(socketpair(AF_UNIX, types[i] | SOCK_NONBLOCK, 0, p));
            printf("type %d flag %#x:", types[i], 1u << bit);
            ssize_t sent = send(p[0], "abc", 3, (int)(1u << bit));
            if (sent < 0) printf(" %s", check_error(errno));
            else printf(" %zd", sent);
            // MSG_ZEROCOPY is left out: a page count limits it.
            ssize_t got = recv(p[1], bytes, 8, 0);
            printf(" %zd", got);
            MUST(send(p[0], "defg", 4, 0));
            struct iovec part = {more, 3};
            struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_flags = -1};
            got = recvmsg(p[1], &m, (int)(1u << bit));
            if (got < 0) printf(" %s", check_error(errno));
            else printf(" %zd \"%.3s\" %#x", got, more, m.msg_flags);
            got = recv(p[1], bytes, 8, 0);
            printf(" then %zd\n", got);
            close(p[0]);
            close(p[1]);
        }
}

static void unsupported(void) {
    PART("kinds");
    int p[2], *volatile bad = BAD;
    static const int families[] = {AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, 45, 46, -1};
    for (size_t f = 0; f < COUNT(families); f++)
        for (int type = 0; type < 13; type++)
            for (int protocol = -1; protocol < 3; protocol++) {
                if (families[f] != AF_UNIX && type > 6 && type < 10) continue;
                // A pod has no raw sockets, and of netlink's protocols some.
                if (type == SOCK_RAW && (families[f] == AF_INET || families[f] == AF_INET6)) continue;
                if (families[f] == AF_NETLINK && protocol > 0) continue;
                // It has none of packets either, and who may send echoes is a setting.
                if (families[f] == AF_INET && (type == SOCK_PACKET || (type == SOCK_DGRAM && protocol == 1))) continue;
                p[0] = p[1] = -9;
                int pair = socketpair(families[f], type, protocol, p);
                printf("family %d type %d protocol %d: %s", families[f], type, protocol, pair ? check_error(errno) : "a pair");
                if (!pair) {
                    int kind, number;
                    MUST(getsockopt(p[0], SOL_SOCKET, SO_TYPE, &kind, &(socklen_t){4}));
                    MUST(getsockopt(p[0], SOL_SOCKET, SO_PROTOCOL, &number, &(socklen_t){4}));
                    printf(" of type %d protocol %d", kind, number);
                    close(p[0]);
                    close(p[1]);
                }
                int s = socket(families[f], type, protocol);
                printf(", %s\n", s < 0 ? check_error(errno) : "a socket");
                if (s >= 0) close(s);
            }
    T(socketpair(AF_UNIX, SOCK_STREAM | 0x10000, 0, p));
    T(socketpair(AF_UNIX, SOCK_STREAM, 0, bad));
    T(socketpair(AF_INET, SOCK_STREAM, 0, bad));
    T(socketpair(99, 99, 0, bad));
}

static socklen_t listener_name(struct sockaddr_un *at) {
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(at->sun_path + 1, "listener");
    return HEAD + 9;
}
static struct work {
    int s, how;
    pthread_t thread;
} work;
// After a while: accepts, closes, or lets more wait.
static void *later(void *argument) {
    struct work *w = argument;
    sleep_ms(50);
    if (w->how == 0) close(accept(w->s, NULL, NULL));
    else if (w->how == 1) close(w->s);
    else listen(w->s, 5);
    return NULL;
}
static void backlog(void) {
    PART("backlogs");
    static const int sizes[] = {0, 1, 2, 5, -1};
    struct sockaddr_un at;
    socklen_t length = listener_name(&at);
    for (size_t i = 0; i < COUNT(types); i++) {
        if (types[i] == SOCK_DGRAM) continue;
        for (size_t b = 0; b < COUNT(sizes); b++) {
            int s = fresh(types[i]), waiting[12], count = 0;
            MUST(bind(s, (void *)&at, length));
            MUST(listen(s, sizes[b]));
            while (count < 12) {
                waiting[count] = MUST(socket(AF_UNIX, types[i] | SOCK_NONBLOCK, 0));
                if (connect(waiting[count++], (void *)&at, length)) break;
            }
            printf("backlog %d: %d tries, then %s\n", sizes[b], count, count < 12 ? check_error(errno) : "no error");
            if (count < 12) {
                T(listen(s, 9));
                T(connect(waiting[count - 1], (void *)&at, length));
                T(connect(waiting[count - 1], (void *)&at, length));
            }
            while (count) close(waiting[--count]);
            // Connections that were closed can be accepted.
            T(close(accept(s, NULL, NULL)));
            close(s);
        }
        static const char *const how[] = {"accepted", "closed", "raised"};
        for (int h = 0; h < 3; h++) {
            int s = fresh(types[i]), first = fresh(types[i]), second = fresh(types[i]);
            MUST(bind(s, (void *)&at, length));
            MUST(listen(s, 0));
            MUST(connect(first, (void *)&at, length));
            work = (struct work){s, h, 0};
            MUST(-pthread_create(&work.thread, NULL, later, &work));
            int result = connect(second, (void *)&at, length);
            printf("waits until %s: %s\n", how[h], result ? check_error(errno) : "connected");
            pthread_join(work.thread, NULL);
            close(first);
            close(second);
            if (h != 1) close(s);
        }
        int s = fresh(types[i]), first = fresh(types[i]), second = fresh(types[i]);
        MUST(bind(s, (void *)&at, length));
        MUST(listen(s, 0));
        MUST(connect(first, (void *)&at, length));
        MUST(setsockopt(second, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0, 30000}, sizeof(struct timeval)));
        T(connect(second, (void *)&at, length));
        // The connected one, with and without waiting.
        MUST(setsockopt(first, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0, 30000}, sizeof(struct timeval)));
        T(connect(first, (void *)&at, length));
        MUST(fcntl(first, F_SETFL, O_NONBLOCK));
        T(connect(first, (void *)&at, length));
        T(close(accept(s, NULL, NULL)));
        T(connect(first, (void *)&at, length));
        T(connect(s, (void *)&at, length));
        close(s);
        close(first);
        close(second);
    }
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    lengths();
    automatic();
    file();
    control();
    flags();
    unsupported();
    backlog();
    return 0;
}

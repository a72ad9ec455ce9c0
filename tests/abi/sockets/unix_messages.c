// Control data of local sockets: credentials, descriptors, what does not fit, what a later option changes.
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <grp.h>

#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static int on = 1, off = 0;
static union {
    char bytes[512];
    struct cmsghdr align;
} room;

static void option(int s, int name, int value) { MUST(setsockopt(s, SOL_SOCKET, name, &value, sizeof value)); }

// Receives with so much room for control data, and prints all of it.
static ssize_t show(const char *what, int s, size_t bytes, size_t control, int flags) {
    char data[64];
    struct iovec io = {data, bytes};
    memset(&room, 0xee, sizeof room);
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control ? &room : NULL, .msg_controllen = control};
    ssize_t got = recvmsg(s, &m, flags | MSG_DONTWAIT);
    if (got < 0) {
        printf("%s: %s\n", what, check_error(errno));
        return got;
    }
    printf("%s: %zd bytes \"%.*s\" flags %#x control %zu", what, got, (int)(got < (ssize_t)bytes ? got : (ssize_t)bytes), data, m.msg_flags, m.msg_controllen);
    size_t left = m.msg_controllen;
    for (struct cmsghdr *c = (void *)&room; left >= sizeof *c;) {
        printf(" [level %d kind %d length %zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred u = {-2, -2, -2};
            size_t have = c->cmsg_len - sizeof *c;
            memcpy(&u, CMSG_DATA(c), have < sizeof u ? have : sizeof u);
            if (have >= 4) printf(" pid %s", u.pid == getpid() ? "mine" : u.pid == getppid() ? "parent" : u.pid == 0 ? "0" : "other");
            if (have >= 8) printf(" uid %d", (int)u.uid);
            if (have >= 12) printf(" gid %d", (int)u.gid);
        }
        if (c->cmsg_level == SOL_SOCKET && (c->cmsg_type == SCM_RIGHTS || c->cmsg_type == SCM_PIDFD)) {
            int fd = -1;
            for (size_t i = 0; i + 4 <= c->cmsg_len - sizeof *c && i + 20 <= left; i += 4) {
                memcpy(&fd, CMSG_DATA(c) + i, 4);
                printf(" fd %s%s", fcntl(fd, F_GETFD) >= 0 ? "open" : "bad", fcntl(fd, F_GETFD) == 1 ? " cloexec" : "");
                close(fd);
            }
        }
        printf("]");
        size_t step = CMSG_ALIGN(c->cmsg_len);
        if (c->cmsg_len < sizeof *c || step > left) break;
        left -= step;
        c = (void *)((char *)c + step);
    }
    printf("\n");
    return got;
}

static ssize_t with_rights(int s, const char *text, int count) {
    struct iovec io = {(void *)text, strlen(text)};
    memset(&room, 0, sizeof room);
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = CMSG_SPACE(4 * count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(4 * count);
    for (int i = 0; i < count; i++) memcpy(CMSG_DATA(c) + 4 * i, &(int){1}, 4);
    return sendmsg(s, &m, 0);
}

static ssize_t with_credentials(int s, const char *text, int pid, int uid, int gid) {
    struct iovec io = {(void *)text, strlen(text)};
    memset(&room, 0, sizeof room);
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = CMSG_SPACE(12)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_CREDENTIALS;
    c->cmsg_len = CMSG_LEN(12);
    struct ucred u = {pid, uid, gid};
    memcpy(CMSG_DATA(c), &u, 12);
    return sendmsg(s, &m, 0);
}

static int flag(int s, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, SOL_SOCKET, name, &value, &length) ? -errno : value;
}

static void credentials_of(const char *what, int s) {
    struct ucred u = {-2, -2, -2};
    socklen_t length = sizeof u;
    int answer = getsockopt(s, SOL_SOCKET, SO_PEERCRED, &u, &length);
    printf("%s: %d, pid %s uid %d gid %d\n", what, answer, u.pid == getpid() ? "mine" : u.pid == 0 ? "0" : "other", (int)u.uid, (int)u.gid);
}

static void each_kind(int kind, const char *name) {
    int p[2];
    printf("-- credentials, %s\n", name);
    MUST(socketpair(AF_UNIX, kind, 0, p));
    // Sent before anybody asked for credentials: there are none.
    MUST(write(p[0], "early", 5));
    option(p[1], SO_PASSCRED, 1);
    show("early", p[1], 5, 200, 0);
    MUST(write(p[0], "late", 4));
    show("late", p[1], 64, 200, 0);
    // The sender's own option is enough.
    option(p[1], SO_PASSCRED, 0);
    option(p[0], SO_PASSCRED, 1);
    MUST(write(p[0], "sender", 6));
    show("sender's option, not asked", p[1], 64, 200, MSG_PEEK);
    option(p[1], SO_PASSCRED, 1);
    show("sender's option, asked", p[1], 64, 200, 0);
    option(p[0], SO_PASSCRED, 0);
    option(p[1], SO_PASSCRED, 0);
    // Given with the message, they are there whatever the options were.
    T(with_credentials(p[0], "explicit", getpid(), getuid(), getgid()));
    option(p[1], SO_PASSCRED, 1);
    show("explicit", p[1], 64, 200, 0);
    T(with_credentials(p[0], "as root", getpid(), 12, 34));
    show("other ids", p[1], 64, 200, 0);
    T(with_credentials(p[0], "nobody", 1 << 22, 0, 0));
    for (size_t control = 0; control <= 40; control += 4) {
        MUST(write(p[0], "cut", 3));
        char what[32];
        sprintf(what, "room of %zu", control);
        show(what, p[1], 64, control, 0);
    }
    PART("descriptors cut");
    for (size_t control = 0; control <= 64; control += 4) {
        MUST(with_rights(p[0], "r", 3));
        char what[32];
        sprintf(what, "room of %zu", control);
        show(what, p[1], 64, control, control % 8 ? MSG_CMSG_CLOEXEC : 0);
    }
    option(p[1], SO_PASSCRED, 0);
    for (size_t control = 12; control <= 40; control += 2) {
        MUST(with_rights(p[0], "r", 2));
        char what[32];
        sprintf(what, "room of %zu", control);
        show(what, p[1], 64, control, 0);
    }
    PART("peeked");
    MUST(with_rights(p[0], "peek", 2));
    show("peek", p[1], 2, 200, MSG_PEEK);
    show("peek again", p[1], 64, 200, MSG_PEEK);
    show("taken", p[1], 2, 200, 0);
    show("rest", p[1], 64, 200, 0);
    MUST(with_rights(p[0], "none", 1));
    T(recv(p[1], room.bytes, 64, MSG_DONTWAIT));
    PART("pidfds");
    T(setsockopt(p[1], SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on));
    N(flag(p[1], SO_PASSPIDFD));
    MUST(write(p[0], "pidfd", 5));
    show("pidfd", p[1], 64, 200, 0);
    option(p[1], SO_PASSCRED, 1);
    MUST(with_rights(p[0], "all", 1));
    show("all", p[1], 64, 200, 0);
    for (size_t control = 32; control <= 80; control += 4) {
        MUST(with_rights(p[0], "c", 1));
        char what[32];
        sprintf(what, "room of %zu", control);
        show(what, p[1], 64, control, 0);
    }
    PART("the peer");
    credentials_of("peer", p[0]);
    int fd = -1;
    socklen_t length = sizeof fd;
    T(getsockopt(p[0], SOL_SOCKET, SO_PEERPIDFD, &fd, &length) ? -1 : 0);
    N(length);
    if (fd >= 0) {
        N(fcntl(fd, F_GETFD));
        OK(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    }
    PART("rights refused");
    N(flag(p[1], SO_PASSRIGHTS));
    T(setsockopt(p[1], SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off));
    N(flag(p[1], SO_PASSRIGHTS));
    T(with_rights(p[0], "no", 1));
    show("without rights", p[1], 64, 200, 0);
    PART("SO_PASSSEC");
    N(flag(p[1], SO_PASSSEC));
    T(setsockopt(p[1], SOL_SOCKET, SO_PASSSEC, &on, sizeof on));
    N(flag(p[1], SO_PASSSEC));
    MUST(write(p[0], "sec", 3));
    show("no label", p[1], 64, 200, 0);
    close(p[0]);
    close(p[1]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    each_kind(SOCK_STREAM, "stream");
    each_kind(SOCK_DGRAM, "datagram");
    each_kind(SOCK_SEQPACKET, "packets");

    PART("streams are not joined across senders");
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    MUST(write(p[0], "aa", 2));
    option(p[1], SO_PASSCRED, 1);
    MUST(write(p[0], "bb", 2));
    show("first", p[1], 64, 200, 0);
    show("second", p[1], 64, 200, 0);
    MUST(write(p[0], "aa", 2));
    MUST(with_credentials(p[0], "bb", getpid(), 5, 5));
    MUST(write(p[0], "cc", 2));
    option(p[1], SO_PASSCRED, 0);
    show("without the option", p[1], 64, 200, 0);
    MUST(write(p[0], "aa", 2));
    MUST(with_rights(p[0], "bb", 1));
    MUST(write(p[0], "cc", 2));
    MUST(with_rights(p[0], "dd", 1));
    show("rights 1", p[1], 64, 200, 0);
    show("rights 2", p[1], 64, 200, 0);
    show("rights 3", p[1], 64, 200, 0);
    MUST(with_rights(p[0], "aa", 1));
    MUST(write(p[0], "bb", 2));
    show("peeked across", p[1], 64, 200, MSG_PEEK);
    show("taken across", p[1], 64, 200, 0);
    show("left", p[1], 64, 200, 0);
    close(p[0]), close(p[1]);

    PART("accept inherits");
    for (int kind = SOCK_STREAM; kind <= SOCK_SEQPACKET; kind += SOCK_SEQPACKET - SOCK_STREAM) {
        // The directory may be closed to others, so the name is abstract.
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        sprintf(a.sun_path + 1, "hull-messages-%d-%d", kind, getpid());
        int ready[2];
        MUST(pipe(ready));
        int listener = MUST(socket(AF_UNIX, kind, 0));
        MUST(bind(listener, (void *)&a, sizeof a));
        credentials_of("before listen", listener);
        option(listener, SO_PASSCRED, 1);
        T(setsockopt(listener, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on));
        option(listener, SO_SNDBUF, 9000);
        option(listener, SO_RCVBUF, 9000);
        option(listener, SO_KEEPALIVE, 1);
        option(listener, SO_PRIORITY, 3);
        struct timeval tv = {3, 0};
        MUST(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv));
        MUST(listen(listener, 5));
        credentials_of("listening", listener);
        int client = MUST(socket(AF_UNIX, kind, 0));
        credentials_of("fresh", client);
        MUST(connect(client, (void *)&a, sizeof a));
        MUST(write(client, "before accept", 13));
        int server = MUST(accept(listener, NULL, NULL));
        N(flag(server, SO_PASSCRED));
        N(flag(server, SO_PASSPIDFD));
        N(flag(server, SO_SNDBUF));
        N(flag(server, SO_RCVBUF));
        N(flag(server, SO_KEEPALIVE));
        N(flag(server, SO_PRIORITY));
        socklen_t length = sizeof tv;
        MUST(getsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &tv, &length));
        N(tv.tv_sec);
        show("sent before accept", server, 64, 200, 0);
        credentials_of("client's peer", client);
        credentials_of("server's peer", server);
        pid_t child = MUST(fork());
        if (child == 0) {
            char end;
            close(ready[1]);
            int mine = MUST(socket(AF_UNIX, kind, 0));
            MUST(setresgid(7, 9, 0));
            MUST(setresuid(0, 8, 0));
            MUST(connect(mine, (void *)&a, sizeof a));
            MUST(write(mine, "child", 5));
            read(ready[0], &end, 1);
            _exit(0);
        }
        int second = MUST(accept(listener, NULL, NULL));
        credentials_of("child", second);
        struct pollfd came = {second, POLLIN, 0};
        MUST(poll(&came, 1, 5000));
        show("from the child", second, 64, 200, 0);
        int fd = -1;
        length = sizeof fd;
        T(getsockopt(second, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) ? -1 : 0);
        length = sizeof fd;
        T(getsockopt(listener, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) ? -1 : 0);
        close(ready[0]), close(ready[1]);
        reap("the child", child);
        close(client), close(server), close(second), close(listener);
    }
    int udp = MUST(socket(AF_INET, SOCK_DGRAM, 0)), value = 1;
    socklen_t length = sizeof value;
    T(setsockopt(udp, SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    T(setsockopt(udp, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on));
    T(getsockopt(udp, SOL_SOCKET, SO_PASSCRED, &value, &length));
    T(getsockopt(udp, SOL_SOCKET, SO_PEERPIDFD, &value, &length));
    T(getsockopt(udp, SOL_SOCKET, SO_PEERSEC, &value, &length));
    T(getsockopt(udp, SOL_SOCKET, SO_PEERGROUPS, &value, &length));

    PART("SO_PEERGROUPS");
    gid_t groups[4] = {5, 6, 7};
    MUST(setgroups(3, groups));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    gid_t seen[4] = {0};
    length = 4;
    T(getsockopt(p[0], SOL_SOCKET, SO_PEERGROUPS, seen, &length));
    N(length);
    length = sizeof seen;
    T(getsockopt(p[0], SOL_SOCKET, SO_PEERGROUPS, seen, &length));
    N(length);
    N(seen[0]), N(seen[2]);
    length = sizeof seen;
    T(getsockopt(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), SOL_SOCKET, SO_PEERGROUPS, seen, &length));
    return 0;
}

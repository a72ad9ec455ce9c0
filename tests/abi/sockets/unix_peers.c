// Who the peer of a local socket is: of children that ended, of the first process of a namespace, of who listened.
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

#define SO_PASSPIDFD_ 76
#define SO_PEERPIDFD_ 77
#define SCM_PIDFD_ 4

static pid_t child;
// In a namespace of processes: /proc is still that of the one outside.
static bool inside;
// A process in words.
static const char *who(pid_t pid) {
    static char text[32];
    if (pid == getpid()) return "this process";
    if (pid == getppid()) return "the parent";
    if (pid && pid == child) return "the child";
    snprintf(text, sizeof text, pid > 1 ? "another" : "%d", pid);
    return text;
}
static void process(const char *what, int fd) {
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    printf("%s: ", what);
    while (file && !inside && fgets(line, sizeof line, file))
        if (!strncmp(line, "Pid:", 4)) printf("%s", atoi(line + 4) > 0 ? who(atoi(line + 4)) : atoi(line + 4) ? "ended" : "0");
    if (file) fclose(file);
    printf(", signal %s\n", syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) ? check_error(errno) : "ok");
    close(fd);
}
static void peer(const char *what, int s) {
    struct ucred is = {-7, -7, -7};
    socklen_t length = sizeof is;
    int failed = getsockopt(s, SOL_SOCKET, SO_PEERCRED, &is, &length);
    printf("%s: %s, %s %d %d\n", what, failed ? check_error(errno) : "ok", who(is.pid), (int)is.uid, (int)is.gid);
    int fd = -7;
    length = sizeof fd;
    if (getsockopt(s, SOL_SOCKET, SO_PEERPIDFD_, &fd, &length)) printf("%s: no descriptor: %s\n", what, check_error(errno));
    else process(what, fd);
    gid_t groups[64];
    length = sizeof groups;
    printf("%s: groups %s\n", what, getsockopt(s, SOL_SOCKET, SO_PEERGROUPS, groups, &length) ? check_error(errno) : "ok");
}
static void message(const char *what, int s) {
    char byte, control[128];
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(s, &m, MSG_DONTWAIT);
    printf("%s: %s\n", what, got < 0 ? check_error(errno) : "received");
    if (got < 0) return;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        struct ucred is;
        int fd;
        memcpy(&is, CMSG_DATA(c), c->cmsg_type == SCM_CREDENTIALS ? sizeof is : 0);
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
        if (c->cmsg_type == SCM_CREDENTIALS) printf("%s: %s %d %d\n", what, who(is.pid), (int)is.uid, (int)is.gid);
        else if (c->cmsg_type == SCM_PIDFD_ && fd >= 0) process(what, fd);
        else printf("%s: type %d, %s\n", what, c->cmsg_type, check_error(-fd));
    }
}
static long credentials(int s, pid_t pid, uid_t uid, gid_t gid) {
    struct ucred are = {pid, uid, gid};
    char control[CMSG_SPACE(sizeof are)] = {0};
    struct iovec part = {"c", 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof are)};
    memcpy(CMSG_DATA(c), &are, sizeof are);
    return sendmsg(s, &m, MSG_DONTWAIT);
}
static void pass(int s) {
    MUST(setsockopt(s, SOL_SOCKET, SO_PASSCRED, &(int){1}, 4));
    MUST(setsockopt(s, SOL_SOCKET, SO_PASSPIDFD_, &(int){1}, 4));
}
static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static socklen_t named(struct sockaddr_un *at) {
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(at->sun_path + 1, "peers");
    return offsetof(struct sockaddr_un, sun_path) + 6;
}

static void ended(int type) {
    struct sockaddr_un at;
    socklen_t length = named(&at);
    int p[2], stream = type != SOCK_DGRAM;
    printf("-- type %d, of a child that ended\n", type);
    // Messages.
    MUST(socketpair(AF_UNIX, type, 0, p));
    pass(p[1]);
    child = MUST(fork());
    if (!child) {
        for (int i = 0; i < 3; i++) send(p[0], "m", 1, 0);
        _exit(0);
    }
    siginfo_t info;
    MUST(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    message("not reaped", p[1]);
    MUST(waitpid(child, NULL, 0));
    message("reaped", p[1]);
    pid_t old = child;
    T(credentials(p[0], old, 0, 0));
    message("named by another", p[1]);
    peer("pair", p[1]);
    close(p[0]);
    peer("pair, peer closed", p[1]);
    close(p[1]);
    if (!stream) return;
    // Who listens.
    int s = MUST(socket(AF_UNIX, type, 0)), client = MUST(socket(AF_UNIX, type, 0));
    MUST(bind(s, (void *)&at, length));
    peer("before", client);
    peer("bound", s);
    child = MUST(fork());
    if (!child) {
        setresgid(5, 6, 7);
        setresuid(5, 6, 7);
        listen(s, 3);
        peer("listener, itself", s);
        _exit(0);
    }
    MUST(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    peer("listener", s);
    MUST(connect(client, (void *)&at, length));
    peer("listener of the child, not reaped", client);
    MUST(waitpid(child, NULL, 0));
    peer("listener of the child, reaped", client);
    MUST(listen(s, 4));
    peer("after this process listened", client);
    int other = MUST(accept(s, NULL, NULL));
    peer("accepted", other);
    close(other);
    close(client);
    // Who connects.
    child = MUST(fork());
    if (!child) {
        client = socket(AF_UNIX, type, 0);
        setresgid(5, 6, 7);
        setresuid(5, 6, 7);
        connect(client, (void *)&at, length);
        send(client, "m", 1, 0);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    other = MUST(accept(s, NULL, NULL));
    pass(other);
    peer("client that ended", other);
    message("its message", other);
    close(other);
    close(s);
}

static void named_by(void) {
    PART("whom a message may name");
    int p[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
    pass(p[1]);
    child = MUST(fork());
    if (!child) {
        pause();
        _exit(0);
    }
    T(credentials(p[0], getpid(), 0, 0));
    message("itself", p[1]);
    T(credentials(p[0], child, 0, 0));
    message("its child", p[1]);
    T(credentials(p[0], getpid(), 12, 34));
    message("other ids", p[1]);
    T(credentials(p[0], 0, 0, 0));
    T(credentials(p[0], -1, 0, 0));
    T(credentials(p[0], 0x3fffffff, 0, 0));
    T(credentials(p[0], getpid(), -1, 0));
    T(credentials(p[0], getpid(), 0, -1));
    T(credentials(p[1], getpid(), 0, 0));
    kill(child, SIGKILL);
    MUST(waitpid(child, NULL, 0));
    pid_t process = MUST(fork());
    if (!process) {
        pid_t me = getpid();
        setresgid(5, 6, 7);
        setresuid(5, 6, 7);
        T(credentials(p[0], me, 5, 5));
        T(credentials(p[0], me, 6, 6));
        T(credentials(p[0], me, 7, 7));
        T(credentials(p[0], me, 0, 5));
        T(credentials(p[0], me, 5, 0));
        T(credentials(p[0], getppid(), 5, 5));
        T(credentials(p[0], 0x3fffffff, 5, 5));
        _exit(0);
    }
    reap("unprivileged", process);
    close(p[0]);
    close(p[1]);
}

// A process is 1 in a namespace of its own, and its parent nobody there.
static void first(int type) {
    printf("-- type %d, in a namespace of processes\n", type);
    int p[2];
    MUST(socketpair(AF_UNIX, type, 0, p));
    pass(p[0]);
    pass(p[1]);
    pid_t outer = MUST(fork());
    if (!outer) {
        MUST(unshare(CLONE_NEWPID));
        child = MUST(fork());
        if (!child) {
            inside = true;
            N(getpid());
            poll(&(struct pollfd){p[1], POLLIN, 0}, 1, 5000);
            peer("the pair", p[1]);
            message("of the parent", p[1]);
            T(credentials(p[1], 1, 0, 0));
            T(credentials(p[1], 0, 0, 0));
            T(credentials(p[1], 2, 0, 0));
            T(send(p[1], "x", 1, 0));
            int q[2];
            MUST(socketpair(AF_UNIX, type, 0, q));
            pass(q[0]);
            peer("its own pair", q[0]);
            T(send(q[1], "x", 1, 0));
            message("of itself", q[0]);
            _exit(0);
        }
        // Both messages of the child name the process that is its number here.
        MUST(send(p[0], "x", 1, 0));
        MUST(waitpid(child, NULL, 0));
        message("of the first process", p[0]);
        message("the next", p[0]);
        _exit(0);
    }
    reap("outer", outer);
    close(p[0]);
    close(p[1]);
}

int main(void) {
    for (size_t i = 0; i < COUNT(types); i++) ended(types[i]);
    named_by();
    for (size_t i = 0; i < COUNT(types); i++) first(types[i]);
    return 0;
}

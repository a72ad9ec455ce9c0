// Socket pairs: streams, datagrams, sequenced packets; message flags; shutdown; ancillary data.
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static void send_fd(int socket, int fd) {
    struct iovec data = {"f", 1};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    T(sendmsg(socket, &message, 0));
}
static int receive_fd(int socket, int flags) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    T(recvmsg(socket, &message, flags));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int main(void) {
    int s[2];
    char buffer[256] = {0};
    signal(SIGPIPE, SIG_IGN);
    PART("stream");
    T(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    T(write(s[0], "hello", 5));
    T(send(s[0], " world", 6, 0));
    T(recv(s[1], buffer, 4, MSG_PEEK));
    T(recv(s[1], buffer, sizeof buffer, 0));
    printf("%.11s\n", buffer);
    T(recv(s[1], buffer, 1, MSG_DONTWAIT));
    T(write(s[1], "back", 4));
    T(read(s[0], buffer, 2));
    T(recv(s[0], buffer, 100, MSG_TRUNC));
    T(recv(s[0], buffer, 0, MSG_DONTWAIT));
    T(lseek(s[0], 0, SEEK_SET));
    PART("shutdown");
    T(shutdown(s[0], SHUT_WR));
    T(write(s[0], "x", 1));
    T(read(s[1], buffer, 10));
    T(write(s[1], "still", 5));
    T(read(s[0], buffer, 10));
    T(shutdown(s[0], 5));
    T(shutdown(s[0], SHUT_RD));
    T(write(s[1], "x", 1));
    close(s[1]);
    T(read(s[0], buffer, 10));
    T(send(s[0], "x", 1, MSG_NOSIGNAL));
    close(s[0]);
    PART("datagram");
    T(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
    T(send(s[0], "one", 3, 0));
    T(send(s[0], "", 0, 0));
    T(send(s[0], "three", 5, 0));
    T(recv(s[1], buffer, 2, 0));
    T(recv(s[1], buffer, 10, 0));
    T(recv(s[1], buffer, 2, MSG_TRUNC));
    T(recv(s[1], buffer, 10, MSG_DONTWAIT));
    close(s[1]);
    T(send(s[0], "x", 1, 0));
    close(s[0]);
    PART("sequenced packets");
    T(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s));
    N(fcntl(s[0], F_GETFD));
    T(send(s[0], "one", 3, 0));
    T(send(s[0], "two!", 4, 0));
    T(recv(s[1], buffer, 10, 0));
    T(recv(s[1], buffer, 10, 0));
    T(recv(s[1], buffer, 10, 0));
    close(s[0]);
    T(recv(s[1], buffer, 10, 0));
    close(s[1]);
    PART("errors");
    T(socketpair(AF_UNIX, 99, 0, s));
    T(socketpair(AF_UNIX, SOCK_STREAM, 99, s));
    T(socketpair(AF_INET, SOCK_STREAM, 0, s));
    T(socketpair(999, SOCK_STREAM, 0, s));
    T(send(0, "x", 1, 0));
    T(send(99, "x", 1, 0));
    PART("descriptors in messages");
    T(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    put_file("f", "passed");
    int fd = MUST(open("f", O_RDONLY));
    send_fd(s[0], fd);
    int got = receive_fd(s[1], MSG_CMSG_CLOEXEC);
    YES(got >= 0 && got != fd);
    N(fcntl(got, F_GETFD));
    T(read(got, buffer, 10));
    T(lseek(fd, 0, SEEK_CUR));
    int p[2];
    MUST(pipe(p));
    send_fd(s[0], p[1]);
    close(p[1]);
    CHILD("child", {
        got = receive_fd(s[1], 0);
        write(got, "through", 7);
    });
    memset(buffer, 0, sizeof buffer);
    T(read(p[0], buffer, 20));
    puts(buffer);
    T(read(p[0], buffer, 20));
    send_fd(s[0], 999);
    PART("credentials");
    int on = 1;
    T(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    T(send(s[0], "c", 1, 0));
    char control[128];
    struct iovec data = {buffer, 10};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    T(recvmsg(s[1], &message, 0));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    YES(header && header->cmsg_type == SCM_CREDENTIALS);
    if (header) {
        struct ucred *cred = (struct ucred *)CMSG_DATA(header);
        YES(cred->pid == getpid() && cred->uid == geteuid());
    }
    struct ucred peer;
    socklen_t length = sizeof peer;
    T(getsockopt(s[0], SOL_SOCKET, SO_PEERCRED, &peer, &length));
    YES(peer.pid == getpid());
    PART("options");
    int value = 0;
    length = sizeof value;
    T(getsockopt(s[0], SOL_SOCKET, SO_TYPE, &value, &length));
    N(value);
    T(getsockopt(s[0], SOL_SOCKET, SO_DOMAIN, &value, &length));
    N(value);
    T(getsockopt(s[0], SOL_SOCKET, SO_ERROR, &value, &length));
    N(value);
    T(getsockopt(s[0], SOL_SOCKET, SO_ACCEPTCONN, &value, &length));
    N(value);
    T(getsockopt(s[0], SOL_SOCKET, 9999, &value, &length));
    T(getsockopt(99, SOL_SOCKET, SO_TYPE, &value, &length));
    T(getsockopt(0, SOL_SOCKET, SO_TYPE, &value, &length));
    PART("flags of messages");
    int packets[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets));
    for (int flags = 0; flags <= MSG_EOR; flags += MSG_EOR) {
        char byte;
        struct iovec one = {&byte, 1};
        struct msghdr header = {.msg_iov = &one, .msg_iovlen = 1};
        T(send(packets[0], "ab", flags ? 1 : 2, flags));
        T(recvmsg(packets[1], &header, 0));
        N(header.msg_flags);
    }
    PART("a megabyte");
    pid_t child = MUST(fork());
    static char block[1 << 20];
    if (child == 0) {
        close(s[1]);
        memset(block, 'b', sizeof block);
        for (size_t at = 0; at < sizeof block;) at += write(s[0], block + at, sizeof block - at);
        _exit(0);
    }
    close(s[0]);
    size_t total = 0, wrong = 0;
    long n;
    while ((n = read(s[1], block, 10000)) > 0) {
        for (long i = 0; i < n; i++) wrong += block[i] != 'b';
        total += n;
    }
    printf("%zu wrong %zu\n", total, wrong);
    reap("child", child);
    return 0;
}

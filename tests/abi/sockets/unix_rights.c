// Descriptors on their way in messages: how many there may be, and those that nobody can receive any more.
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int send_some(int via, const int *fds, int count) {
    char byte = 0;
    struct iovec piece = {&byte, 1};
    union {
        char room[CMSG_SPACE(250 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    return sendmsg(via, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int receive_one(int via) {
    char byte;
    struct iovec piece = {&byte, 1};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(via, &message, MSG_DONTWAIT) < 0) return -1;
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

// Ends of a socket start the search.
static void end_a_socket(void) { close(socket(AF_UNIX, SOCK_STREAM, 0)); }

static int is_closed(int reader) {
    struct pollfd polled = {.fd = reader, .events = POLLIN};
    for (int i = 0; i < 100; i++) {
        end_a_socket();
        if (poll(&polled, 1, 20) > 0) return polled.revents & POLLHUP;
    }
    return 0;
}

static void circle(int kind) {
    int a[2], told[2];
    pipe(told);
    socketpair(AF_UNIX, kind, 0, a);
    // Each end waits in the other's queue, and the pipe with them.
    int both[2] = {a[0], told[1]};
    YES(send_some(a[0], both, 2) == 1);
    YES(send_some(a[1], &a[1], 1) == 1);
    close(told[1]);
    close(a[0]);
    close(a[1]);
    YES(is_closed(told[0]));
    close(told[0]);
}

static void listener(void) {
    int told[2];
    struct sockaddr name = {.sa_family = AF_UNIX};
    struct sockaddr_storage full;
    socklen_t length = sizeof full;
    pipe(told);
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(server, &name, sizeof(sa_family_t));
    getsockname(server, (void *)&full, &length);
    listen(server, 1);
    YES(connect(client, (void *)&full, length) == 0);
    int both[2] = {server, told[1]};
    YES(send_some(client, both, 2) == 1);
    close(told[1]);
    close(server);
    YES(is_closed(told[0]));
    close(client);
    close(told[0]);
}

// What can still be received stays.
static void reachable(void) {
    int a[2], b[2], told[2];
    pipe(told);
    socketpair(AF_UNIX, SOCK_STREAM, 0, a);
    socketpair(AF_UNIX, SOCK_STREAM, 0, b);
    YES(send_some(b[0], &told[1], 1) == 1);
    YES(send_some(a[0], &b[1], 1) == 1);
    close(told[1]);
    close(b[0]);
    close(b[1]);
    for (int i = 0; i < 10; i++) end_a_socket();
    struct pollfd polled = {.fd = told[0], .events = POLLIN};
    N(poll(&polled, 1, 50));
    int inner = receive_one(a[1]);
    YES(inner >= 0);
    int writer = receive_one(inner);
    YES(write(writer, "x", 1) == 1);
    N(poll(&polled, 1, 0));
    close(a[0]), close(a[1]), close(inner), close(writer), close(told[0]);
}

static void many_circles(void) {
    int done = 0;
    for (; done < 100000; done++) {
        int a[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, a) < 0) break;
        if (send_some(a[0], &a[1], 1) < 0 || send_some(a[1], &a[0], 1) < 0) break;
        close(a[0]);
        close(a[1]);
    }
    N(done);
}

static void limit(void) {
    pid_t child = fork();
    if (child == 0) {
        int a[2], fds[10];
        struct rlimit most = {64, 64};
        YES(setresuid(54321, 54321, 54321) == 0);
        setrlimit(RLIMIT_NOFILE, &most);
        socketpair(AF_UNIX, SOCK_STREAM, 0, a);
        for (int i = 0; i < 10; i++) fds[i] = a[1];
        int sent = 0;
        while (send_some(a[0], fds, 10) == 1) sent++;
        printf("%d messages, then %s\n", sent, strerror(errno));
        T(receive_one(a[1]) < 0);
        T(send_some(a[0], fds, 10));
        T(send_some(a[0], fds, 10));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
}

int main(void) {
    PART("circles");
    circle(SOCK_STREAM);
    circle(SOCK_DGRAM);
    circle(SOCK_SEQPACKET);
    listener();
    reachable();
    many_circles();
    fflush(stdout);
    PART("limit");
    fflush(stdout);
    limit();
    return 0;
}

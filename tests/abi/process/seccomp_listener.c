// Calls that a supervisor answers: seccomp_unotify(2).
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

static int seccomp_(unsigned operation, unsigned flags, const void *args) {
    return syscall(SYS_seccomp, operation, flags, args);
}

// Leaves getpgid(2) to the listener.
static int listen_(unsigned flags) {
    struct sock_filter code[] = {LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
                                 RETURN(SECCOMP_RET_USER_NOTIF), RETURN(SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {COUNT(code), code};
    return seccomp_(SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void send_fd(int through, int fd) {
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    MUST(sendmsg(through, &message, 0));
}

static int receive_fd(int through) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    MUST(recvmsg(through, &message, 0));
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static long asked(void) { return syscall(SYS_getpgid, 11, 22, 33, 44, 55, 66); }

static volatile int handled;
static void on_signal(int number) { handled = number; }

static void catch_signal(int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    MUST(sigaction(SIGUSR1, &action, NULL));
}

// Runs `body` in a child whose calls the parent answers; the listener's descriptor.
static pid_t target(void (*body)(void), unsigned flags, int *listener) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        int fd = MUST(listen_(SECCOMP_FILTER_FLAG_NEW_LISTENER | flags));
        send_fd(pair[1], fd);
        close(fd), close(pair[0]), close(pair[1]);
        body();
        exit(0);
    }
    *listener = receive_fd(pair[0]);
    close(pair[0]), close(pair[1]);
    return child;
}

static struct seccomp_notif take(int listener) {
    struct seccomp_notif notification = {0};
    MUST(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notification));
    return notification;
}

static int answer(int listener, __u64 id, __s64 value, int error, unsigned flags) {
    struct seccomp_notif_resp response = {.id = id, .val = value, .error = error, .flags = flags};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static int add(int listener, __u64 id, unsigned flags, int source, int wanted, unsigned new_flags) {
    struct seccomp_notif_addfd request = {id, flags, source, wanted, new_flags};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &request);
}

static short ready(int listener) {
    struct pollfd entry = {listener, POLLIN | POLLOUT, 0};
    poll(&entry, 1, 0);
    return entry.revents;
}

// Until the listener shows `events`.
static void await(int listener, short events) {
    struct pollfd entry = {listener, events, 0};
    poll(&entry, 1, 10000);
}

static void asks_often(void) {
    T(asked());
    T(asked());
    T(asked());
    N(asked() >= 0 || errno == ESRCH); // whichever process has that number
    T(asked());
}

static void answers(void) {
    PART("answers");
    int listener;
    pid_t child = target(asks_often, 0, &listener);
    await(listener, POLLIN);
    N(ready(listener));
    struct seccomp_notif n = {.flags = 1};
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n));
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, BAD));
    n = take(listener);
    N(n.pid == (unsigned)child);
    N(n.flags);
    N(n.data.nr == SYS_getpgid);
    for (int i = 0; i < 6; i++) N(n.data.args[i]);
    N(ready(listener));
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &n.id));
    __u64 other = n.id + 1;
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &other));
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, BAD));
    T(answer(listener, other, 1, 0, 0));
    T(answer(listener, n.id, 1, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
    T(answer(listener, n.id, 1, 0, 2));
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, BAD));
    T(ioctl(listener, 0x2105));
    T(ioctl(listener, FIONREAD, &other));
    MUST(answer(listener, n.id, 4711, 0, 0));
    n = take(listener);
    MUST(answer(listener, n.id, 5, -EXDEV, 0));
    n = take(listener);
    MUST(answer(listener, n.id, -EPROTO, 0, 0));
    n = take(listener);
    MUST(answer(listener, n.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
    n = take(listener);
    close(listener);
    reap("asks often", child);
}

static void shows_descriptors(void) {
    char text[8] = "";
    long first = asked();
    N(first >= 0 && fcntl(first, F_GETFD) == 0);
    N(pread(first, text, 5, 0));
    puts(text);
    T(asked());
    N(fcntl(100, F_GETFD));
    long last = asked();
    N(last >= 0 && fcntl(last, F_GETFD) == FD_CLOEXEC);
}

static void descriptors(void) {
    PART("descriptors");
    int listener, file = MUST(open("text", O_CREAT | O_RDWR, 0600));
    MUST(write(file, "hello", 5));
    pid_t child = target(shows_descriptors, 0, &listener);
    await(listener, POLLIN);
    struct seccomp_notif n = take(listener);
    T(add(listener, n.id, 4, file, 0, 0));
    T(add(listener, n.id, 0, file, 0, O_NONBLOCK));
    T(add(listener, n.id, 0, file, 100, 0));
    T(add(listener, n.id, 0, 9999, 0, 0));
    T(add(listener, n.id + 1, 0, file, 0, 0));
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, BAD));
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD - 0x10000, &n));
    int fd = MUST(add(listener, n.id, 0, file, 0, 0));
    MUST(answer(listener, n.id, fd, 0, 0));
    n = take(listener);
    T(add(listener, n.id, SECCOMP_ADDFD_FLAG_SETFD, file, 100, O_CLOEXEC));
    MUST(answer(listener, n.id, 0, 0, 0));
    n = take(listener);
    MUST(add(listener, n.id, SECCOMP_ADDFD_FLAG_SEND, file, 0, O_CLOEXEC));
    reap("shows descriptors", child);
    N(ready(listener));
    close(listener);
    close(file);
}

static void is_interrupted(void) {
    catch_signal(0);
    T(asked());
    N(handled);
}

static void is_repeated(void) {
    catch_signal(SA_RESTART);
    T(asked());
    N(handled);
}

static void signals(void) {
    PART("signals");
    int listener;
    pid_t child = target(is_interrupted, 0, &listener);
    struct seccomp_notif n = take(listener);
    MUST(kill(child, SIGUSR1));
    reap("interrupted", child);
    T(answer(listener, n.id, 1, 0, 0));
    close(listener);

    child = target(is_repeated, 0, &listener);
    n = take(listener);
    MUST(kill(child, SIGUSR1));
    await(listener, POLLIN);
    T(answer(listener, n.id, 1, 0, 0));
    n = take(listener);
    MUST(answer(listener, n.id, 2, 0, 0));
    reap("repeated", child);
    close(listener);

    child = target(is_interrupted, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &listener);
    n = take(listener);
    MUST(kill(child, SIGUSR1));
    sleep_ms(20);
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &n.id));
    MUST(answer(listener, n.id, 3, 0, 0));
    reap("waits killable", child);
    close(listener);

    child = target(is_interrupted, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &listener);
    n = take(listener);
    MUST(kill(child, SIGKILL));
    reap("killed", child);
    T(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &n.id));
    close(listener);
}

static void arguments(void) {
    PART("arguments");
    struct seccomp_notif_sizes sizes;
    T(seccomp_(SECCOMP_GET_NOTIF_SIZES, 0, &sizes));
    printf("%d %d %d\n", sizes.seccomp_notif, sizes.seccomp_notif_resp, sizes.seccomp_data);
    T(seccomp_(SECCOMP_GET_NOTIF_SIZES, 1, &sizes));
    T(seccomp_(SECCOMP_GET_NOTIF_SIZES, 0, BAD));
    unsigned action = SECCOMP_RET_USER_NOTIF;
    T(seccomp_(SECCOMP_GET_ACTION_AVAIL, 0, &action));
    T(listen_(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV));
    T(listen_(SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC));
    T(listen_(1 << 10));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    T(listen_(0));
    T(asked());
    int fd = MUST(listen_(SECCOMP_FILTER_FLAG_NEW_LISTENER));
    T(fcntl(fd, F_GETFD));
    T(fcntl(fd, F_GETFL));
    char path[40], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, name, sizeof name - 1));
    puts(name);
    T(read(fd, name, 1));
    T(write(fd, name, 1));
    N(ready(fd));
    T(listen_(SECCOMP_FILTER_FLAG_NEW_LISTENER));
    T(listen_(0));
    close(fd);
    T(asked());
    T(listen_(SECCOMP_FILTER_FLAG_NEW_LISTENER));
}

int main(void) {
    answers();
    descriptors();
    signals();
    CHILD("arguments", arguments());
    return 0;
}

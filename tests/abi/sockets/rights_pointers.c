// recvmsg with memory that can't be written, after descriptors were sent: what is received all the same, and which
// descriptors are left.
#include "check.h"
#include <sys/socket.h>

static int pair[2];
static char data[16], control[256];

static int descriptors(void) {
    int n = 0;
    for (int i = 0; i < 64; i++) n += fcntl(i, F_GETFD) != -1;
    return n;
}

static void send_rights(int count) {
    char room[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec io = {"hello", 5};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(4 * count)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(4 * count);
    MUST(sendmsg(pair[1], &m, 0));
}

static void receive(const char *what, struct msghdr *m, int flags) {
    int before = descriptors();
    long result = recvmsg(pair[0], m, MSG_DONTWAIT | flags);
    int error = errno;
    printf("%s: %ld %s, %+d descriptors", what, result, result < 0 ? check_error(error) : "", descriptors() - before);
    printf(result < 0 ? "\n" : ", control %zu, flags %x\n", m->msg_controllen, m->msg_flags);
    for (int i = pair[0] < pair[1] ? pair[1] + 1 : pair[0] + 1; i < 64; i++) close(i);
}

static void again(void) {
    struct iovec io = {data, sizeof data};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    receive("  again", &m, 0);
}

static void with_pointer(void *bad) {
    struct iovec io = {data, sizeof data};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = bad, .msg_controllen = sizeof control};
    send_rights(2);
    receive("control", &m, 0);
    again();
    send_rights(2);
    m.msg_controllen = sizeof control;
    receive("control, a look", &m, MSG_PEEK);
    again();
    io.iov_base = bad;
    m = (struct msghdr){.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    send_rights(2);
    receive("data", &m, 0);
    again();
    io.iov_base = data;
    m = (struct msghdr){.msg_name = bad, .msg_namelen = 16, .msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                        .msg_controllen = sizeof control};
    send_rights(2);
    receive("name", &m, 0);
    again();
}

int main(void) {
    char *fixed = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(edge + 4096, 4096, PROT_NONE);
    edge += 4096;
    struct msghdr *header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        printf("-- kind %zu\n", kind);
        MUST(socketpair(AF_UNIX, kinds[kind], 0, pair));
        for (int asks = 0; asks < 2; asks++) {
            MUST(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &asks, sizeof asks));
            void *bad[] = {BAD, fixed, edge - 4, edge - 16, edge - 20, edge - 24, edge - 52, edge - 56,
                           KERNEL_ADDRESS, NULL};
            for (size_t i = 0; i < COUNT(bad); i++) {
                printf("pointer %zu, credentials %d\n", i, asks);
                with_pointer(bad[i]);
            }
            printf("a header that can't be written\n");
            struct iovec io = {data, sizeof data};
            mprotect(header, 4096, PROT_READ | PROT_WRITE);
            *header = (struct msghdr){.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                                      .msg_controllen = sizeof control};
            mprotect(header, 4096, PROT_READ);
            send_rights(2);
            int before = descriptors();
            T(recvmsg(pair[0], header, MSG_DONTWAIT));
            printf("%+d descriptors\n", descriptors() - before);
            again();
            int room[] = {0, 4, 15, 16, 17, 19, 20, 23, 24, 27, 28, 32, 40, 48, 52, 56, 64};
            for (size_t i = 0; i < COUNT(room); i++) {
                struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room[i]};
                send_rights(3);
                printf("room %d, ", room[i]);
                receive("three", &m, i % 2 ? MSG_CMSG_CLOEXEC : 0);
            }
        }
        close(pair[0]);
        close(pair[1]);
    }
    return 0;
}

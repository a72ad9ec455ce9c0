// Programs that choose among sockets that share a port.
#include "../check.h"
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <linux/filter.h>
#define MEMBERS 4
static int port;
static int member(int type, bool shared) {
    int fd = MUST(socket(AF_INET, type, 0)); int one = shared;
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(fd, (void *)&at, sizeof at));
    if (type == SOCK_STREAM) MUST(listen(fd, 10));
    if (!port) { socklen_t len = sizeof at; getsockname(fd, (void *)&at, &len); port = ntohs(at.sin_port); }
    return fd;
}
static int attach(int fd, struct sock_filter *code, int len, int name) {
    struct sock_fprog p = {len, code};
    return setsockopt(fd, SOL_SOCKET, name, &p, sizeof p);
}
static struct sock_filter first[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), BPF_STMT(BPF_RET | BPF_A, 0)};
static struct sock_filter second[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 1), BPF_STMT(BPF_RET | BPF_A, 0)};
static struct sock_filter length[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_RET | BPF_A, 0)};
static struct sock_filter two[] = {BPF_STMT(BPF_RET | BPF_K, 2)};
static struct sock_filter wrong[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0)};
static struct sock_filter net_off[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SKF_NET_OFF), BPF_STMT(BPF_RET | BPF_A, 0)};
#define ATTACH(fd, code) T(attach(fd, code, COUNT(code), SO_ATTACH_REUSEPORT_CBPF))
static void show(int *fds, int n, const char *data, int len) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int out = MUST(socket(AF_INET, SOCK_DGRAM, 0)); char buffer[100];
    MUST(sendto(out, data, len, 0, (void *)&at, sizeof at));
    struct pollfd polled[MEMBERS];
    for (int i = 0; i < n; i++) polled[i] = (struct pollfd){fds[i], POLLIN, 0};
    poll(polled, n, 5000);
    for (int i = 0; i < n; i++) {
        ssize_t got = recv(fds[i], buffer, sizeof buffer, MSG_DONTWAIT);
        if (got >= 0) printf("   socket %d got %zd bytes\n", i, got);
    }
    close(out);
}
static void connects(int *fds) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, (void *)&to, sizeof to));
    struct pollfd polled[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) polled[i] = (struct pollfd){fds[i], POLLIN, 0};
    poll(polled, MEMBERS, 5000);
    for (int i = 0; i < MEMBERS; i++) {
        if (polled[i].revents == 0) continue;
        printf("   listener %d\n", i);
        close(accept(fds[i], NULL, NULL));
    }
    close(client);
}

int main(void) {
    int fds[MEMBERS];
    int alone = member(SOCK_DGRAM, false); ATTACH(alone, first); T(attach(alone, wrong, 1, SO_ATTACH_REUSEPORT_CBPF));
    int none = MUST(socket(AF_INET, SOCK_DGRAM, 0)); ATTACH(none, first);
    int one = 1;
    MUST(setsockopt(none, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
    ATTACH(none, two);
    OK(setsockopt(none, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &one, sizeof one));
    OK(setsockopt(none, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &one, sizeof one));
    port = 0;
    for (int i = 0; i < MEMBERS; i++) fds[i] = member(SOCK_DGRAM, true);
    T(attach(fds[0], wrong, 1, SO_ATTACH_REUSEPORT_CBPF));
    ATTACH(fds[1], first);
    for (int i = 0; i < MEMBERS; i++) { char data[4] = {i, 3 - i, 0, 0}; printf("first %d\n", i); show(fds, MEMBERS, data, 4); }
    show(fds, MEMBERS, "\2", 1);
    ATTACH(fds[3], second);
    for (int i = 0; i < MEMBERS; i++) { char data[4] = {i, 3 - i, 0, 0}; printf("second %d\n", i); show(fds, MEMBERS, data, 4); }
    ATTACH(fds[0], length);
    for (int i = 1; i < MEMBERS; i++) { printf("length %d\n", i); show(fds, MEMBERS, "abcdefghij", i); }
    ATTACH(fds[0], two); show(fds, MEMBERS, "abc", 3);
    ATTACH(fds[0], net_off); 
    close(fds[1]);
    PART("a member left");
    ATTACH(fds[0], first);
    fds[1] = fds[3];
    for (int i = 0; i < 3; i++) { char data[4] = {i, 0, 0, 0}; printf("%d\n", i); show(fds, 3, data, 4); }
    PART("detached");
    OK(setsockopt(fds[2], SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &one, sizeof one));
    OK(setsockopt(fds[2], SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &one, sizeof one));
    char data[8]; 
    T(attach(fds[0], first, 0, SO_ATTACH_REUSEPORT_CBPF));
    OK(setsockopt(fds[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, data, 8));
    OK(setsockopt(fds[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, BAD, 16));
    PART("before bind");
    port = 0;
    int early = MUST(socket(AF_INET, SOCK_DGRAM, 0)); MUST(setsockopt(early, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
    ATTACH(early, first);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(early, (void *)&at, sizeof at)); socklen_t len = sizeof at; getsockname(early, (void *)&at, &len); port = ntohs(at.sin_port);
    fds[0] = early; fds[1] = member(SOCK_DGRAM, true); fds[2] = member(SOCK_DGRAM, true);
    for (int i = 0; i < 3; i++) { char data[4] = {i, 0, 0, 0}; printf("%d\n", i); show(fds, 3, data, 4); }
    PART("listeners");
    port = 0;
    for (int i = 0; i < MEMBERS; i++) fds[i] = member(SOCK_STREAM, true);
    ATTACH(fds[0], two);
    for (int i = 0; i < 3; i++) connects(fds);
    ATTACH(fds[0], length);
    for (int i = 0; i < 3; i++) connects(fds);
    int u = MUST(socket(AF_UNIX, SOCK_DGRAM, 0)); ATTACH(u, first);
    return 0;
}

// A client of the peer of tests/tests/network.rs: `udp ADDRESS PORT CLOSED_PORT`. Run on the host and in a pod.
#include "peer.h"
#include <netinet/udp.h>

static void unconnected(void) {
    PART("unconnected");
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    char buffer[3000] = "";
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    T(recv(fd, buffer, 1, MSG_DONTWAIT));
    T(sendto(fd, "hello", 5, 0, (void *)&peer, sizeof peer));
    T(recvfrom(fd, buffer, sizeof buffer, 0, (void *)&from, &size));
    YES(from.sin_addr.s_addr == peer.sin_addr.s_addr && from.sin_port == peer.sin_port);
    T(send(fd, "x", 1, 0));
    T(sendto(fd, "", 0, 0, (void *)&peer, sizeof peer));
    T(recv(fd, buffer, sizeof buffer, 0));
    T(sendto(fd, "longer than that", 16, 0, (void *)&peer, sizeof peer));
    T(recv(fd, buffer, 6, MSG_PEEK));
    T(recv(fd, buffer, 6, MSG_TRUNC));
    for (int i = 0; i < 40; i++) {
        memset(buffer, 'a' + i % 26, 1400);
        MUST(sendto(fd, buffer, 1 + i * 30, 0, (void *)&peer, sizeof peer));
    }
    int wrong = 0;
    for (int i = 0; i < 40; i++) wrong += recv(fd, buffer, sizeof buffer, 0) != 1 + i * 30 || buffer[0] != 'a' + i % 26;
    N(wrong);
    // Errors of unconnected sockets are not told.
    T(sendto(fd, "x", 1, 0, (void *)&closed, sizeof closed));
    usleep(50000);
    T(sendto(fd, "x", 1, 0, (void *)&closed, sizeof closed));
    T(recv(fd, buffer, 1, MSG_DONTWAIT));
    T(sendto(fd, "again", 5, 0, (void *)&peer, sizeof peer));
    T(recv(fd, buffer, sizeof buffer, 0));
    close(fd);
}

static void connected(void) {
    PART("connected");
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    T(connect(fd, (void *)&peer, sizeof peer));
    char buffer[64];
    T(send(fd, "hello", 5, 0));
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    while (!(one.revents & POLLIN)) MUST(poll(&one, 1, 5000));
    YES(one.revents & POLLOUT);
    int queued = 0;
    MUST(ioctl(fd, FIONREAD, &queued));
    N(queued);
    T(read(fd, buffer, sizeof buffer));
    struct mmsghdr messages[4] = {0};
    struct iovec parts[4] = {{"a", 1}, {"bb", 2}, {"ccc", 3}, {"dddd", 4}};
    for (int i = 0; i < 4; i++) messages[i].msg_hdr.msg_iov = &parts[i], messages[i].msg_hdr.msg_iovlen = 1;
    T(sendmmsg(fd, messages, 4, 0));
    char room[4][8];
    for (int i = 0; i < 4; i++) parts[i] = (struct iovec){room[i], 8};
    T(recvmmsg(fd, messages, 4, MSG_WAITFORONE, NULL) > 0);
    struct timeval soon = {0, 50000};
    T(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    while (recv(fd, buffer, sizeof buffer, 0) > 0) {}
    printf("nothing more: %s\n", check_error(errno));
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    T(getpeername(fd, (void *)&name, &size));
    YES(name.sin_port == peer.sin_port);
    close(fd);
    PART("refused");
    fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    T(connect(fd, (void *)&closed, sizeof closed));
    T(send(fd, "x", 1, 0));
    one = (struct pollfd){fd, POLLIN, 0};
    MUST(poll(&one, 1, 5000));
    YES(one.revents & POLLERR);
    T(recv(fd, buffer, 1, 0));
    T(send(fd, "x", 1, 0));
    one.revents = 0;
    MUST(poll(&one, 1, 5000));
    int error = 0;
    size = sizeof error;
    T(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    printf("SO_ERROR: %s\n", check_error(error));
    close(fd);
}

static void large(void) {
    PART("large");
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(connect(fd, (void *)&peer, sizeof peer));
    static char data[65507], back[65507];
    for (size_t i = 0; i < sizeof data; i++) data[i] = i * 13;
    T(send(fd, data, sizeof data, 0));
    T(recv(fd, back, sizeof back, 0));
    N(memcmp(data, back, sizeof data));
    T(send(fd, data, sizeof data + 1, 0));
    int segment = 1000;
    T(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment));
    T(send(fd, data, 3500, 0));
    for (int i = 0; i < 4; i++) T(recv(fd, back, sizeof back, 0));
    close(fd);
}

int main(int count, char **arguments) {
    if (!read_peer(count, arguments)) return 2;
    unconnected();
    connected();
    large();
    return 0;
}

// Readiness of TCP sockets: epoll with levels and edges, select, a full backlog.
#include "inet.h"
#include <sys/epoll.h>
#include <sys/select.h>

static void wait_for(int poller, int timeout_ms) {
    struct epoll_event events[8];
    int found = epoll_wait(poller, events, 8, timeout_ms);
    printf("%d events:", found);
    for (int data = 0; data < 8; data++)
        for (int i = 0; i < found; i++)
            if ((int)events[i].data.u32 == data) printf(" %d: %#x", data, events[i].events);
    printf("\n");
}

static void watch(int poller, int fd, unsigned events, int data) {
    struct epoll_event event = {.events = events, .data.u32 = data};
    MUST(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event));
}

static void levels(unsigned flags) {
    int pair[2], poller = MUST(epoll_create1(0));
    tcp_pair(pair);
    watch(poller, pair[0], EPOLLIN | EPOLLRDHUP | flags, 0);
    watch(poller, pair[1], EPOLLIN | EPOLLOUT | EPOLLRDHUP | flags, 1);
    wait_for(poller, 0);
    wait_for(poller, 0);
    send(pair[0], "abc", 3, 0);
    sleep_ms(10);
    wait_for(poller, 0);
    wait_for(poller, 0);
    RECEIVE(pair[1], 1, 0);
    wait_for(poller, 0);
    send(pair[0], "d", 1, 0);
    sleep_ms(10);
    wait_for(poller, 0);
    RECEIVE(pair[1], 10, 0);
    RECEIVE(pair[1], 10, MSG_DONTWAIT);
    wait_for(poller, 0);
    shutdown(pair[0], SHUT_WR);
    sleep_ms(10);
    wait_for(poller, 0);
    wait_for(poller, 0);
    shutdown(pair[1], SHUT_WR);
    sleep_ms(10);
    wait_for(poller, 0);
    wait_for(poller, 0);
    close(pair[0]);
    close(pair[1]);
    wait_for(poller, 0);
    close(poller);
}

static void room(void) {
    int pair[2], poller = MUST(epoll_create1(0));
    tcp_pair(pair);
    MUST(fcntl(pair[0], F_SETFL, O_NONBLOCK));
    watch(poller, pair[0], EPOLLOUT | EPOLLET, 0);
    wait_for(poller, 0);
    static char block[65536];
    long sent = 0, got, received = 0;
    while ((got = send(pair[0], block, sizeof block, 0)) > 0) sent += got;
    printf("%s\n", check_error(errno));
    // The receiver's window may still grow for a moment.
    sleep_ms(50);
    while ((got = send(pair[0], block, sizeof block, 0)) > 0) sent += got;
    while (received < sent && (got = recv(pair[1], block, sizeof block, 0)) > 0) received += got;
    YES(received == sent);
    wait_for(poller, 1000);
    wait_for(poller, 0);
    close(pair[0]);
    close(pair[1]);
    close(poller);
}

static void others(void) {
    int pair[2];
    PART("select");
    tcp_pair(pair);
    send(pair[0], "x", 1, MSG_OOB);
    sleep_ms(10);
    fd_set in, out, urgent;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&urgent);
    FD_SET(pair[1], &in);
    FD_SET(pair[1], &out);
    FD_SET(pair[1], &urgent);
    struct timeval now = {0, 0};
    T(select(pair[1] + 1, &in, &out, &urgent, &now));
    printf("in %d, out %d, urgent %d\n", !!FD_ISSET(pair[1], &in), !!FD_ISSET(pair[1], &out), !!FD_ISSET(pair[1], &urgent));
    close(pair[0]);
    close(pair[1]);

    PART("a reset");
    int poller = MUST(epoll_create1(0));
    tcp_pair(pair);
    watch(poller, pair[0], EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 0);
    wait_for(poller, 0);
    struct linger hard = {1, 0};
    setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(pair[1]);
    wait_for(poller, 1000);
    wait_for(poller, 0);
    close(pair[0]);

    PART("connecting");
    int server = listener4(5);
    watch(poller, server, EPOLLIN | EPOLLET, 1);
    struct sockaddr_in to = in4("127.0.0.1", port_of(server));
    int client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    watch(poller, client, EPOLLIN | EPOLLOUT | EPOLLET, 2);
    wait_for(poller, 0);
    T(connect(client, AS(to)));
    sleep_ms(10);
    wait_for(poller, 1000);
    int end = accept(server, NULL, NULL);
    wait_for(poller, 0);
    close(end);
    close(client);

    PART("a full backlog");
    int small = listener4(0), clients[2];
    to.sin_port = htons(port_of(small));
    for (int i = 0; i < 2; i++) {
        clients[i] = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        T(connect(clients[i], AS(to)));
    }
    T(poll_now(clients[0], 1000));
    T(poll_now(clients[1], 50));
    T(connect(clients[1], AS(to)));
    T(send(clients[1], "x", 1, 0));
    RECEIVE(clients[1], 1, 0);
    show_name("peer", clients[1], 1);
    end = MUST(accept(small, NULL, NULL));
    T(poll_now(clients[1], 10000));
    T(connect(clients[1], AS(to)));
    close(end);
    end = MUST(accept(small, NULL, NULL));
    send(clients[1], "late", 4, 0);
    RECEIVE(end, 10, 0);
}

int main(void) {
    PART("levels");
    levels(0);
    PART("edges");
    levels(EPOLLET);
    PART("room");
    room();
    others();
    return 0;
}

// TCP over the loopback device: connections, streams, their ends.
#include "inet.h"
#include <sys/sendfile.h>

static volatile int pipes;
static void on_pipe(int number) { (void)number, pipes++; }

static void states(void) {
    PART("fresh sockets");
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(poll_now(fd, 0));
    RECEIVE(fd, 10, 0);
    T(send(fd, "x", 1, MSG_NOSIGNAL));
    T(shutdown(fd, SHUT_RDWR));
    T(shutdown(fd, 7));
    T(accept(fd, NULL, NULL));
    show_name("own", fd, 0);
    show_name("peer", fd, 1);
    T(listen(fd, 1));
    show_name("own after listen", fd, 0);
    T(poll_now(fd, 0));
    RECEIVE(fd, 10, 0);
    T(send(fd, "x", 1, MSG_NOSIGNAL));
    int n = 0;
    T(ioctl(fd, FIONREAD, &n));
    T(int_option(fd, SOL_SOCKET, SO_ACCEPTCONN));
    struct sockaddr_in to = in4("127.0.0.1", port_of(fd));
    T(connect(fd, AS(to)));
    T(listen(fd, 3));
    int nb = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    struct sockaddr_in any = in4("127.0.0.1", 0);
    MUST(bind(nb, AS(any)));
    T(listen(nb, 0));
    T(accept(nb, NULL, NULL));
    close(nb);
    close(fd);
    T(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    T(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
    T(socket(AF_INET, SOCK_SEQPACKET, 0));
    T(socket(AF_INET, SOCK_STREAM, -1));
    T(socket(AF_INET, SOCK_STREAM, 1000));
    T(socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){0, 0}));
}

static void connections(void) {
    PART("connections");
    int server = listener4(5);
    int port = port_of(server);
    struct sockaddr_in to = in4("127.0.0.1", port);
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(poll_now(server, 0));
    T(connect(client, AS(to)));
    T(connect(client, AS(to)));
    show_name("client", client, 0);
    show_name("client's peer", client, 1);
    T(poll_now(server, 1000));
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    int end = accept4(server, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
    show_address("accepted", &from, len);
    YES(ntohs(from.sin_port) == port_of(client));
    YES(port_of(end) == port);
    show_name("end", end, 0);
    T(fcntl(end, F_GETFD));
    T(fcntl(end, F_GETFL) & O_NONBLOCK);
    T(poll_now(client, 0));
    T(poll_now(end, 0));
    T(send(client, "hello", 5, 0));
    int n = 0;
    T(poll_now(end, 1000));
    T(ioctl(end, FIONREAD, &n));
    N(n);
    RECEIVE(end, 2, MSG_PEEK);
    RECEIVE(end, 2, 0);
    RECEIVE(end, 1, MSG_TRUNC);
    RECEIVE(end, 10, 0);
    RECEIVE(end, 10, MSG_DONTWAIT);
    T(write(end, "answer", 6));
    char buffer[20];
    len = sizeof from;
    T(recvfrom(client, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len));
    N(len);
    T(sendto(client, "z", 1, 0, AS(to)));
    RECEIVE(end, 10, 0);
    PART("ends");
    T(shutdown(client, SHUT_WR));
    T(poll_now(end, 1000));
    T(poll_now(client, 0));
    RECEIVE(end, 10, 0);
    T(send(client, "x", 1, MSG_NOSIGNAL));
    T(send(end, "still", 5, 0));
    RECEIVE(client, 10, 0);
    T(shutdown(end, SHUT_WR));
    sleep_ms(20);
    T(poll_now(end, 0));
    T(poll_now(client, 0));
    RECEIVE(client, 10, 0);
    RECEIVE(end, 10, 0);
    show_name("peer after both", client, 1);
    show_name("own after both", client, 0);
    T(shutdown(client, SHUT_RD));
    T(connect(client, AS(to)));
    close(client);
    close(end);

    PART("other addresses of the network");
    int all = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in any = in4("0.0.0.0", 0);
    MUST(bind(all, AS(any)));
    MUST(listen(all, 5));
    const char *names[] = {"127.0.0.2", "0.0.0.0", "127.255.255.254"};
    for (size_t i = 0; i < COUNT(names); i++) {
        client = MUST(socket(AF_INET, SOCK_STREAM, 0));
        struct sockaddr_in there = in4(names[i], port_of(all));
        T(connect(client, AS(there)));
        end = MUST(accept(all, NULL, NULL));
        show_name("client", client, 0);
        show_name("peer", client, 1);
        show_name("end", end, 0);
        close(client);
        close(end);
    }
    client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in own = in4("127.0.0.7", 0);
    T(bind(client, AS(own)));
    struct sockaddr_in there = in4("127.0.0.9", port_of(all));
    T(connect(client, AS(there)));
    len = sizeof from;
    end = MUST(accept(all, (struct sockaddr *)&from, &len));
    show_address("accepted", &from, len);
    close(client);
    close(end);
    close(all);
    close(server);

    PART("refused");
    client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    T(connect(client, AS(to)));
    T(int_option(client, SOL_SOCKET, SO_ERROR));
    show_name("peer", client, 1);
    T(connect(client, AS(to)));
    close(client);
    client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    T(connect(client, AS(to)));
    T(poll_now(client, 1000));
    T(connect(client, AS(to)));
    T(poll_now(client, 0));
    T(connect(client, AS(to)));
    T(poll_now(client, 1000));
    T(int_option(client, SOL_SOCKET, SO_ERROR));
    T(int_option(client, SOL_SOCKET, SO_ERROR));
    T(poll_now(client, 0));
    T(connect(client, AS(to)));
    close(client);

    PART("without waiting");
    server = listener4(5);
    to = in4("127.0.0.1", port_of(server));
    client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    T(connect(client, AS(to)));
    T(poll_now(client, 1000));
    T(int_option(client, SOL_SOCKET, SO_ERROR));
    T(connect(client, AS(to)));
    T(connect(client, AS(to)));
    T(send(client, "early", 5, 0));
    T(fcntl(server, F_SETFL, O_NONBLOCK));
    end = MUST(accept(server, NULL, NULL));
    T(fcntl(end, F_GETFL) & O_NONBLOCK);
    T(accept(server, NULL, NULL));
    RECEIVE(end, 10, 0);
    close(end);
    close(client);

    PART("bad addresses");
    client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in6 six = in6("::1", 1);
    T(connect(client, AS(six)));
    T(connect(client, (struct sockaddr *)&to, 8));
    T(connect(client, (struct sockaddr *)&to, 1));
    T(connect(client, (struct sockaddr *)&to, -1));
    T(connect(client, (struct sockaddr *)&to, 1000));
    T(connect(client, BAD, sizeof to));
    struct sockaddr none = {AF_UNSPEC, {0}};
    T(connect(client, &none, sizeof none));
    struct sockaddr_in group = in4("127.255.255.255", 1);
    T(connect(client, AS(group)));
    T(connect(client, AS(to)));
    T(connect(client, &none, sizeof none));
    show_name("peer", client, 1);
    T(connect(client, AS(to)));
    show_name("peer", client, 1);
    close(client);
    close(server);
}

static void resets(void) {
    int pair[2];
    signal(SIGPIPE, on_pipe);
    PART("closed with unread bytes");
    tcp_pair(pair);
    T(send(pair[0], "unread", 6, 0));
    T(poll_now(pair[1], 1000));
    close(pair[1]);
    T(poll_now(pair[0], 1000));
    T(int_option(pair[0], SOL_SOCKET, SO_ERROR));
    RECEIVE(pair[0], 10, 0);
    T(send(pair[0], "x", 1, 0));
    N(pipes);
    show_name("peer", pair[0], 1);
    close(pair[0]);

    tcp_pair(pair);
    send(pair[0], "unread", 6, 0);
    poll_now(pair[1], 1000);
    close(pair[1]);
    RECEIVE(pair[0], 10, 0);
    RECEIVE(pair[0], 10, 0);
    close(pair[0]);

    tcp_pair(pair);
    send(pair[0], "unread", 6, 0);
    send(pair[1], "kept", 4, 0);
    poll_now(pair[1], 1000);
    poll_now(pair[0], 1000);
    close(pair[1]);
    sleep_ms(20);
    RECEIVE(pair[0], 10, 0);
    RECEIVE(pair[0], 10, 0);
    RECEIVE(pair[0], 10, 0);
    close(pair[0]);

    PART("written to a closed peer");
    pipes = 0;
    tcp_pair(pair);
    T(send(pair[0], "last words", 10, 0));
    close(pair[0]);
    T(poll_now(pair[1], 1000));
    T(send(pair[1], "x", 1, 0));
    sleep_ms(20);
    T(poll_now(pair[1], 0));
    RECEIVE(pair[1], 20, 0);
    T(send(pair[1], "x", 1, 0));
    T(write(pair[1], "x", 1));
    N(pipes);
    RECEIVE(pair[1], 20, 0);
    T(int_option(pair[1], SOL_SOCKET, SO_ERROR));
    close(pair[1]);

    tcp_pair(pair);
    close(pair[0]);
    poll_now(pair[1], 1000);
    RECEIVE(pair[1], 20, 0);
    T(send(pair[1], "x", 1, 0));
    sleep_ms(20);
    T(int_option(pair[1], SOL_SOCKET, SO_ERROR));
    RECEIVE(pair[1], 20, 0);
    T(send(pair[1], "x", 1, MSG_NOSIGNAL));
    close(pair[1]);

    PART("lingering for no time");
    tcp_pair(pair);
    struct linger now = {1, 0};
    T(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &now, sizeof now));
    close(pair[0]);
    T(poll_now(pair[1], 1000));
    RECEIVE(pair[1], 20, 0);
    RECEIVE(pair[1], 20, 0);
    close(pair[1]);

    PART("lingering");
    tcp_pair(pair);
    struct linger later = {1, 5};
    T(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &later, sizeof later));
    send(pair[0], "bye", 3, 0);
    T(close(pair[0]));
    RECEIVE(pair[1], 20, 0);
    RECEIVE(pair[1], 20, 0);
    close(pair[1]);

    PART("a connection that nobody accepted");
    int server = listener4(5);
    struct sockaddr_in to = in4("127.0.0.1", port_of(server));
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, AS(to)));
    close(server);
    T(poll_now(client, 1000));
    RECEIVE(client, 10, 0);
    T(connect(client, AS(to)));
    close(client);
    PART("a connection that ended before it was accepted");
    server = listener4(5);
    to = in4("127.0.0.1", port_of(server));
    client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, AS(to)));
    send(client, "gone", 4, 0);
    close(client);
    int end = accept(server, NULL, NULL);
    RECEIVE(end, 10, 0);
    RECEIVE(end, 10, 0);
    close(end);
    PART("a listener that is shut down");
    T(shutdown(server, SHUT_WR));
    T(poll_now(server, 0));
    T(shutdown(server, SHUT_RD));
    T(poll_now(server, 0));
    T(accept(server, NULL, NULL));
    T(listen(server, 1));
    T(poll_now(server, 0));
    close(server);

    PART("reading was shut down");
    tcp_pair(pair);
    T(shutdown(pair[1], SHUT_RD));
    T(poll_now(pair[1], 0));
    RECEIVE(pair[1], 10, 0);
    T(send(pair[0], "more", 4, MSG_NOSIGNAL));
    sleep_ms(20);
    RECEIVE(pair[1], 10, 0);
    RECEIVE(pair[1], 10, 0);
    close(pair[0]);
    close(pair[1]);
    signal(SIGPIPE, SIG_DFL);
    CHILD("a writer without a handler", {
        tcp_pair(pair);
        shutdown(pair[0], SHUT_WR);
        send(pair[0], "x", 1, 0);
    });
}

static void waits(void) {
    int pair[2];
    PART("waiting");
    tcp_pair(pair);
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(30);
        send(pair[1], "part", 4, 0);
        sleep_ms(30);
        send(pair[1], " and rest", 9, 0);
        sleep_ms(30);
        _exit(0);
    }
    close(pair[1]);
    RECEIVE(pair[0], 13, MSG_WAITALL);
    RECEIVE(pair[0], 13, 0);
    reap("child", child);
    close(pair[0]);

    tcp_pair(pair);
    struct timeval soon = {0, 30000};
    T(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    RECEIVE(pair[0], 13, 0);
    send(pair[1], "ab", 2, 0);
    RECEIVE(pair[0], 13, MSG_WAITALL);
    T(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon));
    T(set_int(pair[0], SOL_SOCKET, SO_RCVLOWAT, 4));
    T(int_option(pair[0], SOL_SOCKET, SO_RCVLOWAT));
    send(pair[1], "abc", 3, 0);
    sleep_ms(10);
    T(poll_now(pair[0], 0));
    send(pair[1], "d", 1, 0);
    sleep_ms(10);
    T(poll_now(pair[0], 0));
    RECEIVE(pair[0], 13, 0);
    static char block[65536];
    long sent = 0, got;
    while ((got = send(pair[0], block, sizeof block, 0)) > 0) sent += got;
    printf("sending stopped: %s\n", check_error(errno));
    YES(sent > 100000);
    T(poll_now(pair[0], 0));
    long received = 0;
    while ((got = recv(pair[1], block, sizeof block, MSG_DONTWAIT)) > 0) {
        received += got;
        if (received == sent) break;
    }
    while (received < sent && (got = recv(pair[1], block, sizeof block, 0)) > 0) received += got;
    YES(received == sent);
    sleep_ms(10);
    T(poll_now(pair[0], 1000));

    PART("a large transfer");
    child = MUST(fork());
    if (child == 0) {
        set_int(pair[0], SOL_SOCKET, SO_SNDTIMEO, 0);
        struct timeval never = {0, 0};
        setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &never, sizeof never);
        for (int i = 0; i < 200; i++) {
            memset(block, i, sizeof block);
            if (send(pair[0], block, sizeof block, 0) != sizeof block) _exit(1);
        }
        _exit(0);
    }
    close(pair[0]);
    unsigned long sum = 0;
    received = 0;
    while ((got = recv(pair[1], block, 30000, 0)) > 0) {
        for (long i = 0; i < got; i++) sum = sum * 31 + (unsigned char)block[i];
        received += got;
    }
    N(received);
    N(sum);
    reap("sender", child);
    close(pair[1]);

    PART("files and pipes");
    put_file("file", "the text of a file");
    tcp_pair(pair);
    int fd = MUST(open("file", O_RDONLY));
    T(sendfile(pair[0], fd, NULL, 100));
    RECEIVE(pair[1], 100, 0);
    int ends[2];
    MUST(pipe(ends));
    T(write(ends[1], "spliced", 7));
    T(splice(ends[0], NULL, pair[1], NULL, 100, 0));
    T(splice(pair[0], NULL, ends[1], NULL, 100, 0));
    char buffer[20];
    T(read(ends[0], buffer, sizeof buffer));
    struct iovec parts[3] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
    T(writev(pair[0], parts, 3));
    RECEIVE(pair[1], 100, 0);
    T(set_int(pair[0], IPPROTO_TCP, TCP_NODELAY, 1));
    T(send(pair[0], "more ", 5, MSG_MORE));
    T(send(pair[0], "now", 3, 0));
    sleep_ms(10);
    RECEIVE(pair[1], 100, MSG_WAITALL | MSG_DONTWAIT);
    T(send(pair[0], BAD, 5, 0));
    T(send(pair[0], "ok", 2, 0));
    T(recv(pair[1], BAD, 5, 0));
    RECEIVE(pair[1], 100, 0);
    T(lseek(pair[0], 0, SEEK_SET));
    T(read(pair[0], buffer, 0));
    T(write(pair[0], buffer, 0));
    struct stat info;
    MUST(fstat(pair[0], &info));
    YES(S_ISSOCK(info.st_mode));
}

int main(void) {
    states();
    connections();
    resets();
    waits();
    return 0;
}

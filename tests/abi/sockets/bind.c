// Addresses and ports: who may bind to which.
#include "inet.h"

static int last_kind = SOCK_STREAM;

static int make(int family, int reuse, int share) {
    int fd = MUST(socket(family, last_kind, 0));
    if (reuse) MUST(set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1));
    if (share) MUST(set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1));
    return fd;
}

static int bind4(int fd, const char *address, int port) {
    struct sockaddr_in at = in4(address, port);
    return bind(fd, AS(at));
}

static int bind6(int fd, const char *address, int port) {
    struct sockaddr_in6 at = in6(address, port);
    return bind(fd, AS(at));
}

static void arguments(void) {
    PART("arguments");
    int fd = make(AF_INET, 0, 0);
    T(bind4(fd, "127.0.0.1", 0));
    show_name("own", fd, 0);
    YES(port_of(fd) >= 32768 && port_of(fd) < 61000);
    T(bind4(fd, "127.0.0.1", 0));
    close(fd);
    fd = make(AF_INET, 0, 0);
    T(bind4(fd, "8.8.8.8", 0));
    T(bind4(fd, "224.0.0.1", 0));
    close(fd);
    fd = make(AF_INET, 0, 0);
    struct sockaddr_in at = in4("0.0.0.0", 0);
    T(bind(fd, (struct sockaddr *)&at, 15));
    T(bind(fd, BAD, sizeof at));
    struct sockaddr_in6 six = in6("::1", 0);
    T(bind(fd, AS(six)));
    at.sin_family = AF_UNSPEC;
    T(bind(fd, AS(at)));
    show_name("own", fd, 0);
    close(fd);
    fd = make(AF_INET6, 0, 0);
    at.sin_family = AF_INET;
    T(bind(fd, AS(at)));
    T(bind(fd, (struct sockaddr *)&six, 23));
    T(bind6(fd, "fe80::1", 0));
    T(bind6(fd, "2001:db8::1", 0));
    T(bind6(fd, "::ffff:127.0.0.1", 0));
    show_name("own", fd, 0);
    close(fd);
    CHILD("without privilege", {
        if (getuid() == 0) MUST(setuid(65534));
        fd = make(AF_INET, 0, 0);
        T(bind4(fd, "127.0.0.1", 80));
        T(bind4(fd, "127.0.0.1", 1023));
    });
}

static void pairs(int kind) {
    last_kind = kind;
    for (int bits = 0; bits < 16; bits++) {
        int a = make(AF_INET, bits & 1, bits & 2), b = make(AF_INET, bits & 4, bits & 8);
        MUST(bind4(a, "127.0.0.1", 0));
        int port = port_of(a);
        printf("%s%s then %s%s: ", bits & 1 ? "reuse " : "", bits & 2 ? "share" : "", bits & 4 ? "reuse " : "",
               bits & 8 ? "share" : "");
        int same = bind4(b, "127.0.0.1", port) ? errno : 0;
        close(b);
        b = make(AF_INET, bits & 4, bits & 8);
        int any = bind4(b, "0.0.0.0", port) ? errno : 0;
        close(b);
        b = make(AF_INET, bits & 4, bits & 8);
        int other = bind4(b, "127.0.0.2", port) ? errno : 0;
        close(b);
        int listening = 0;
        if (kind == SOCK_STREAM) {
            MUST(listen(a, 1));
            b = make(AF_INET, bits & 4, bits & 8);
            listening = bind4(b, "127.0.0.1", port) ? errno : 0;
            close(b);
        }
        printf("same %s, any %s, other %s, listening %s\n", same ? check_error(same) : "ok", any ? check_error(any) : "ok",
               other ? check_error(other) : "ok", listening ? check_error(listening) : "ok");
        close(a);
    }
}

static void versions(int kind) {
    last_kind = kind;
    struct { const char *four, *six; } cases[] = {
        {"0.0.0.0", "::"}, {"127.0.0.1", "::"}, {"127.0.0.1", "::1"}, {"0.0.0.0", "::1"},
        {"127.0.0.1", "::ffff:127.0.0.1"}, {"127.0.0.1", "::ffff:0.0.0.0"}, {"127.0.0.1", "::ffff:127.0.0.2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int only = 0; only < 2; only++)
            for (int first = 0; first < 2; first++) {
                if (only && strchr(cases[i].six, '.')) continue;
                int a = make(AF_INET, 0, 0), b = make(AF_INET6, 0, 0);
                MUST(set_int(b, IPPROTO_IPV6, IPV6_V6ONLY, only));
                int error = 0;
                if (first) {
                    MUST(bind4(a, cases[i].four, 0));
                    if (bind6(b, cases[i].six, port_of(a))) error = errno;
                } else {
                    MUST(bind6(b, cases[i].six, 0));
                    if (bind4(a, cases[i].four, port_of(b))) error = errno;
                }
                printf("%s and %s%s, %s first: %s\n", cases[i].four, cases[i].six, only ? " only" : "", first ? "4" : "6",
                       error ? check_error(error) : "ok");
                close(a);
                close(b);
            }
}

static void after_connections(void) {
    last_kind = SOCK_STREAM;
    for (int reuse = 0; reuse < 2; reuse++)
        for (int who = 0; who < 3; who++) {
            int server = make(AF_INET, reuse, 0);
            MUST(bind4(server, "127.0.0.1", 0));
            MUST(listen(server, 3));
            int port = port_of(server);
            struct sockaddr_in to = in4("127.0.0.1", port);
            int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
            MUST(connect(client, AS(to)));
            int end = MUST(accept(server, NULL, NULL));
            close(server);
            if (who == 0) close(end), close(client);
            if (who == 1) close(client), sleep_ms(20), close(end);
            sleep_ms(20);
            int again = make(AF_INET, 0, 0);
            printf("%s, %s: plain %s", reuse ? "reuse" : "plain", who == 0 ? "server first" : who == 1 ? "client first" : "open",
                   bind4(again, "127.0.0.1", port) ? check_error(errno) : "ok");
            close(again);
            again = make(AF_INET, 1, 0);
            printf(", reuse %s", bind4(again, "127.0.0.1", port) ? check_error(errno) : "ok");
            printf(", listen %s\n", listen(again, 1) ? check_error(errno) : "ok");
            close(again);
            if (who == 2) close(client), close(end);
        }
    PART("listen asks again");
    int a = make(AF_INET, 1, 0), b = make(AF_INET, 1, 0);
    T(bind4(a, "127.0.0.1", 0));
    T(bind4(b, "127.0.0.1", port_of(a)));
    T(listen(a, 1));
    T(listen(b, 1));
    close(a);
    T(listen(b, 1));
    close(b);
    PART("a port of one's own choice for a connection");
    int server = listener4(3);
    struct sockaddr_in to = in4("127.0.0.1", port_of(server));
    a = make(AF_INET, 0, 0);
    T(set_int(a, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1));
    T(bind4(a, "127.0.0.4", 0));
    show_name("own", a, 0);
    T(connect(a, AS(to)));
    show_name("own", a, 0);
    close(a);
    close(server);
    PART("sharing");
    last_kind = SOCK_DGRAM;
    a = make(AF_INET, 0, 1), b = make(AF_INET, 0, 1);
    MUST(bind4(a, "127.0.0.1", 0));
    T(bind4(b, "127.0.0.1", port_of(a)));
    int got[2] = {0, 0}, fds[2] = {a, b};
    to = in4("127.0.0.1", port_of(a));
    for (int i = 0; i < 64; i++) {
        int one = MUST(socket(AF_INET, SOCK_DGRAM, 0));
        sendto(one, "x", 1, 0, AS(to));
        close(one);
    }
    char byte;
    for (int i = 0; i < 2; i++)
        while (recv(fds[i], &byte, 1, MSG_DONTWAIT) == 1) got[i]++;
    N(got[0] + got[1]);
    YES(got[0] > 0 && got[1] > 0);
}

int main(void) {
    arguments();
    PART("two TCP sockets");
    pairs(SOCK_STREAM);
    PART("two UDP sockets");
    pairs(SOCK_DGRAM);
    PART("both versions, TCP");
    versions(SOCK_STREAM);
    PART("both versions, UDP");
    versions(SOCK_DGRAM);
    PART("after connections");
    after_connections();
    return 0;
}

// What the programs about internet sockets share. Ports are the system's choice and never printed.
#ifndef INET_H
#define INET_H
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static inline struct sockaddr_in in4(const char *address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &to.sin_addr);
    return to;
}

static inline struct sockaddr_in6 in6(const char *address, int port) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    inet_pton(AF_INET6, address, &to.sin6_addr);
    return to;
}

#define AS(address) ((struct sockaddr *)&(address)), sizeof(address)

static inline int port_of(int fd) {
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    MUST(getsockname(fd, (struct sockaddr *)&name, &len));
    return ntohs(name.ss_family == AF_INET ? ((struct sockaddr_in *)&name)->sin_port
                                           : ((struct sockaddr_in6 *)&name)->sin6_port);
}

// Prints an address without its port.
static inline void show_address(const char *what, const void *name, socklen_t len) {
    char text[64] = "?";
    const struct sockaddr *any = name;
    int port = 0;
    if (len == 0) {
        printf("%s: nothing\n", what);
        return;
    }
    if (any->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((struct sockaddr_in *)name)->sin_addr, text, sizeof text);
        port = ((struct sockaddr_in *)name)->sin_port;
    } else if (any->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)name)->sin6_addr, text, sizeof text);
        port = ((struct sockaddr_in6 *)name)->sin6_port;
    }
    printf("%s: family %d, %u bytes, %s, %s\n", what, any->sa_family, len, text, port ? "a port" : "no port");
}

static inline void show_name(const char *what, int fd, int peer) {
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    memset(&name, 0, sizeof name);
    if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&name, &len) == -1)
        printf("%s: %s\n", what, check_error(errno));
    else
        show_address(what, &name, len);
}

static inline int listener4(int backlog) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in at = in4("127.0.0.1", 0);
    MUST(bind(fd, AS(at)));
    MUST(listen(fd, backlog));
    return fd;
}

// A connected pair: [0] is the client, [1] the server's end.
static inline void tcp_pair(int pair[2]) {
    int server = listener4(5);
    struct sockaddr_in to = in4("127.0.0.1", port_of(server));
    pair[0] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(pair[0], AS(to)));
    pair[1] = MUST(accept(server, NULL, NULL));
    close(server);
}

static inline int poll_now(int fd, int timeout_ms) {
    struct pollfd entry = {fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    return poll(&entry, 1, timeout_ms) < 0 ? -1 : entry.revents;
}

static inline int int_option(int fd, int level, int name) {
    int value = -77;
    socklen_t len = sizeof value;
    if (getsockopt(fd, level, name, &value, &len) == -1) return -errno;
    return value;
}

static inline int set_int(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value);
}

#define RECEIVE(fd, size, flags)                                                                                       \
    do {                                                                                                               \
        char buffer_[256] = {0};                                                                                       \
        ssize_t got_ = recv(fd, buffer_, size, flags);                                                                 \
        if (got_ < 0)                                                                                                  \
            printf("recv(%s, %s): %s\n", #size, #flags, check_error(errno));                                           \
        else                                                                                                           \
            printf("recv(%s, %s): %zd \"%.*s\"\n", #size, #flags, got_, (int)(got_ < (long)(size) ? got_ : (long)(size)), buffer_); \
    } while (0)

#endif

// Options of TCP for sockets under repair and for upper layers, with all lengths.
#include "../check.h"
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#ifndef TCP_ULP
#define TCP_ULP 31
#endif
static void set(int fd, const char *what, int name, const void *value, socklen_t len) {
    printf("set %s of %u: ", what, len); fflush(stdout);
    printf("%s\n", setsockopt(fd, IPPROTO_TCP, name, value, len) == -1 ? check_error(errno) : "ok");
}
static void get(int fd, const char *what, int name, int room) {
    char value[64]; memset(value, 'x', sizeof value);
    socklen_t len = room;
    int r = getsockopt(fd, IPPROTO_TCP, name, value, &len);
    printf("get %s of %d: %s, %d, %d\n", what, room, r == -1 ? check_error(errno) : "ok", r == -1 ? 0 : (int)len, value[0]);
}
static void all(int fd) {
    char name[64] = "no such protocol";
    int lens[] = {0, 1, 3, 4, 8, 15, 16, 17, 64, -1};
    for (size_t i = 0; i < COUNT(lens); i++) {
        set(fd, "TCP_ULP", TCP_ULP, name, lens[i]);
        set(fd, "TCP_REPAIR_OPTIONS", TCP_REPAIR_OPTIONS, name, lens[i]);
        set(fd, "TCP_REPAIR_WINDOW", 29, name, lens[i]);
        set(fd, "TCP_REPAIR_QUEUE", TCP_REPAIR_QUEUE, name, lens[i]);
        set(fd, "TCP_QUEUE_SEQ", TCP_QUEUE_SEQ, name, lens[i]);
        set(fd, "TCP_TIMESTAMP", TCP_TIMESTAMP, name, lens[i]);
        set(fd, "TCP_CONGESTION", TCP_CONGESTION, name, lens[i]);
        get(fd, "TCP_ULP", TCP_ULP, lens[i]);
        get(fd, "TCP_REPAIR_OPTIONS", TCP_REPAIR_OPTIONS, lens[i]);
        get(fd, "TCP_REPAIR_WINDOW", 29, lens[i]);
        get(fd, "TCP_REPAIR_QUEUE", TCP_REPAIR_QUEUE, lens[i]);
        get(fd, "TCP_QUEUE_SEQ", TCP_QUEUE_SEQ, lens[i]);
        get(fd, "TCP_REPAIR", TCP_REPAIR, lens[i]);
    }
    set(fd, "TCP_ULP bad", TCP_ULP, BAD, 8);
    set(fd, "TCP_ULP empty", TCP_ULP, "", 8);
    set(fd, "TCP_REPAIR_OPTIONS bad", TCP_REPAIR_OPTIONS, BAD, 8);
    set(fd, "TCP_REPAIR_WINDOW bad", 29, BAD, 20);
    set(fd, "TCP_REPAIR_WINDOW", 29, name, 20);
}
int main(void) {
    int fd = MUST(socket(AF_INET, SOCK_STREAM, 0));
    PART("closed"); all(fd);
    MUST(listen(fd, 5));
    PART("listening"); all(fd);
    struct sockaddr_in at; socklen_t len = sizeof at;
    getsockname(fd, (void *)&at, &len);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int c = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(c, (void *)&at, sizeof at));
    PART("connected"); all(c);
    return 0;
}

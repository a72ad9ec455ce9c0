// Families, kinds and protocols that sockets may have, and the order in which they are refused.
#include "check.h"
#include <netinet/in.h>
#include <sys/socket.h>

static void try(int family, int kind, int protocol) {
    int fd = socket(family, kind, protocol), pair[2] = {0, 0};
    printf("%d %d %d: %s", family, kind, protocol, fd < 0 ? check_error(errno) : "ok");
    if (fd >= 0) close(fd);
    int result = socketpair(family, kind, protocol, pair);
    printf(", pair: %s\n", result ? check_error(errno) : "ok");
    if (!result) close(pair[0]), close(pair[1]);
}

int main(void) {
    int families[] = {-1, AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, 3, 46, 1000};
    int kinds[] = {0, SOCK_STREAM, SOCK_DGRAM, 4, 6, 7, 9, 11, 15, 16, 0x400, -1};
    for (size_t f = 0; f < COUNT(families); f++)
        for (size_t k = 0; k < COUNT(kinds); k++) try(families[f], kinds[k], 0);
    for (int protocol = -1; protocol < 3; protocol++) try(AF_UNIX, SOCK_STREAM, protocol);
    int protocols[] = {-1, IPPROTO_TCP, IPPROTO_UDP, 255, 256, 300};
    for (size_t p = 0; p < COUNT(protocols); p++) {
        try(AF_INET, SOCK_STREAM, protocols[p]);
        try(AF_INET6, SOCK_DGRAM, protocols[p]);
    }
    return 0;
}

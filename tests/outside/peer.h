// The peer of tests/tests/network.rs, whose address and ports are the arguments.
#include "../abi/check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static struct sockaddr_in peer, closed;

// Reads `ADDRESS PORT CLOSED_PORT`. Returns whether they are there.
static int read_peer(int count, char **arguments) {
    if (count != 4) return 0;
    peer.sin_family = closed.sin_family = AF_INET;
    inet_pton(AF_INET, arguments[1], &peer.sin_addr);
    closed.sin_addr = peer.sin_addr;
    peer.sin_port = htons(atoi(arguments[2]));
    closed.sin_port = htons(atoi(arguments[3]));
    return 1;
}

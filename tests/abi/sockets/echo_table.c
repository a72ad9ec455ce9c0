// ICMP echo sockets in /proc/net/icmp and icmp6; none of them is in the tables of UDP.
#include "../check.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static void table(const char *name) {
    char path[64], line[512];
    sprintf(path, "/proc/net/%s", name);
    FILE *f = fopen(path, "r");
    printf("%s: %s\n", name, f ? "there" : check_error(errno));
    while (f && fgets(line, sizeof line, f)) {
        char local[64], peer[64], state[8], queues[32];
        int drops, used = 0, uid;
        // Lines of the tables for IPv6 are as long as their inode numbers are.
        if (!strchr(name, '6'))
            printf("%zu bytes", strlen(line));
        if (sscanf(line, " %*d: %63s %63s %7s %31s %*s %*s %d %*d %*d %*d %*s %d%n", local, peer, state, queues, &uid, &drops, &used) == 6)
            printf(": %s %s %s %s uid %d drops %d\n", local, peer, state, queues, uid, drops);
        else
            printf(", head: %s", line);
    }
    if (f)
        fclose(f);
}

static void all(const char *when) {
    PART(when);
    table("icmp");
    table("icmp6");
    table("udp");
}

int main(void) {
    int fd = MUST(open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY));
    MUST(write(fd, "0 100000", 8));
    all("none");
    int first = MUST(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
    int sixth = MUST(socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6));
    all("without identifiers");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(1234), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(bind(first, (void *)&at, sizeof at));
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_port = htons(77), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    MUST(bind(sixth, (void *)&at6, sizeof at6));
    all("bound");
    MUST(connect(first, (void *)&at, sizeof at));
    all("connected");
    unsigned char echo[16] = {8, 0, 0, 0, 0, 0, 0, 1};
    T(send(first, echo, sizeof echo, 0));
    char answer[64];
    T(recv(first, answer, sizeof answer, 0));
    close(first);
    all("closed");
    return 0;
}

// What /proc/net tells of the own sockets in each state: lines of tcp, tcp6, udp, udp6 and unix, with numbers that vary left out.
#include "inet.h"
#include <sys/un.h>

// Prints the fields of the line of this inode that do not depend on the moment: addresses without the ports of the system's choice.
static void line_of(const char *file, int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/net/%s", file);
    FILE *f = fopen(path, "r");
    if (!f) {
        printf("%s: %s\n", file, check_error(errno));
        return;
    }
    int found = 0;
    while (fgets(line, sizeof line, f)) {
        char local[80], remote[80], state[8], queues[40], timer[40], again[20], uid[20], timeout[20];
        unsigned long inode;
        int refs, at = 0;
        if (sscanf(line, "%*[^:]: %79s %79s %7s %39s %39s %19s %19s %19s %lu %d %n", local, remote, state, queues, timer, again, uid, timeout, &inode, &refs, &at) < 10) continue;
        if (inode != st.st_ino) continue;
        found++;
        char *port = strchr(local, ':'), *other = strchr(remote, ':');
        int has = port && strcmp(port, ":0000"), peer = other && strcmp(other, ":0000");
        if (port) *port = 0;
        if (other) *other = 0;
        printf("%s: %s%s %s%s state %s queues %s uid %d\n", file, local, has ? ":port" : "", remote, peer ? ":port" : "", state, queues, atoi(uid) == (int)getuid());
    }
    if (!found) printf("%s: no line\n", file);
    fclose(f);
}
static void unix_line(int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    char line[512];
    FILE *f = fopen("/proc/net/unix", "r");
    if (!f) return;
    int found = 0;
    while (fgets(line, sizeof line, f)) {
        char address[40], refs[40], protocol[40], flags[40], type[40], state[40], path[200] = "(no name)";
        unsigned long inode;
        if (sscanf(line, "%39s %39s %39s %39s %39s %39s %lu %199s", address, refs, protocol, flags, type, state, &inode, path) < 7) continue;
        if (inode != st.st_ino) continue;
        found++;
        printf("unix: %s %s %s %s %s %s\n", refs, protocol, flags, type, state, path);
    }
    if (!found) puts("unix: no line");
    fclose(f);
}

static void heading(const char *file) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/net/%s", file);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        printf("%s: \"%s\"\n", file, line);
    } else {
        printf("%s: nothing\n", file);
    }
    if (f) fclose(f);
}

static void show4(int fd, int stream) { line_of(stream ? "tcp" : "udp", fd), line_of(stream ? "tcp6" : "udp6", fd); }

int main(void) {
    PART("headings");
    static const char *const files[] = {"tcp", "tcp6", "udp", "udp6", "unix"};
    for (size_t i = 0; i < COUNT(files); i++) heading(files[i]);
    PART("TCP");
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    show4(s, 1);
    struct sockaddr_in any = in4("127.0.0.1", 0);
    MUST(bind(s, AS(any)));
    show4(s, 1);
    MUST(listen(s, 7));
    show4(s, 1);
    struct sockaddr_in to = in4("127.0.0.1", port_of(s));
    int c = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(c, AS(to)));
    PART("a client waits");
    show4(s, 1), show4(c, 1);
    int p = MUST(accept(s, NULL, NULL));
    PART("accepted");
    show4(s, 1), show4(c, 1), show4(p, 1);
    MUST(send(c, "12345", 5, 0));
    struct pollfd wait = {p, POLLIN, 0};
    poll(&wait, 1, 1000);
    PART("five bytes");
    show4(p, 1);
    MUST(shutdown(p, SHUT_WR));
    wait = (struct pollfd){c, POLLRDHUP, 0};
    poll(&wait, 1, 1000);
    sleep_ms(50);
    PART("half closed");
    show4(c, 1), show4(p, 1);
    MUST(shutdown(c, SHUT_WR));
    sleep_ms(50);
    PART("closed on both sides");
    show4(c, 1), show4(p, 1);
    close(c), close(p), close(s);
    PART("IPv6");
    s = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    struct sockaddr_in6 any6 = in6("::", 0);
    MUST(bind(s, AS(any6)));
    MUST(listen(s, 3));
    show4(s, 1);
    to = in4("127.0.0.1", port_of(s));
    c = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(c, AS(to)));
    p = MUST(accept(s, NULL, NULL));
    show4(c, 1), show4(p, 1);
    close(c), close(p), close(s);
    PART("UDP");
    for (int six = 0; six < 2; six++) {
        s = MUST(socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
        show4(s, 0);
        if (six) MUST(bind(s, AS(any6)));
        else MUST(bind(s, AS(any)));
        show4(s, 0);
        to = in4("127.0.0.1", port_of(s));
        c = MUST(socket(AF_INET, SOCK_DGRAM, 0));
        MUST(connect(c, AS(to)));
        show4(c, 0);
        close(c), close(s);
    }
    PART("local sockets");
    int u[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
    unix_line(u[0]), unix_line(u[1]);
    close(u[1]);
    unix_line(u[0]);
    close(u[0]);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, u));
    unix_line(u[0]);
    close(u[0]), close(u[1]);
    s = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    unix_line(s);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, "named");
    MUST(bind(s, AS(name)));
    unix_line(s);
    MUST(listen(s, 3));
    unix_line(s);
    c = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    MUST(connect(c, AS(name)));
    unix_line(s), unix_line(c);
    p = MUST(accept(s, NULL, NULL));
    unix_line(s), unix_line(c), unix_line(p);
    unlink("named");
    unix_line(s);
    close(s), close(c), close(p);
    s = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    memcpy(name.sun_path, "\0abstract\0and more", 18);
    MUST(bind(s, (void *)&name, offsetof(struct sockaddr_un, sun_path) + 18));
    unix_line(s);
    close(s);
    return 0;
}

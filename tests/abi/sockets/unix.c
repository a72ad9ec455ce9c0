// Named UNIX sockets: binding, listening, connecting, names, datagrams, their errors.
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un address(const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strncpy(a.sun_path, name, sizeof a.sun_path - 1);
    return a;
}
static long bind_to(int s, const char *name) {
    struct sockaddr_un a = address(name);
    return bind(s, (struct sockaddr *)&a, sizeof a);
}
static long connect_to(int s, const char *name) {
    struct sockaddr_un a = address(name);
    return connect(s, (struct sockaddr *)&a, sizeof a);
}
static void name_of(const char *what, int s, int (*call)(int, struct sockaddr *, socklen_t *)) {
    struct sockaddr_un a = {0};
    socklen_t length = sizeof a;
    if (call(s, (struct sockaddr *)&a, &length)) printf("%s: %s\n", what, check_error(errno));
    else printf("%s: length %u family %d \"%s\"\n", what, length, a.sun_family, length > 2 ? a.sun_path[0] ? a.sun_path : a.sun_path + 1 : "");
}

int main(void) {
    char buffer[64] = {0};
    signal(SIGPIPE, SIG_IGN);
    int listener = OK(socket(AF_UNIX, SOCK_STREAM, 0));
    T(connect_to(listener, "missing"));
    T(listen(listener, 5));
    T(accept(listener, NULL, NULL));
    T(bind_to(listener, "sock"));
    T(bind_to(listener, "sock2"));
    struct stat st;
    T(stat("sock", &st));
    YES(S_ISSOCK(st.st_mode));
    T(open("sock", O_RDWR));
    int other = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(bind_to(other, "sock"));
    T(bind_to(other, "no/sock"));
    T(connect_to(other, "sock"));
    T(listen(listener, 5));
    T(connect_to(other, "sock"));
    T(connect_to(other, "sock"));
    name_of("listener", listener, getsockname);
    name_of("connected", other, getsockname);
    name_of("its peer", other, getpeername);
    name_of("listener's peer", listener, getpeername);
    struct pollfd poller = {listener, POLLIN, 0};
    T(poll(&poller, 1, 0));
    int server = OK(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    N(fcntl(server, F_GETFD));
    name_of("accepted", server, getsockname);
    name_of("its peer", server, getpeername);
    T(write(other, "hello", 5));
    T(read(server, buffer, 10));
    T(write(server, "answer", 6));
    T(recvfrom(other, buffer, 10, 0, NULL, NULL));
    T(accept4(listener, NULL, NULL, 0x10));
    T(read(listener, buffer, 1));
    T(write(listener, buffer, 1));
    T(sendto(other, "x", 1, 0, (struct sockaddr *)&(struct sockaddr_un){AF_UNIX, "sock"}, sizeof(struct sockaddr_un)));
    close(other);
    T(read(server, buffer, 10));
    T(write(server, "x", 1));
    PART("without blocking");
    fcntl(listener, F_SETFL, O_NONBLOCK);
    T(accept(listener, NULL, NULL));
    fcntl(listener, F_SETFL, 0);
    PART("connecting processes");
    pid_t child = MUST(fork());
    if (child == 0) {
        int mine = socket(AF_UNIX, SOCK_STREAM, 0);
        sleep_ms(30);
        if (connect_to(mine, "sock")) _exit(1);
        write(mine, "from child", 10);
        char answer[16] = {0};
        read(mine, answer, 16);
        _exit(strcmp(answer, "to child") ? 2 : 0);
    }
    server = OK(accept(listener, NULL, NULL));
    T(read(server, buffer, 20));
    T(write(server, "to child", 8));
    reap("child", child);
    PART("the listener is gone");
    other = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(connect_to(other, "sock"));
    close(listener);
    T(read(other, buffer, 1));
    int third = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(connect_to(third, "sock"));
    T(unlink("sock"));
    T(connect_to(third, "sock"));
    put_file("file", "");
    T(connect_to(third, "file"));
    PART("abstract names");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    sprintf(a.sun_path + 1, "hull-test-%d", getpid());
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1);
    listener = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(bind(listener, (struct sockaddr *)&a, length));
    T(listen(listener, 1));
    T(connect(third, (struct sockaddr *)&a, length));
    T(connect(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), (struct sockaddr *)&a, length - 1));
    other = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    T(bind(other, (struct sockaddr *)&a, length));
    T(bind(other, (struct sockaddr *)&a, 2));
    struct sockaddr_un automatic = {0};
    length = sizeof automatic;
    getsockname(other, (struct sockaddr *)&automatic, &length);
    printf("automatic name of length %u\n", length);
    PART("datagrams");
    int d1 = MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), d2 = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    T(bind_to(d1, "d1"));
    T(bind_to(d2, "d2"));
    struct sockaddr_un to = address("d2");
    T(sendto(d1, "dgram", 5, 0, (struct sockaddr *)&to, sizeof to));
    struct sockaddr_un from = {0};
    length = sizeof from;
    T(recvfrom(d2, buffer, 20, 0, (struct sockaddr *)&from, &length));
    puts(from.sun_path);
    T(send(d1, "x", 1, 0));
    T(connect_to(d1, "d2"));
    T(send(d1, "connected", 9, 0));
    T(recv(d2, buffer, 20, 0));
    T(connect_to(d1, "missing"));
    T(listen(d1, 1));
    T(accept(d1, NULL, NULL));
    PART("errors");
    T(socket(AF_UNIX, 99, 0));
    T(socket(999, SOCK_STREAM, 0));
    T(socket(AF_UNIX, SOCK_STREAM, 1));
    T(socket(AF_UNIX, SOCK_STREAM, 2));
    T(bind(third, (struct sockaddr *)&to, 1));
    T(bind(99, (struct sockaddr *)&to, sizeof to));
    T(bind(0, (struct sockaddr *)&to, sizeof to));
    to.sun_family = AF_INET;
    T(bind(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), (struct sockaddr *)&to, sizeof to));
    T(connect(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), (struct sockaddr *)&to, sizeof to));
    T(connect(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), BAD, 20));
    T(connect(MUST(socket(AF_UNIX, SOCK_STREAM, 0)), (struct sockaddr *)&to, 200));
    return 0;
}

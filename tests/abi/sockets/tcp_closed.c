// Writing to a TCP connection whose other end has been closed.
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static char big[1 << 24];

static void connected(int pair[2]) {
    int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address));
    MUST(listen(listener, 1));
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    pair[0] = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(pair[0], (struct sockaddr *)&address, sizeof address));
    pair[1] = MUST(accept(listener, NULL, NULL));
    close(listener);
}

// Writes until that fails.
static void write_all(const char *what, int fd, size_t left) {
    int calls = 0;
    while (left > 0) {
        ssize_t n = send(fd, big, left, MSG_NOSIGNAL);
        if (n < 0) {
            printf("%s: %s\n", what, check_error(errno));
            return;
        }
        if (++calls > 100) break;
        left -= n;
    }
    printf("%s: all\n", what);
}

int main(void) {
    int pair[2];
    char buffer[16];
    for (int unread = 0; unread < 2; unread++) {
        PART(unread ? "closed with unread bytes" : "closed");
        connected(pair);
        if (unread) MUST(send(pair[0], "hello", 5, 0));
        sleep_ms(20);
        close(pair[1]);
        sleep_ms(20);
        write_all("big", pair[0], sizeof big);
        write_all("again", pair[0], 10);
        T(recv(pair[0], buffer, sizeof buffer, 0));
        close(pair[0]);

        PART("a small one first");
        connected(pair);
        if (unread) MUST(send(pair[0], "hello", 5, 0));
        sleep_ms(20);
        close(pair[1]);
        sleep_ms(20);
        write_all("small", pair[0], 1);
        sleep_ms(20);
        write_all("second", pair[0], 1);
        write_all("third", pair[0], 1);
        close(pair[0]);
    }
    PART("closed while a writer waits");
    connected(pair);
    pid_t child = MUST(fork());
    if (child == 0) {
        close(pair[1]);
        write_all("waiting", pair[0], sizeof big);
        write_all("again", pair[0], 10);
        _exit(0);
    }
    close(pair[0]);
    struct pollfd full = {pair[1], POLLIN, 0};
    MUST(poll(&full, 1, 10000));
    sleep_ms(300);
    close(pair[1]);
    reap("child", child);
    return 0;
}

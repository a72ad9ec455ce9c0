// Signals when files become ready: O_ASYNC, with and without F_SETSIG.
#include "check.h"
#include <sys/socket.h>

static int volatile count, descriptor, band, code;

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    count++;
    descriptor = info->si_fd, band = info->si_band, code = info->si_code;
}

static void show(const char *what, int fd) {
    printf("%s: %s", what, count ? "told" : "not told");
    if (count && code != SI_KERNEL)
        printf(", descriptor %d, band %#x, code %d", descriptor == fd, band, code);
    else if (count)
        printf(", by the kernel");
    puts("");
    count = 0;
}

int main(void) {
    char text[8];
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    for (int kind = 0; kind < 2; kind++) {
        PART(kind ? "sockets" : "pipes");
        int pair[2];
        MUST(kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, pair) : pipe(pair));
        MUST(write(pair[1], "x", 1));
        show("before", pair[0]);
        MUST(read(pair[0], text, 8));
        T(fcntl(pair[0], F_SETOWN, getpid()));
        T(fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK));
        MUST(write(pair[1], "x", 1));
        show("SIGIO", pair[0]);
        T(fcntl(pair[0], F_SETSIG, SIGRTMIN));
        MUST(read(pair[0], text, 8));
        count = 0;
        MUST(write(pair[1], "x", 1));
        show("SIGRTMIN", pair[0]);
        T(fcntl(pair[0], F_SETFL, O_NONBLOCK));
        MUST(read(pair[0], text, 8));
        MUST(write(pair[1], "x", 1));
        show("off", pair[0]);
        close(pair[0]);
        close(pair[1]);
    }
    PART("a file that is always ready");
    int fd = MUST(open("a file", O_RDWR | O_CREAT, 0600)), on = 1;
    T(fcntl(fd, F_SETFL, O_ASYNC | O_APPEND));
    YES((fcntl(fd, F_GETFL) & (O_ASYNC | O_APPEND)) == O_APPEND);
    T(ioctl(fd, FIOASYNC, &on));
    unlink("a file");
    return 0;
}

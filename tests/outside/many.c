// A server of many connections that wait: many PORT COUNT. Prints when it listens, then how much memory of the pod each one takes.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static long free_kib(void) {
    char line[128];
    long kib = -1;
    FILE *file = fopen("/proc/meminfo", "r");
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemFree: %ld", &kib) == 1) break;
    }
    fclose(file);
    return kib;
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[2]) : 0, accepted = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    int listener = socket(AF_INET, SOCK_STREAM, 0), instance = epoll_create1(0);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1024)) return 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(instance, EPOLL_CTL_ADD, listener, &event);
    long before = free_kib();
    printf("listens\n");
    fflush(stdout);
    while (accepted < count) {
        struct epoll_event ready[64];
        int found = epoll_wait(instance, ready, 64, -1);
        for (int i = 0; i < found; i++) {
            char bytes[256];
            int fd = ready[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept(listener, 0, 0);
                if (event.data.fd < 0 || epoll_ctl(instance, EPOLL_CTL_ADD, event.data.fd, &event)) return 2;
                accepted++;
            } else if (write(fd, bytes, read(fd, bytes, sizeof bytes)) <= 0) {
                return 3;
            }
        }
    }
    printf("%ld\n", (before - free_kib()) * 1024 / count);
    return 0;
}

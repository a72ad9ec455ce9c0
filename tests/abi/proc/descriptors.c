// /proc/self/fd and fdinfo: links, what they say, what opening them gives.
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

static char name[64], target[PATH_MAX], text[8192];

static const char *at(const char *directory, int fd) {
    sprintf(name, "/proc/self/%s/%d", directory, fd);
    return name;
}

static const char *link_of(int fd) {
    memset(target, 0, sizeof target);
    if (readlink(at("fd", fd), target, sizeof target - 1) == -1) return check_error(errno);
    return target;
}

// The names of the lines, and the line called `shown` as a whole.
static void info(int fd, const char *shown) {
    int file = open(at("fdinfo", fd), O_RDONLY);
    ssize_t got = read(file, text, sizeof text - 1);
    text[got < 0 ? 0 : got] = 0;
    close(file);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, shown, strlen(shown)) == 0) printf("  %s\n", line);
        else printf("  %.*s\n", (int)strcspn(line, ":"), line);
}

static void show(const char *what, int fd) {
    struct stat link, file;
    MUST(lstat(at("fd", fd), &link));
    MUST(stat(at("fd", fd), &file));
    printf("%s: link %o of %lld bytes, file %o\n", what, link.st_mode, (long long)link.st_size, file.st_mode);
}

static bool numbered(int fd, const char *kind) {
    struct stat st;
    char expected[64];
    MUST(fstat(fd, &st));
    sprintf(expected, "%s:[%lu]", kind, (unsigned long)st.st_ino);
    return strcmp(link_of(fd), expected) == 0;
}

int main(void) {
    char buffer[64] = {0};
    PART("pipe");
    int ends[2];
    MUST(pipe(ends));
    YES(numbered(ends[0], "pipe"));
    show("reading end", ends[0]);
    show("writing end", ends[1]);
    info(ends[0], "flags");
    int writer = MUST(open(at("fd", ends[0]), O_WRONLY));
    T(write(writer, "through", 7));
    T(read(ends[0], buffer, sizeof buffer));
    puts(buffer);
    close(ends[1]);
    close(writer);
    T(read(ends[0], buffer, sizeof buffer));
    PART("regular file");
    int fd = MUST(open("file", O_CREAT | O_RDWR | O_CLOEXEC | O_APPEND, 0600));
    T(write(fd, "0123456789", 10));
    T(lseek(fd, 4, SEEK_SET));
    info(fd, "pos");
    info(fd, "flags");
    show("file", fd);
    int again = MUST(open(at("fd", fd), O_RDONLY));
    T(read(again, buffer, 3));
    puts(buffer);
    MUST(unlink("file"));
    puts(strrchr(link_of(fd), '/'));
    again = MUST(open(at("fd", fd), O_RDWR));
    T(read(again, buffer, 3));
    int path = MUST(open(".", O_PATH));
    show("path only", path);
    PART("without a name");
    int counter = MUST(eventfd(7, EFD_SEMAPHORE));
    puts(link_of(counter));
    info(counter, "eventfd-count");
    T(open(at("fd", counter), O_RDONLY));
    int epoll = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event));
    puts(link_of(epoll));
    info(epoll, "pos");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int signals = MUST(signalfd(-1, &set, 0));
    puts(link_of(signals));
    info(signals, "sigmask");
    int sockets[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    YES(numbered(sockets[0], "socket"));
    T(open(at("fd", sockets[0]), O_RDWR));
    puts(link_of(MUST(memfd_create("memory", 0))));
    PART("none");
    puts(link_of(999));
    T(open(at("fd", 999), O_RDONLY));
    T(open(at("fdinfo", 999), O_RDONLY));
    T(open("/proc/self/fd/01", O_RDONLY));
    T(open("/proc/self/fd/x", O_RDONLY));
    return 0;
}

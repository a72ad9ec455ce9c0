// Pseudo-terminals: the pair and its numbers, canonical editing, raw mode, window size, packet mode, end of either side.
#include "check.h"
#include <termios.h>
#include <sys/sysmacros.h>

static int master, slave;

static void show(const char *what, int fd) {
    char buffer[512];
    struct pollfd poll_fd = {fd, POLLIN, 0};
    size_t done = 0;
    while (done < sizeof buffer && poll(&poll_fd, 1, 200) > 0 && (poll_fd.revents & POLLIN)) {
        ssize_t n = read(fd, buffer + done, sizeof buffer - done);
        if (n <= 0) {
            printf("%s: %s\n", what, n ? check_error(errno) : "end");
            return;
        }
        done += n;
    }
    printf("%s: \"", what);
    for (size_t i = 0; i < done; i++)
        if (buffer[i] >= ' ' && buffer[i] < 127)
            putchar(buffer[i]);
        else
            printf("\\%03o", (unsigned char)buffer[i]);
    printf("\"\n");
}

static void type(const char *text) {
    if (write(master, text, strlen(text)) != (ssize_t)strlen(text)) printf("typing failed\n");
    show("echo", master);
}

static void attributes(void (*change)(struct termios *)) {
    struct termios t;
    T(tcgetattr(slave, &t));
    change(&t);
    T(tcsetattr(slave, TCSANOW, &t));
}
static void raw(struct termios *t) { cfmakeraw(t); }
static void cooked(struct termios *t) {
    t->c_iflag = ICRNL | IXON;
    t->c_oflag = OPOST | ONLCR;
    t->c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN;
}
static void silent(struct termios *t) { t->c_lflag &= ~ECHO; }
static void timed(struct termios *t) { t->c_cc[VMIN] = 0, t->c_cc[VTIME] = 1; }
static void four(struct termios *t) { t->c_cc[VMIN] = 4, t->c_cc[VTIME] = 0; }

int main(void) {
    char name[64], link[64], path[64];
    PART("open");
    master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    T(ptsname_r(master, name, sizeof name));
    T(open(name, O_RDWR | O_NOCTTY));
    T(unlockpt(master));
    slave = open(name, O_RDWR | O_NOCTTY);
    printf("opened: %d\n", slave >= 0);
    struct stat status;
    T(fstat(slave, &status));
    printf("%o %d\n", status.st_mode & S_IFMT, major(status.st_rdev));
    printf("terminals: %d %d\n", isatty(master), isatty(slave));
    snprintf(path, sizeof path, "/proc/self/fd/%d", slave);
    ssize_t length = readlink(path, link, sizeof link - 1);
    link[length > 0 ? length : 0] = 0;
    printf("named: %d %d\n", !strcmp(link, name), !strcmp(ttyname(slave), name));
    struct termios t;
    T(tcgetattr(slave, &t));
    printf("%o %o %o %o\n", t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag);
    for (int i = 0; i < 17; i++) printf("%o ", t.c_cc[i]);
    printf("\n");

    PART("canonical");
    type("hello\n");
    show("line", slave);
    type("abX\177c\r");
    show("line", slave);
    type("one two\027three\n");
    show("line", slave);
    type("gone\025kept\001\177\n");
    show("line", slave);
    type("a\tb\177\177c\n");
    show("line", slave);
    type("shown\022 again\n");
    show("line", slave);
    type("\026\003\026\177\n");
    show("line", slave);
    type("unfinished\004");
    show("line", slave);
    type("\004");
    show("line", slave);
    type("two\nlines\n");
    int count;
    T(ioctl(slave, FIONREAD, &count));
    printf("%d\n", count);
    char small[4];
    T(read(slave, small, 2));
    show("rest", slave);
    attributes(silent);
    type("unseen\n");
    show("line", slave);

    PART("output");
    T(write(slave, "a\nb\tc\n", 6));
    show("output", master);
    T(ioctl(slave, TIOCOUTQ, &count));

    PART("raw");
    attributes(raw);
    type("\003\r\n\004\177");
    show("bytes", slave);
    T(write(slave, "x\ny", 3));
    show("output", master);
    attributes(timed);
    T(read(slave, small, 4));
    attributes(four);
    T(write(master, "ab", 2));
    struct pollfd poll_fd = {slave, POLLIN | POLLOUT, 0};
    usleep(50000);
    T(poll(&poll_fd, 1, 0));
    printf("%x\n", poll_fd.revents);
    T(write(master, "cd", 2));
    T(read(slave, small, 4));
    T(write(master, "flushed", 7));
    usleep(50000);
    T(tcflush(slave, TCIFLUSH));
    T(fcntl(slave, F_SETFL, O_NONBLOCK));
    T(read(slave, small, 4));
    T(fcntl(slave, F_SETFL, 0));
    attributes(cooked);

    PART("requests");
    struct winsize size;
    T(ioctl(slave, TIOCGWINSZ, &size));
    printf("%d %d\n", size.ws_row, size.ws_col);
    size = (struct winsize){24, 80, 1, 2};
    T(ioctl(master, TIOCSWINSZ, &size));
    memset(&size, 0, sizeof size);
    T(ioctl(slave, TIOCGWINSZ, &size));
    printf("%d %d %d %d\n", size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel);
    T(tcgetpgrp(slave));
    T(tcgetsid(slave));
    T(ioctl(slave, TIOCGETD, &count));
    T(ioctl(slave, TIOCGPTN, &count));
    T(ioctl(slave, TIOCSWINSZ, BAD));
    T(tcflush(slave, 7));
    T(lseek(slave, 0, SEEK_SET));
    T(pread(slave, small, 1, 0));
    int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    printf("peer: %d %d\n", peer >= 0, !strcmp(ttyname(peer), name));
    close(peer);
    int on = 1;
    T(ioctl(master, TIOCPKT, &on));
    T(write(slave, "data", 4));
    show("packet", master);
    T(tcflush(slave, TCIFLUSH));
    show("packet", master);
    on = 0;
    T(ioctl(master, TIOCPKT, &on));

    PART("flow");
    T(write(master, "\023", 1));
    usleep(50000);
    T(fcntl(slave, F_SETFL, O_NONBLOCK));
    T(write(slave, "held", 4));
    T(write(master, "\021", 1));
    usleep(50000);
    T(write(slave, "let go", 6));
    show("output", master);
    T(fcntl(slave, F_SETFL, 0));

    PART("the slave ends");
    T(write(slave, "last", 4));
    close(slave);
    struct pollfd end = {master, POLLIN, 0};
    poll(&end, 1, 100);
    T(read(master, small, 4));
    T(poll(&end, 1, 100));
    printf("%x\n", end.revents);
    T(read(master, small, 4));
    slave = open(name, O_RDWR | O_NOCTTY);
    T(poll(&end, 1, 0));

    PART("the master ends");
    close(master);
    T(read(slave, small, 4));
    T(write(slave, "x", 1));
    T(tcgetattr(slave, &t));
    struct pollfd hung = {slave, POLLIN | POLLOUT, 0};
    T(poll(&hung, 1, 0));
    printf("%x\n", hung.revents);
    T(access(name, F_OK));
}

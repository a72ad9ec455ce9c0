// Room between the two ends of a pseudo-terminal: what lies ready, what is on the way, who must wait; what flushes take.
#include "check.h"
#include <pty.h>

static int master, slave;
static char bytes[20000];

static void set(tcflag_t local, tcflag_t output) {
    struct termios t;
    MUST(tcgetattr(slave, &t));
    t.c_lflag = local;
    t.c_oflag = output;
    MUST(tcsetattr(slave, TCSANOW, &t));
}

static void fresh(bool raw) {
    if (master) close(master), close(slave);
    MUST(openpty(&master, &slave, NULL, NULL, NULL));
    if (raw) set(0, 0);
    fcntl(master, F_SETFL, O_NONBLOCK);
    fcntl(slave, F_SETFL, O_NONBLOCK);
}

static void events(void) {
    struct pollfd fds[2] = {{master, POLLIN | POLLOUT, 0}, {slave, POLLIN | POLLOUT, 0}};
    usleep(100000);
    poll(fds, 2, 0);
    printf("master %x, slave %x\n", fds[0].revents, fds[1].revents);
}

static int waiting(int fd) {
    int n = -1;
    usleep(60000);
    ioctl(fd, FIONREAD, &n);
    return n;
}

// Writes or reads until nothing more moves.
static long move(int fd, bool in, size_t step) {
    long total = 0;
    for (int quiet = 0; quiet < 4;) {
        ssize_t n = in ? read(fd, bytes, sizeof bytes) : write(fd, bytes, step);
        if (n > 0)
            total += n, quiet = 0;
        else
            quiet++, usleep(30000);
    }
    return total;
}

int main(void) {
    alarm(50);
    memset(bytes, 'x', sizeof bytes);
    PART("from the slave to the master");
    fresh(true);
    long out = move(slave, false, 512);
    YES(out >= 12288 && out <= 24576);
    events();
    N(waiting(master));
    N(move(master, true, 0) - out);
    events();

    PART("from the master to the slave");
    fresh(true);
    out = move(master, false, 512);
    YES(out >= 12288 && out <= 24576);
    events();
    N(waiting(slave));
    N(move(slave, true, 0) - out);
    events();

    PART("lines");
    fresh(true);
    set(ICANON, 0);
    char line[100];
    memset(line, 'y', 99);
    line[99] = '\n';
    for (int i = 0; i < 100; i++) {
        MUST(write(master, line, 100));
        usleep(2000);
    }
    events();
    N(waiting(slave));
    N(read(slave, bytes, sizeof bytes));
    N(move(slave, true, 0));

    PART("a line that does not end");
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 100; i++) {
        MUST(write(master, bytes, 100));
        usleep(2000);
    }
    events();
    N(waiting(slave));
    T(write(master, "\n", 1));
    N(waiting(slave));
    N(move(slave, true, 0));

    PART("echo to a master with much to read");
    fresh(true);
    move(slave, false, 100);
    set(ECHO, 0);
    T(write(master, "hello", 5));
    events();
    N(waiting(slave));
    YES(move(master, true, 0) >= 12293);

    PART("more than lies ready, by one process");
    fresh(true);
    fcntl(slave, F_SETFL, 0);
    T(write(slave, bytes, 6000));
    N(move(master, true, 0));
    fresh(true);
    fcntl(master, F_SETFL, 0);
    T(write(master, bytes, 6000));
    N(move(slave, true, 0));

    PART("flushes");
    for (int side = 0; side < 2; side++)
        for (int queue = 0; queue < 3; queue++) {
            fresh(true);
            MUST(write(slave, "abc", 3));
            MUST(write(master, "de", 2));
            usleep(60000);
            printf("%s, queue %d\n", side ? "slave" : "master", queue);
            T(tcflush(side ? slave : master, queue));
            N(waiting(master));
            N(waiting(slave));
        }
    PART("a flush makes room");
    fresh(true);
    MUST(write(master, bytes, 6000));
    N(waiting(slave));
    T(tcflush(slave, TCIFLUSH));
    N(waiting(slave));
    return 0;
}

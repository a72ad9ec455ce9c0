// A pseudo-terminal with more unread bytes than a page, in either direction: calls that wait, and those that must not.
#include "check.h"
#include <pty.h>

static int master, slave;
static char bytes[20000];

static void nothing(int number) { (void)number; }

// A call that waits ends after this many ms.
#define WITHIN(ms, call)                                                                                               \
    do {                                                                                                               \
        struct itimerval limit_ = {{0, 50000}, {0, (ms) * 1000}}, none_ = {{0, 0}, {0, 0}};                            \
        setitimer(ITIMER_REAL, &limit_, NULL);                                                                         \
        errno = 0;                                                                                                     \
        long result_ = (call);                                                                                         \
        int error_ = errno;                                                                                            \
        setitimer(ITIMER_REAL, &none_, NULL);                                                                          \
        printf("%s: %s\n", #call, result_ >= 0 ? "done" : check_error(error_));                                       \
    } while (0)

static void set(int local, int output) {
    struct termios t;
    MUST(tcgetattr(slave, &t));
    t.c_lflag = local;
    t.c_oflag = output;
    MUST(tcsetattr(slave, TCSANOW, &t));
}

static void fresh(int local, bool wait, bool packet) {
    if (master) close(master), close(slave);
    MUST(openpty(&master, &slave, NULL, NULL, NULL));
    set(local, 0);
    fcntl(master, F_SETFL, wait ? 0 : O_NONBLOCK);
    fcntl(slave, F_SETFL, wait ? 0 : O_NONBLOCK);
    if (packet) MUST(ioctl(master, TIOCPKT, &(int){1}));
}

// Writes until nothing more goes.
static long fill(int fd, size_t step) {
    int flags = fcntl(fd, F_GETFL);
    long total = 0;
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    for (int quiet = 0; quiet < 3;) {
        ssize_t n = write(fd, bytes, step);
        if (n > 0)
            total += n, quiet = 0;
        else
            quiet++, usleep(30000);
    }
    fcntl(fd, F_SETFL, flags);
    return total;
}

// Reads until nothing comes; how many bytes beside the first one of each packet.
static long drain(int fd, bool packet) {
    int flags = fcntl(fd, F_GETFL);
    long total = 0;
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    for (int quiet = 0; quiet < 4;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n > 0)
            total += n - packet, quiet = 0;
        else
            quiet++, usleep(30000);
    }
    fcntl(fd, F_SETFL, flags);
    memset(bytes, 'x', sizeof bytes);
    return total;
}

static void events(void) {
    struct pollfd fds[2] = {{master, POLLIN | POLLOUT | POLLPRI, 0}, {slave, POLLIN | POLLOUT, 0}};
    usleep(60000);
    poll(fds, 2, 0);
    printf("master %x, slave %x\n", fds[0].revents, fds[1].revents);
}

// Runs `body` in a child; does it go on within a while once `release` is done?
#define BESIDE(body, release)                                                                                          \
    do {                                                                                                               \
        pid_t child_ = MUST(fork());                                                                                   \
        if (child_ == 0) {                                                                                             \
            alarm(20);                                                                                                 \
            signal(SIGALRM, SIG_DFL);                                                                                  \
            body;                                                                                                      \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        usleep(100000);                                                                                                \
        printf("%s waits: %s\n", #body, waitpid(child_, NULL, WNOHANG) == 0 ? "yes" : "no");                           \
        release;                                                                                                       \
        reap(#release, child_);                                                                                        \
    } while (0)

static void read_all(int fd, long wanted) {
    while (wanted > 0) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0) return;
        wanted -= n;
    }
}

int main(void) {
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    memset(bytes, 'x', sizeof bytes);

    for (int packet = 0; packet < 2; packet++)
        for (int wait = 0; wait < 2; wait++) {
            printf("== packets %d, waiting %d\n", packet, wait);
            PART("the master has much to read");
            fresh(0, wait, packet);
            long out = fill(slave, 512);
            YES(out >= 4096);
            events();
            WITHIN(200, write(slave, bytes, 1));
            WITHIN(200, write(slave, bytes, 5000));
            WITHIN(900, tcdrain(slave));
            WITHIN(900, write(master, "a", 1));
            WITHIN(200, read(slave, bytes, 10));
            WITHIN(900, fsync(slave));
            struct termios t;
            WITHIN(900, tcgetattr(slave, &t));
            WITHIN(900, tcsetattr(slave, TCSADRAIN, &t));
            WITHIN(900, tcsetattr(slave, TCSAFLUSH, &t));
            WITHIN(900, tcsendbreak(slave, 0));
            WITHIN(900, tcflow(slave, TCOOFF));
            WITHIN(900, tcflow(slave, TCOON));
            WITHIN(900, tcflow(slave, TCIOFF));
            WITHIN(900, tcflow(slave, TCION));
            WITHIN(900, ioctl(slave, TCXONC, 9));
            events();
            WITHIN(900, write(master, "\003\023\021\n", 4));
            YES(drain(master, packet) >= 4096);
            events();

            PART("echo while the master has much to read");
            fresh(ECHO | ICANON | ISIG | IEXTEN, wait, packet);
            fill(slave, 512);
            WITHIN(900, write(master, "hello\n", 6));
            WITHIN(900, write(master, "\003", 1));
            // What the slave reads depends on when the host's worker passes on what was typed: not compared.
            WITHIN(900, write(master, "\033[A\177\025\027", 6));
            YES(drain(master, packet) >= 4096);

            PART("a flush");
            fresh(0, wait, packet);
            fill(slave, 512);
            WITHIN(900, tcflush(slave, TCOFLUSH));
            WITHIN(900, tcflush(master, TCIFLUSH));
            WITHIN(900, tcflush(master, TCIOFLUSH));
            WITHIN(900, write(slave, bytes, 100));

            PART("the slave has much to read, raw");
            fresh(0, wait, packet);
            out = fill(master, 512);
            YES(out >= 4096);
            events();
            WITHIN(200, write(master, bytes, 5000));
            WITHIN(900, tcdrain(master));
            WITHIN(900, write(slave, "b", 1));
            WITHIN(900, tcsetattr(slave, TCSADRAIN, &t));
            YES(drain(slave, false) >= 4096);
            events();

            PART("the slave has much to read, in lines");
            fresh(ICANON, wait, packet);
            for (int i = 0; i < 60; i++) {
                memset(bytes, 'y', 100);
                bytes[99] = '\n';
                WITHIN(100, write(master, bytes, 100));
            }
            memset(bytes, 'x', sizeof bytes);
            events();
            N(drain(slave, false));

            PART("a long line");
            fresh(ICANON, wait, packet);
            WITHIN(900, write(master, bytes, 4000));
            WITHIN(900, write(master, bytes, 4000));
            WITHIN(900, write(master, bytes, 5000));
            events();
            WITHIN(900, write(master, "\n", 1));
            events();
            N(read(slave, bytes, sizeof bytes));
            events();
            memset(bytes, 'x', sizeof bytes);
            WITHIN(900, write(master, bytes, 5000));
            WITHIN(900, write(master, "\025", 1));
            WITHIN(900, write(master, "again\n", 6));
            N(drain(slave, false));

            PART("a long line, then not in lines any more");
            fresh(ICANON, wait, packet);
            WITHIN(900, write(master, bytes, 5000));
            usleep(60000);
            set(0, 0);
            events();
            N(drain(slave, false));
            fresh(0, wait, packet);
            WITHIN(900, write(master, bytes, 3000));
            usleep(60000);
            set(ICANON, 0);
            events();
            WITHIN(900, write(master, bytes, 3000));
            WITHIN(900, write(master, "\n", 1));
            events();
            N(drain(slave, false) > 3000);
        }

    PART("who waits goes on");
    fresh(0, true, false);
    fill(slave, 512);
    BESIDE(write(slave, bytes, 10000), drain(master, false));
    fill(slave, 512);
    BESIDE(write(slave, bytes, 100), tcflush(master, TCIFLUSH));
    fresh(0, true, false);
    fill(master, 512);
    BESIDE(write(master, bytes, 10000), drain(slave, false));
    fresh(0, true, false);
    fill(master, 512);
    BESIDE(write(master, bytes, 100), tcflush(slave, TCIFLUSH));
    fresh(0, true, true);
    BESIDE(read_all(master, 30000), write(slave, bytes, 20000); write(slave, bytes, 20000));
    fresh(0, true, false);
    BESIDE(read_all(slave, 20000), write(master, bytes, 20000));
    fresh(ICANON, true, false);
    BESIDE(read(slave, bytes, 10), write(master, bytes, 5000); write(master, "\n", 1));

    PART("the other end goes");
    fresh(0, true, false);
    fill(slave, 512);
    BESIDE(close(master); T(write(slave, bytes, 10000)), close(master));
    fresh(0, true, false);
    fill(slave, 512);
    WITHIN(900, close(slave));
    long left = drain(master, false);
    YES(left >= 4096);
    WITHIN(900, read(master, bytes, 1));
    slave = dup(0);
    fresh(0, true, false);
    fill(master, 512);
    WITHIN(900, close(slave));
    WITHIN(900, write(master, bytes, 1));
    WITHIN(900, read(master, bytes, 1));
    return 0;
}

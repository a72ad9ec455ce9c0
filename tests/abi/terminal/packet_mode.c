// Packet mode of a pseudo-terminal: what a master is told; EXTPROC; ends of the file among the bytes that wait; requests.
#include "check.h"
#include <pty.h>

static int master, slave;

static void fresh(void) {
    if (master) close(master), close(slave);
    MUST(openpty(&master, &slave, NULL, NULL, NULL));
    fcntl(master, F_SETFL, O_NONBLOCK);
    fcntl(slave, F_SETFL, O_NONBLOCK);
}

static void change(tcflag_t local_set, tcflag_t local_clear, tcflag_t input_set, tcflag_t input_clear) {
    struct termios t;
    MUST(tcgetattr(slave, &t));
    t.c_lflag = (t.c_lflag | local_set) & ~local_clear;
    t.c_iflag = (t.c_iflag | input_set) & ~input_clear;
    T(tcsetattr(slave, TCSANOW, &t));
}

static void show(int fd) {
    unsigned char b[512];
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    usleep(60000);
    poll(&p, 1, 0);
    printf("%s: events %x, ", fd == master ? "master" : "slave", p.revents);
    ssize_t n = read(fd, b, sizeof b);
    if (n <= 0) printf("%s", n ? check_error(errno) : "end");
    for (ssize_t i = 0; i < n; i++) printf(b[i] >= ' ' && b[i] < 127 ? "%c" : "\\%02x", b[i]);
    printf("\n");
}

static void type(const char *text) {
    MUST(write(master, text, strlen(text)));
    usleep(60000);
}
static void print(const char *text) { MUST(write(slave, text, strlen(text))); }

static int number(int fd, unsigned long request) {
    int n = -1;
    usleep(60000);
    if (ioctl(fd, request, &n)) printf("%s\n", check_error(errno));
    return n;
}

static void key(int which, cc_t value) {
    struct termios t;
    MUST(tcgetattr(slave, &t));
    t.c_cc[which] = value;
    T(tcsetattr(slave, TCSANOW, &t));
}

int main(void) {
    int on = 1, off = 0;
    signal(SIGTTOU, SIG_IGN);
    PART("flushes");
    fresh();
    T(ioctl(master, TIOCPKT, &on));
    N(number(master, TIOCGPKT));
    show(master);
    print("out");
    show(master);
    N(number(master, FIONREAD));
    for (int side = 0; side < 2; side++)
        for (int queue = 0; queue < 3; queue++) {
            T(tcflush(side ? master : slave, queue));
            show(master);
            show(master);
        }
    print("out");
    usleep(60000);
    T(tcflush(slave, TCIOFLUSH));
    show(master);
    show(master);

    PART("tcflow");
    for (int i = 0; i < 2; i++) {
        T(tcflow(slave, TCOOFF));
        show(master);
    }
    T(write(slave, "x", 1));
    for (int i = 0; i < 2; i++) {
        T(tcflow(slave, TCOON));
        show(master);
    }
    T(tcflow(slave, TCOOFF));
    T(tcflow(slave, TCOON));
    show(master);
    T(tcflow(slave, TCIOFF));
    show(master);
    T(tcflow(slave, TCION));
    show(master);
    T(tcflow(slave, 9));
    PART("tcflow at the master");
    T(tcflow(master, TCOOFF));
    show(master);
    T(write(master, "x", 1));
    show(slave);
    T(tcflow(master, TCOON));
    show(master);
    T(tcflow(master, TCIOFF));
    show(master);
    show(slave);
    T(tcflow(master, TCION));
    show(slave);
    show(master);

    PART("keys");
    type("\023");
    show(master);
    T(write(slave, "held", 4));
    show(slave);
    type("\021");
    show(master);
    type("\023");
    type("\021");
    show(master);
    T(tcflow(slave, TCOOFF));
    type("\021");
    show(master);
    T(write(slave, "held", 4));
    T(tcflow(slave, TCOON));
    show(master);
    type("\023");
    T(tcflow(slave, TCOOFF));
    T(tcflow(slave, TCOON));
    T(write(slave, "free", 4));
    show(master);
    show(master);
    PART("keys that send signals");
    type("ab\003");
    show(master);
    show(master);
    show(slave);
    print("out");
    usleep(60000);
    type("ab\003");
    show(master);
    show(master);
    type("\023");
    show(master);
    type("\032");
    show(master);
    show(master);
    change(NOFLSH, 0, 0, 0);
    type("ab\034\n");
    show(master);
    show(slave);

    PART("other keys that stop");
    change(0, NOFLSH, 0, IXON);
    show(master);
    change(0, 0, IXON, 0);
    show(master);
    key(VSTOP, 1);
    show(master);
    key(VSTOP, 023);
    show(master);
    PART("IXON off lets output go on");
    type("\023");
    show(master);
    change(0, 0, 0, IXON);
    show(master);
    change(0, 0, IXON, 0);
    show(master);

    PART("EXTPROC");
    change(EXTPROC, 0, 0, 0);
    show(master);
    type("a\177b\003c\nd");
    show(master);
    N(number(slave, FIONREAD));
    show(slave);
    change(0, ECHO, 0, 0);
    show(master);
    change(0, EXTPROC, 0, 0);
    show(master);
    change(ECHO, 0, 0, 0);
    show(master);

    PART("status and data");
    print("data");
    usleep(60000);
    T(tcflow(slave, TCOOFF));
    show(master);
    show(master);
    T(tcflow(slave, TCOON));
    show(master);
    print("qq");
    usleep(60000);
    char two[2];
    T(read(master, two, 1));
    T(read(master, two, 1));
    T(read(master, two, 2));
    printf("%d %c\n", two[0], two[1]);
    T(read(master, two, 2));
    T(read(master, two, 0));
    PART("off and on");
    T(ioctl(master, TIOCPKT, &off));
    T(tcflow(slave, TCOOFF));
    show(master);
    T(tcflow(slave, TCOON));
    T(ioctl(master, TIOCPKT, &on));
    show(master);
    T(tcflow(slave, TCOOFF));
    T(ioctl(master, TIOCPKT, &on));
    show(master);
    T(ioctl(slave, TIOCPKT, &on));
    T(ioctl(slave, TIOCGPKT, &on));
    T(ioctl(master, TIOCPKT, BAD));

    PART("ends of the file among bytes");
    fresh();
    change(0, ECHO, 0, 0);
    type("abc");
    N(number(slave, FIONREAD));
    type("\004");
    N(number(slave, FIONREAD));
    type("\004");
    N(number(slave, FIONREAD));
    type("de\004\n");
    N(number(slave, FIONREAD));
    for (int i = 0; i < 5; i++) {
        show(slave);
        N(number(slave, FIONREAD));
    }
    type("ab\004cd\n");
    usleep(60000);
    change(0, ICANON, 0, 0);
    N(number(slave, FIONREAD));

    PART("requests");
    N(number(slave, TIOCOUTQ));
    N(number(master, TIOCOUTQ));
    int n = 0;
    T(ioctl(slave, TIOCSETD, &n));
    T(ioctl(master, TIOCSETD, &n));
    n = 31;
    T(ioctl(slave, TIOCSETD, &n));
    T(ioctl(slave, TIOCSETD, BAD));
    N(number(slave, TIOCGETD));
    N(number(slave, TIOCGSOFTCAR));
    T(ioctl(slave, TIOCSSOFTCAR, &on));
    N(number(slave, TIOCGSOFTCAR));
    N(number(master, TIOCGSOFTCAR));
    struct termios t;
    T(tcgetattr(slave, &t));
    N(t.c_cflag & CLOCAL);
    T(ioctl(slave, TIOCSSOFTCAR, BAD));
    T(ioctl(slave, TIOCSBRK));
    T(ioctl(slave, TIOCCBRK));
    T(ioctl(slave, TIOCGPTPEER, O_RDWR | O_NOCTTY));
    T(ioctl(slave, TIOCEXCL));
    N(number(slave, TIOCGEXCL));
    N(number(master, TIOCGEXCL));
    if (geteuid() == 0) {
        T(ioctl(slave, TIOCSTI, "i"));
        T(ioctl(master, TIOCSTI, "o"));
        T(ioctl(slave, TIOCSTI, BAD));
        show(master);
        N(number(slave, FIONREAD));
    }
    return 0;
}

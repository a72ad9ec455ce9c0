// The terminal attributes of System V (struct termio), and attributes that are locked.
#include "check.h"
#include <asm/termbits.h>

// As <asm/termios.h> has it; that header and <termios.h> exclude each other.
struct old {
    unsigned short iflag, oflag, cflag, lflag;
    unsigned char line, cc[8];
};

static int slave;

static void show(void) {
    struct old a;
    T(ioctl(slave, TCGETA, &a));
    printf("%o %o %o %o line %d keys", a.iflag, a.oflag, a.cflag, a.lflag, a.line);
    for (unsigned i = 0; i < 8; i++) printf(" %d", a.cc[i]);
    printf("\n");
}

int main(void) {
    alarm(10);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), zero = 0, number;
    MUST(master);
    MUST(ioctl(master, TIOCSPTLCK, &zero));
    MUST(ioctl(master, TIOCGPTN, &number));
    char path[40];
    sprintf(path, "/dev/pts/%d", number);
    MUST(slave = open(path, O_RDWR | O_NOCTTY));

    PART("struct termio");
    show();
    struct old a;
    struct termios t;
    MUST(ioctl(slave, TCGETA, &a));
    a.lflag &= ~(ECHO | ICANON);
    a.iflag |= IXOFF;
    a.cc[0] = 7;
    T(ioctl(slave, TCSETA, &a));
    show();
    MUST(ioctl(slave, TCGETS, &t));
    printf("%o %o %o, start %d\n", t.c_iflag, t.c_lflag, t.c_oflag, t.c_cc[VSTART]);
    a.lflag |= ECHO | ICANON;
    T(ioctl(slave, TCSETAW, &a));
    show();
    MUST(write(master, "lost\n", 5));
    struct pollfd arrived = {slave, POLLIN, 0};
    MUST(poll(&arrived, 1, 5000));
    T(ioctl(slave, TCSETAF, &a));
    MUST(fcntl(slave, F_SETFL, O_NONBLOCK));
    char buffer[16];
    T(read(slave, buffer, sizeof buffer));
    T(ioctl(slave, TCGETA, BAD));
    T(ioctl(slave, TCSETA, BAD));
    T(ioctl(master, TCGETA, &a));
    int fds[2];
    MUST(pipe(fds));
    T(ioctl(fds[0], TCGETA, &a));

    PART("locked attributes");
    memset(&t, 0xff, sizeof t);
    T(ioctl(slave, TIOCGLCKTRMIOS, &t));
    printf("%o %o %o %o %d\n", t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag, t.c_cc[0]);
    return 0;
}

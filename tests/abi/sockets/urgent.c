// Urgent data of TCP, SIGURG and SIGIO.
#include "inet.h"

static volatile int urgent, ready;
static void on_urgent(int number) { (void)number, urgent++; }
static void on_ready(int number) { (void)number, ready++; }

static void show(int fd) {
    int mark = -1, bytes = -1;
    ioctl(fd, SIOCATMARK, &mark);
    ioctl(fd, FIONREAD, &bytes);
    printf("mark %d, bytes %d, poll %#x\n", mark, bytes, poll_now(fd, 0));
}

int main(void) {
    int pair[2];
    signal(SIGURG, on_urgent);
    signal(SIGIO, on_ready);
    PART("a byte of its own");
    tcp_pair(pair);
    RECEIVE(pair[1], 1, MSG_OOB);
    show(pair[1]);
    T(fcntl(pair[1], F_SETOWN, getpid()));
    T(send(pair[0], "abc", 3, MSG_OOB));
    sleep_ms(20);
    N(urgent);
    show(pair[1]);
    RECEIVE(pair[1], 10, MSG_OOB | MSG_PEEK);
    RECEIVE(pair[1], 10, MSG_OOB);
    RECEIVE(pair[1], 10, MSG_OOB);
    show(pair[1]);
    RECEIVE(pair[1], 10, 0);
    show(pair[1]);
    T(send(pair[0], "def", 3, 0));
    sleep_ms(20);
    show(pair[1]);
    RECEIVE(pair[1], 10, 0);
    show(pair[1]);
    RECEIVE(pair[1], 10, MSG_OOB);
    PART("reading stops at the mark");
    T(send(pair[0], "12", 2, 0));
    T(send(pair[0], "!", 1, MSG_OOB));
    T(send(pair[0], "34", 2, 0));
    sleep_ms(20);
    show(pair[1]);
    RECEIVE(pair[1], 10, MSG_WAITALL);
    show(pair[1]);
    RECEIVE(pair[1], 10, 0);
    show(pair[1]);
    RECEIVE(pair[1], 10, MSG_DONTWAIT);
    PART("inline");
    T(set_int(pair[1], SOL_SOCKET, SO_OOBINLINE, 1));
    T(send(pair[0], "56", 2, 0));
    T(send(pair[0], "!", 1, MSG_OOB));
    sleep_ms(20);
    show(pair[1]);
    RECEIVE(pair[1], 10, MSG_OOB);
    RECEIVE(pair[1], 10, 0);
    show(pair[1]);
    RECEIVE(pair[1], 10, 0);
    show(pair[1]);
    N(urgent);
    close(pair[0]);
    close(pair[1]);
    PART("SIGIO");
    tcp_pair(pair);
    T(fcntl(pair[1], F_SETOWN, getpid()));
    T(fcntl(pair[1], F_GETOWN) == getpid());
    T(fcntl(pair[1], F_SETFL, O_ASYNC | O_NONBLOCK));
    T(send(pair[0], "x", 1, 0));
    sleep_ms(20);
    YES(ready > 0);
    int owner = 0;
    T(ioctl(pair[1], FIOGETOWN, &owner));
    YES(owner == getpid());
    owner = 0;
    T(ioctl(pair[1], FIOSETOWN, &owner));
    T(fcntl(pair[1], F_GETOWN));
    return 0;
}

// Interrupted system calls: restarted with SA_RESTART, EINTR without; those that never restart.
#include "check.h"
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

static int got;
static volatile sig_atomic_t armed;
static void handler(int number) {
    (void)number;
    got += armed;
    armed = 0;
}
// Waits until the handler has counted.
static void disarm(void) {
    while (armed) sleep_ms(1);
    alarms(0);
}
static void arm(int flags) {
    disarm();
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
    armed = 1;
    alarms(30);
}

int main(void) {
    int p[2], s[2];
    char byte;
    MUST(pipe(p));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
    PART("read");
    arm(0);
    T(read(p[0], &byte, 1));
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(100);
        write(p[1], "x", 1);
        _exit(0);
    }
    arm(SA_RESTART);
    T(read(p[0], &byte, 1));
    disarm();
    N(got);
    waitpid(child, NULL, 0);
    PART("write");
    char block[65536] = {0};
    write(p[1], block, sizeof block);
    arm(0);
    T(write(p[1], block, 10));
    read(p[0], block, 4096);
    arm(0);
    T(write(p[1], block, 8192));
    PART("wait");
    child = MUST(fork());
    if (child == 0) {
        sleep_ms(120);
        _exit(4);
    }
    arm(0);
    T(waitpid(child, NULL, 0));
    arm(SA_RESTART);
    YES(waitpid(child, NULL, 0) == child);
    PART("receive");
    arm(0);
    T(recv(s[0], &byte, 1, 0));
    child = MUST(fork());
    if (child == 0) {
        sleep_ms(100);
        send(s[1], "x", 1, 0);
        _exit(0);
    }
    arm(SA_RESTART);
    T(recv(s[0], &byte, 1, 0));
    waitpid(child, NULL, 0);
    PART("never restarted");
    arm(SA_RESTART);
    T(pause());
    arm(SA_RESTART);
    T(poll(NULL, 0, -1));
    arm(SA_RESTART);
    T(select(0, NULL, NULL, NULL, NULL));
    arm(SA_RESTART);
    int e = epoll_create1(0);
    struct epoll_event event;
    T(epoll_wait(e, &event, 1, -1));
    arm(SA_RESTART);
    sigset_t none;
    sigemptyset(&none);
    T(sigsuspend(&none));
    arm(SA_RESTART);
    T(usleep(500000));
    arm(SA_RESTART);
    struct timespec time = {5, 0}, left = {9, 9};
    T(nanosleep(&time, &left));
    YES(left.tv_sec == 4 && left.tv_nsec > 500000000);
    arm(SA_RESTART);
    left = (struct timespec){9, 9};
    N(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left) == EINTR);
    YES(left.tv_sec == 4);
    disarm();
    PART("an ignored signal does not interrupt");
    signal(SIGALRM, SIG_IGN);
    struct itimerval timer = {.it_value = {0, 20000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    struct timespec short_time = {0, 60000000};
    T(nanosleep(&short_time, NULL));
    PART("stop and continue do not interrupt a sleep");
    child = MUST(fork());
    if (child == 0) {
        struct timespec sleep_time = {0, 150000000};
        _exit(nanosleep(&sleep_time, NULL) == 0 ? 0 : 1);
    }
    sleep_ms(30);
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    kill(child, SIGCONT);
    reap("child", child);
    N(got);
    return 0;
}

// When TCP sockets are ready: SO_RCVLOWAT, TCP_NOTSENT_LOWAT, MSG_WAITALL, time limits, edges of epoll, signals.
#include "inet.h"
#include <linux/sockios.h>
#include <pthread.h>
#include <sys/epoll.h>

static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }
static int get(int s, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, level, name, &value, &length) ? -errno : value;
}
static int limit(int s, int name, long ms) {
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    return setsockopt(s, SOL_SOCKET, name, &t, sizeof t);
}
static int events(int s, int wanted, int ms) {
    struct pollfd p = {s, wanted, 0};
    poll(&p, 1, ms);
    return p.revents;
}
static int arrived(int s, int wanted) {
    int have = 0;
    for (int i = 0; i < 200; i++) {
        if (ioctl(s, SIOCINQ, &have) || have >= wanted) break;
        sleep_ms(2);
    }
    return have;
}
static void edge(const char *what, int ep, int ms) {
    struct epoll_event e[4];
    int n = epoll_wait(ep, e, 4, ms);
    printf("%s: %d", what, n);
    for (int i = 0; i < n; i++) printf(" %#x", e[i].events);
    puts("");
}

static int sender;
static const char *pieces[8];
static void *send_pieces(void *unused) {
    (void)unused;
    for (int i = 0; i < 8 && pieces[i]; i++) {
        sleep_ms(60);
        send(sender, pieces[i], strlen(pieces[i]), MSG_NOSIGNAL);
    }
    return NULL;
}

static void low_water(void) {
    PART("SO_RCVLOWAT");
    int p[2], ep = MUST(epoll_create1(0));
    char data[64];
    tcp_pair(p);
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 10));
    N(get(p[0], SOL_SOCKET, SO_RCVLOWAT));
    struct epoll_event e = {EPOLLIN | EPOLLET, {0}};
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e));
    MUST(write(p[1], "12345", 5));
    N(arrived(p[0], 5));
    N(events(p[0], POLLIN, 0));
    edge("five", ep, 20);
    MUST(write(p[1], "67890", 5));
    N(events(p[0], POLLIN, 500));
    edge("ten", ep, 500);
    edge("no more", ep, 0);
    T(recv(p[0], data, 3, 0));
    N(events(p[0], POLLIN, 0));
    T(recv(p[0], data, 64, MSG_DONTWAIT));
    T(recv(p[0], data, 64, MSG_DONTWAIT));
    pieces[0] = "abc", pieces[1] = "defghijklm", pieces[2] = NULL, sender = p[1];
    pthread_t thread;
    pthread_create(&thread, NULL, send_pieces, NULL);
    N(events(p[0], POLLIN, 1000));
    N(arrived(p[0], 13));
    pthread_join(thread, NULL);
    T(recv(p[0], data, 64, 0));
    pthread_create(&thread, NULL, send_pieces, NULL);
    // A receive waits for as many bytes, too.
    T(recv(p[0], data, 64, 0));
    pthread_join(thread, NULL);
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 1));
    T(recv(p[0], data, 64, MSG_DONTWAIT));
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 30));
    MUST(write(p[1], "xy", 2));
    arrived(p[0], 2);
    N(events(p[0], POLLIN, 0));
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 2));
    N(events(p[0], POLLIN, 0));
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 30));
    T(shutdown(p[1], SHUT_WR));
    N(events(p[0], POLLIN | POLLRDHUP, 500));
    T(recv(p[0], data, 64, 0));
    T(recv(p[0], data, 64, 0));
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 0));
    N(get(p[0], SOL_SOCKET, SO_RCVLOWAT));
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, -1));
    N(get(p[0], SOL_SOCKET, SO_RCVLOWAT));
    close(p[0]), close(p[1]), close(ep);
}

static void whole(void) {
    PART("MSG_WAITALL");
    int p[2];
    char data[64];
    tcp_pair(p);
    pthread_t thread;
    pieces[0] = "abc", pieces[1] = "defgh", pieces[2] = NULL, sender = p[1];
    pthread_create(&thread, NULL, send_pieces, NULL);
    T(recv(p[0], data, 8, MSG_WAITALL));
    pthread_join(thread, NULL);
    limit(p[0], SO_RCVTIMEO, 400);
    pieces[1] = NULL;
    pthread_create(&thread, NULL, send_pieces, NULL);
    T(recv(p[0], data, 8, MSG_WAITALL));
    pthread_join(thread, NULL);
    T(recv(p[0], data, 8, MSG_WAITALL));
    MUST(write(p[1], "abc", 3));
    arrived(p[0], 3);
    T(recv(p[0], data, 8, MSG_WAITALL | MSG_DONTWAIT));
    MUST(write(p[1], "abc", 3));
    T(recv(p[0], data, 8, MSG_WAITALL | MSG_PEEK));
    T(recv(p[0], data, 2, MSG_WAITALL | MSG_PEEK));
    MUST(shutdown(p[1], SHUT_WR));
    T(recv(p[0], data, 8, MSG_WAITALL));
    T(recv(p[0], data, 8, MSG_WAITALL));
    close(p[0]), close(p[1]);
    tcp_pair(p);
    MUST(write(p[1], "abc", 3));
    arrived(p[0], 3);
    struct linger none = {1, 0};
    MUST(setsockopt(p[1], SOL_SOCKET, SO_LINGER, &none, sizeof none));
    close(p[1]);
    events(p[0], POLLRDHUP, 500);
    T(recv(p[0], data, 8, MSG_WAITALL));
    T(recv(p[0], data, 8, MSG_WAITALL));
    close(p[0]);
}

static char block[1 << 16];
static long fill(int s) {
    long sent = 0, n;
    while ((n = send(s, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) sent += n;
    return sent;
}
static void room(void) {
    PART("room to send");
    int p[2], ep = MUST(epoll_create1(0));
    tcp_pair(p);
    N(events(p[0], POLLOUT, 0));
    YES(fill(p[0]) > 100000);
    N(events(p[0], POLLOUT, 0));
    // The buffers may still grow a little.
    limit(p[0], SO_SNDTIMEO, 60);
    long long start;
    int failed = 0;
    for (int i = 0; i < 1000 && !failed; i++) {
        start = now_ms();
        failed = send(p[0], block, sizeof block, 0) < 0 ? errno : 0;
    }
    puts(check_error(failed));
    YES(now_ms() - start >= 50);
    struct epoll_event e = {EPOLLOUT | EPOLLET, {0}};
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e));
    edge("full", ep, 0);
    long got = 0, n;
    for (int i = 0; i < 2000 && (n = recv(p[1], block, sizeof block, MSG_DONTWAIT)) != 0; i++) {
        if (n > 0) got += n;
        else if (events(p[0], POLLOUT, 0)) break;
        else sleep_ms(2);
    }
    edge("room", ep, 500);
    edge("told", ep, 0);
    N(events(p[0], POLLOUT, 500));
    close(p[0]), close(p[1]), close(ep);
    PART("TCP_NOTSENT_LOWAT");
    tcp_pair(p);
    T(set(p[0], IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1000));
    N(events(p[0], POLLOUT, 0));
    YES(fill(p[0]) > 1000);
    int unsent = 0;
    MUST(ioctl(p[0], SIOCOUTQNSD, &unsent));
    N(events(p[0], POLLOUT, 0));
    T(set(p[0], IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0));
    close(p[0]), close(p[1]);
}

static volatile int signals;
static void handler(int number) {
    (void)number;
    signals++;
}
static void interrupted(int restart) {
    printf("-- signals, restart %d\n", restart);
    struct sigaction action = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
    sigaction(SIGALRM, &action, NULL);
    int p[2], l = listener4(1);
    char data[16];
    tcp_pair(p);
    // With a limit a call is never restarted.
    limit(p[0], SO_RCVTIMEO, 3000);
    alarms(30);
    T(recv(p[0], data, 16, 0));
    alarms(0);
    limit(p[0], SO_RCVTIMEO, 0);
    if (!restart) {
        alarms(30);
        T(recv(p[0], data, 16, 0));
        T(accept(l, NULL, NULL));
        alarms(0);
    }
    limit(l, SO_RCVTIMEO, 3000);
    alarms(30);
    T(accept(l, NULL, NULL));
    alarms(0);
    limit(l, SO_RCVTIMEO, 30);
    T(accept(l, NULL, NULL));
    MUST(write(p[1], "abc", 3));
    arrived(p[0], 3);
    limit(p[0], SO_RCVTIMEO, 3000);
    alarms(30);
    T(recv(p[0], data, 16, MSG_WAITALL));
    alarms(0);
    fill(p[0]);
    limit(p[0], SO_SNDTIMEO, 3000);
    alarms(30);
    T(send(p[0], block, sizeof block, 0));
    alarms(0);
    YES(signals > 0);
    close(p[0]), close(p[1]), close(l);
}

static char large[12 << 20];
static void *send_large(void *unused) {
    (void)unused;
    for (size_t done = 0; done < sizeof large;) {
        ssize_t n = send(sender, large + done, sizeof large - done, MSG_NOSIGNAL);
        if (n < 0) break;
        done += n;
    }
    return NULL;
}
static void more_than_fits(void) {
    PART("MSG_WAITALL of more than the buffers hold");
    int p[2];
    tcp_pair(p);
    sender = p[1];
    pthread_t thread;
    pthread_create(&thread, NULL, send_large, NULL);
    char *to = malloc(sizeof large);
    T(recv(p[0], to, sizeof large, MSG_WAITALL));
    pthread_join(thread, NULL);
    T(set(p[0], SOL_SOCKET, SO_RCVBUF, 10000));
    // Never more than half of the buffer.
    T(set(p[0], SOL_SOCKET, SO_RCVLOWAT, 10 << 20));
    YES(get(p[0], SOL_SOCKET, SO_RCVLOWAT) <= 10 << 20);
    pthread_create(&thread, NULL, send_large, NULL);
    YES(recv(p[0], to, sizeof large, 0) > 0);
    close(p[0]);
    pthread_join(thread, NULL);
    free(to);
    close(p[1]);
}

static void limits(void) {
    PART("time limits as numbers");
    static const struct timeval times[] = {{0, 0}, {0, 1}, {0, 999}, {0, 3999}, {0, 4000}, {0, 10000}, {1, 500000}, {-1, 0}, {0, 1000000}, {0, -1}, {LONG_MAX, 0}, {10000000000, 250000}};
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    for (size_t i = 0; i < COUNT(times); i++) {
        struct timeval now = {-7, -7};
        socklen_t length = sizeof now;
        printf("%zu: %s", i, setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &times[i], sizeof times[i]) ? check_error(errno) : "ok");
        MUST(getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &now, &length));
        // The unit is a tick of the host's kernel.
        printf(", now %ld.%02ld\n", (long)now.tv_sec, (long)now.tv_usec / 10000);
    }
    close(s);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    low_water();
    whole();
    room();
    more_than_fits();
    interrupted(0);
    interrupted(1);
    limits();
    return 0;
}

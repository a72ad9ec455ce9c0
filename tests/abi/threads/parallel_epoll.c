// Readiness that several processors tell of and ask for at once: epoll instances, poll, event counters. No event is lost:
// everything that was written is read, and nobody sleeps while there is something for him.
#include "../check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static atomic_int failures;

static void fail(const char *what) {
    if (failures++ < 3)
        printf("%s: %s\n", what, strerror(errno));
}

static void watch(int epoll, int operation, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &event) == -1)
        fail("epoll_ctl");
}

// What one instance tells its only user, exactly.
static void *own(void *unused) {
    (void)unused;
    static const unsigned modes[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLOUT};
    int epoll = epoll_create1(0), ends[2], pair[2], counter = eventfd(0, EFD_NONBLOCK);
    if (epoll == -1 || counter == -1 || pipe(ends) == -1 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1)
        fail("own");
    int from[3] = {counter, ends[0], pair[0]}, to[3] = {counter, ends[1], pair[1]};
    for (int i = 0; i < 12000; i++) {
        int which = i % 3, n;
        unsigned mode = modes[i / 3 % 4], expected = EPOLLIN;
        long value = 1;
        struct epoll_event seen[4];
        struct pollfd look = {from[which], POLLIN, 0};
        if (mode & EPOLLOUT && which != 1)
            expected |= EPOLLOUT;
        watch(epoll, EPOLL_CTL_ADD, from[which], mode);
        if (mode & EPOLLOUT ? (n = epoll_wait(epoll, seen, 4, 0)) != (which != 1) : (n = epoll_wait(epoll, seen, 4, 0)) != 0)
            fail("nothing");
        if (poll(&look, 1, 0) != 0)
            fail("poll nothing");
        if (write(to[which], &value, 8) != 8)
            fail("write");
        if (epoll_wait(epoll, seen, 4, -1) != 1 || seen[0].events != expected || seen[0].data.fd != from[which])
            fail("event");
        if (poll(&look, 1, -1) != 1 || look.revents != POLLIN)
            fail("poll");
        if (mode & (EPOLLET | EPOLLONESHOT)) {
            if (epoll_wait(epoll, seen, 4, 0) != 0)
                fail("again");
            if (mode & EPOLLONESHOT) {
                watch(epoll, EPOLL_CTL_MOD, from[which], mode);
                if (epoll_wait(epoll, seen, 4, 0) != 1)
                    fail("armed");
            }
        } else if (epoll_wait(epoll, seen, 4, 0) != 1) {
            fail("level");
        }
        if (read(from[which], &value, 8) != 8 || value != 1)
            fail("read");
        watch(epoll, EPOLL_CTL_DEL, from[which], 0);
        if (epoll_wait(epoll, seen, 4, 0) != 0)
            fail("removed");
    }
    int all[] = {epoll, counter, ends[0], ends[1], pair[0], pair[1]};
    for (unsigned i = 0; i < COUNT(all); i++)
        close(all[i]);
    return NULL;
}

// Two that answer each other: each sleeps until the other one has written.
static int across[2][2];
static int rounds;

static void *answer(void *side) {
    int me = (int)(long)side, epoll = epoll_create1(0);
    watch(epoll, EPOLL_CTL_ADD, across[me][0], EPOLLIN | (rounds & 1 ? EPOLLET : 0));
    for (int i = 0; i < 6000; i++) {
        struct epoll_event event;
        char byte[8] = {1};
        int n;
        if (!me && write(across[1][1], byte, 8) != 8)
            fail("first");
        while ((n = rounds == 2 ? poll(&(struct pollfd){across[me][0], POLLIN, 0}, 1, -1) : epoll_wait(epoll, &event, 1, -1)) == -1 && errno == EINTR)
            ;
        if (n != 1 || read(across[me][0], byte, 8) != 8)
            fail("wait");
        if (me && write(across[0][1], byte, 8) != 8)
            fail("answer");
    }
    close(epoll);
    return NULL;
}

// One instance for all: producers fill counters and sockets, consumers empty them.
enum { SOURCES = 6, PRODUCED = 12000 };
static int shared, sources[SOURCES], sinks[SOURCES], done;
static unsigned shared_mode;
static atomic_long consumed;

static void *produce(void *number) {
    for (int i = 0; i < PRODUCED; i++) {
        long value = 1;
        if (write(sources[(i * 7 + (long)number) % SOURCES], &value, 8) != 8)
            fail("produce");
    }
    return NULL;
}

static void *consume(void *unused) {
    (void)unused;
    for (;;) {
        struct epoll_event events[4];
        int n = epoll_wait(shared, events, 4, -1);
        if (n == -1 && errno != EINTR)
            fail("consume");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            long values[8];
            ssize_t got;
            if (fd == done)
                return NULL;
            while ((got = read(fd, values, sizeof values)) > 0)
                for (ssize_t k = 0; k < got / 8; k++)
                    consumed += values[k];
            if (got == -1 && errno != EAGAIN)
                fail("empty");
            if (shared_mode & EPOLLONESHOT)
                watch(shared, EPOLL_CTL_MOD, fd, shared_mode);
        }
    }
}

// Descriptors that are watched, written to, closed and left beside each other.
static atomic_int moving;
enum { SLOT = 100 };

static void *write_to_slot(void *unused) {
    (void)unused;
    long value = 1;
    while (moving)
        if (write(SLOT, &value, 8) == -1 && errno != EBADF && errno != EAGAIN && errno != EPIPE && errno != ECONNRESET)
            fail("slot");
    return NULL;
}

static void *move_slot(void *unused) {
    (void)unused;
    int epoll = epoll_create1(0);
    for (int i = 0; i < 3000; i++) {
        int pair[2] = {-1, -1};
        struct epoll_event events[8];
        if (i % 3 == 0)
            pair[0] = pair[1] = eventfd(0, EFD_NONBLOCK);
        else if (i % 3 == 1 ? pipe2(pair, O_NONBLOCK) : socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
            fail("pair");
        watch(epoll, EPOLL_CTL_ADD, pair[0], EPOLLIN | (i & 4 ? EPOLLET : 0));
        if (dup2(pair[1], SLOT) == -1)
            fail("dup2");
        if (i % 7 == 0)
            sched_yield();
        if (epoll_wait(epoll, events, 8, 0) == -1)
            fail("moved");
        if (i % 5 == 0)
            watch(epoll, EPOLL_CTL_DEL, pair[0], 0);
        close(pair[0]);
        if (pair[1] != pair[0])
            close(pair[1]);
        if (i % 50 == 0) {
            close(epoll);
            epoll = epoll_create1(0);
        }
    }
    close(epoll);
    close(SLOT);
    moving = 0;
    return NULL;
}

static atomic_int ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}

int main(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    pthread_t threads[4];
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);

    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            own(NULL);
            _exit(failures != 0);
        }
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, own, NULL);
    for (int i = 0; i < 2; i++) {
        int status = -1;
        pthread_join(threads[i], NULL);
        waitpid(children[i], &status, 0);
        failures += status != 0;
    }
    printf("own instances: %d failures\n", failures);

    for (int kind = 0; kind < 3; kind++)
        for (rounds = 0; rounds < 3; rounds++) {
            for (int i = 0; i < 2; i++) {
                if (kind == 0)
                    across[i][0] = across[i][1] = eventfd(0, 0);
                else if (kind == 1 ? pipe(across[i]) : socketpair(AF_UNIX, SOCK_STREAM, 0, across[i]))
                    fail("across");
            }
            for (long i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, answer, (void *)i);
            for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
            for (int i = 0; i < 4; i++)
                if (kind || i % 2 == 0)
                    close(across[i / 2][i % 2]);
            printf("answers: %d failures\n", failures);
        }

    static const unsigned modes[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLEXCLUSIVE};
    for (unsigned i = 0; i < COUNT(modes); i++) {
        setitimer(ITIMER_REAL, i & 1 ? &each : &none, NULL);
        shared_mode = modes[i];
        shared = epoll_create1(0);
        done = eventfd(0, 0);
        consumed = 0;
        for (int k = 0; k < SOURCES; k++) {
            int pair[2];
            if (k % 3 == 0)
                pair[0] = pair[1] = eventfd(0, EFD_NONBLOCK);
            else if (k % 3 == 1 ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
                fail("source");
            fcntl(pair[0], F_SETFL, O_NONBLOCK);
            if (k % 3 == 0)
                fcntl(pair[1], F_SETFL, 0);
            if (k % 3 == 0)
                fcntl(pair[0], F_SETFL, O_NONBLOCK);
            sinks[k] = pair[0];
            sources[k] = pair[1];
            watch(shared, EPOLL_CTL_ADD, sinks[k], shared_mode);
        }
        for (long k = 0; k < 2; k++) {
            pthread_create(&threads[k], NULL, produce, (void *)k);
            pthread_create(&threads[2 + k], NULL, consume, NULL);
        }
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        for (int wait = 0; wait < 20000 && consumed < 2 * PRODUCED; wait++)
            usleep(500);
        watch(shared, EPOLL_CTL_ADD, done, EPOLLIN);
        if (write(done, &(long){1}, 8) != 8)
            fail("done");
        for (int k = 0; k < 2; k++)
            pthread_join(threads[2 + k], NULL);
        for (int k = 0; k < SOURCES; k++) {
            close(sinks[k]);
            if (k % 3)
                close(sources[k]);
        }
        close(done);
        close(shared);
        printf("one instance: %d failures, %ld events\n", failures, (long)consumed);
    }

    moving = 1;
    pthread_create(&threads[0], NULL, write_to_slot, NULL);
    pthread_create(&threads[1], NULL, move_slot, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("moving descriptors: %d failures\n", failures);
    setitimer(ITIMER_REAL, &none, NULL);
    printf("signals came: %d\n", ticks > 0);
    return 0;
}

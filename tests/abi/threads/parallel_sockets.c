// Local sockets that several processors use at once, through descriptors that come and go: every byte and message that
// a send took is received, once, in order, before the end.
#include "../check.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

static atomic_int failures;
static int kind;

static void fail(const char *what) {
    if (failures++ < 3)
        printf("%s: %s\n", what, strerror(errno));
}

// A pair of one's own: what is sent comes back, by all calls.
static void *own(void *unused) {
    (void)unused;
    int ends[2];
    if (socketpair(AF_UNIX, kind, 0, ends) == -1) {
        fail("socketpair");
        return NULL;
    }
    for (long i = 0; i < 20000; i++) {
        char sent[600], seen[700];
        size_t size = 1 + (i * 37) % sizeof sent;
        memset(sent, (int)i, size);
        struct iovec parts[2] = {{sent, size / 3}, {sent + size / 3, size - size / 3}};
        struct iovec rooms[2] = {{seen, 5}, {seen + 5, sizeof seen - 5}};
        struct msghdr out = {.msg_iov = parts, .msg_iovlen = 2}, in = {.msg_iov = rooms, .msg_iovlen = 2, .msg_flags = -1, .msg_controllen = 9};
        ssize_t done = 0, got = 0;
        switch (i % 3) {
        case 0: done = write(ends[i & 1], sent, size); break;
        case 1: done = send(ends[i & 1], sent, size, MSG_NOSIGNAL); break;
        case 2: done = sendmsg(ends[i & 1], &out, 0); break;
        }
        switch (i / 3 % 3) {
        case 0: got = read(ends[~i & 1], seen, sizeof seen); break;
        case 1: got = recv(ends[~i & 1], seen, sizeof seen, MSG_DONTWAIT); break;
        case 2:
            got = recvmsg(ends[~i & 1], &in, 0);
            if (in.msg_flags != 0 || in.msg_controllen != 0)
                fail("header");
            break;
        }
        if (done != (ssize_t)size || got != done || memcmp(sent, seen, size))
            fail("own");
        if (i % 1000 == 0 && (recv(ends[0], seen, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN))
            fail("empty");
    }
    close(ends[0]);
    close(ends[1]);
    return NULL;
}

// One pair for all: two senders, two receivers, who wait for each other.
static int shared[2];
static atomic_long sum, count;
enum { NUMBERS = 20000 };

static void *send_numbers(void *start) {
    for (long i = 0; i < NUMBERS; i++) {
        long number = (long)start + i;
        if (write(shared[1], &number, sizeof number) != sizeof number)
            fail("send");
    }
    return NULL;
}

static void *receive_numbers(void *unused) {
    (void)unused;
    long numbers[5], last[2] = {-1, -1};
    ssize_t got;
    while ((got = read(shared[0], numbers, sizeof numbers)) > 0) {
        if (got % 8)
            fail("parts");
        for (ssize_t i = 0; i < got / 8; i++) {
            if (numbers[i] < 0)
                return NULL;
            long *before = &last[numbers[i] >= 1000000];
            if (numbers[i] <= *before)
                fail("order");
            *before = numbers[i];
            sum += numbers[i];
            count++;
        }
    }
    if (got == -1)
        fail("receive");
    return NULL;
}

// A stream whose pieces have all sizes, with short reads: bytes in order.
static void *send_bytes(void *unused) {
    (void)unused;
    static unsigned char bytes[20000];
    unsigned next = 0;
    for (int i = 0; i < 3000; i++) {
        size_t size = i % 50 == 0 ? sizeof bytes : 1u + i * 7 % 900;
        for (size_t k = 0; k < size; k++)
            bytes[k] = next++ * 167 >> 3;
        for (size_t done = 0; done < size;) {
            ssize_t now = send(shared[1], bytes + done, size - done, 0);
            if (now <= 0) {
                fail("bytes");
                return NULL;
            }
            done += now;
        }
    }
    shutdown(shared[1], SHUT_WR);
    return NULL;
}

static void *receive_bytes(void *unused) {
    (void)unused;
    static unsigned char bytes[5000];
    unsigned next = 0;
    ssize_t got;
    for (int i = 0; (got = recv(shared[0], bytes, 1 + i * 13 % sizeof bytes, 0)) > 0; i++)
        for (ssize_t k = 0; k < got; k++)
            if (bytes[k] != (unsigned char)(next++ * 167 >> 3))
                fail("value");
    count = next;
    return NULL;
}

// A descriptor that leads to another socket all the time; its messages are counted at the other end.
static atomic_int moving;
static atomic_long taken;
enum { SLOT = 100 };

static void *send_to_slot(void *unused) {
    (void)unused;
    while (moving) {
        ssize_t done = send(SLOT, "abc", 3, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (done == 3)
            taken += 3;
        else if (errno != EBADF && errno != EAGAIN && errno != ENOTSOCK && errno != EPIPE && errno != ENOTCONN && errno != ECONNREFUSED)
            fail("slot");
    }
    return NULL;
}

static long drain(int from) {
    char bytes[4096];
    long all = 0;
    ssize_t got;
    while ((got = recv(from, bytes, kind == SOCK_STREAM ? sizeof bytes : 3, MSG_DONTWAIT)) > 0)
        all += got;
    return all;
}

static long move_slot(void) {
    long found = 0;
    int before = -1;
    for (int i = 0; i < 2000 || (taken == 0 && i < 300000); i++) {
        int ends[2];
        if (i % 64 == 63)
            sched_yield();
        if (socketpair(AF_UNIX, kind, 0, ends) == -1 || dup2(ends[1], SLOT) == -1)
            fail("dup2");
        if (i % 3 == 0)
            close(ends[1]);
        else if (shutdown(ends[1], SHUT_WR) == -1 || close(ends[1]) == -1)
            fail("shutdown");
        // Nothing is sent to the one before any more: a send that was under way has ended with its call.
        if (before != -1) {
            found += drain(before);
            close(before);
        }
        before = ends[0];
        if (i % 16 == 0) {
            close(SLOT);
            sched_yield();
            found += drain(before);
            close(before);
            before = -1;
        }
    }
    close(SLOT);
    if (before != -1) {
        found += drain(before);
        close(before);
    }
    return found;
}

// Ends that are closed while the other end sends and receives: nothing hangs, nothing is reported that can't be.
static void *talk(void *end) {
    char bytes[64];
    for (;;) {
        ssize_t done = send((int)(long)end, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done == -1 && (errno == EPIPE || errno == ECONNRESET))
            break;
        struct pollfd one = {(int)(long)end, POLLIN | POLLOUT, 0};
        if (poll(&one, 1, -1) != 1 && errno != EINTR)
            fail("poll");
        ssize_t got = recv((int)(long)end, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got == -1 && errno == ECONNRESET))
            break;
        if (got == -1 && errno != EAGAIN)
            fail("talk");
    }
    close((int)(long)end);
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
    static const int kinds[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
    sigaction(SIGALRM, &action, NULL);
    for (int round = 0; round < 3; round++) {
        kind = kinds[round];
        setitimer(ITIMER_REAL, round ? &each : &none, NULL);
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
        printf("own pairs: %d failures\n", failures);

        // The senders of the first round fill the buffer; then it is small.
        sum = count = 0;
        check_ok("socketpair", socketpair(AF_UNIX, kind, 0, shared));
        if (round)
            check_ok("small", setsockopt(shared[1], SOL_SOCKET, SO_SNDBUF, &(int){2304}, sizeof(int)));
        for (long i = 0; i < 2; i++) {
            pthread_create(&threads[i], NULL, send_numbers, (void *)(i * 1000000));
            pthread_create(&threads[2 + i], NULL, receive_numbers, NULL);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++)
            write(shared[1], &(long){-1}, sizeof(long));
        if (kind == SOCK_STREAM)
            close(shared[1]);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[2 + i], NULL);
        close(shared[0]);
        if (kind != SOCK_STREAM)
            close(shared[1]);
        printf("one pair: %d failures, %ld numbers, sum %ld\n", failures, (long)count, (long)sum);

        if (kind == SOCK_STREAM) {
            check_ok("socketpair", socketpair(AF_UNIX, kind, 0, shared));
            pthread_create(&threads[0], NULL, send_bytes, NULL);
            pthread_create(&threads[1], NULL, receive_bytes, NULL);
            for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
            close(shared[0]);
            close(shared[1]);
            printf("bytes: %d failures, %ld\n", failures, (long)count);
        }

        moving = 1;
        taken = 0;
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, send_to_slot, NULL);
        long found = move_slot();
        moving = 0;
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        // One that was sent in the moment of a look may be lost with its socket.
        printf("a moving descriptor: %d failures, received as sent: %d\n", failures, found <= taken && taken > 0);

        for (int i = 0; i < 400 && kind != SOCK_DGRAM; i++) {
            int ends[2];
            if (socketpair(AF_UNIX, kind, 0, ends) == -1)
                fail("socketpair");
            for (long k = 0; k < 2; k++)
                pthread_create(&threads[k], NULL, talk, (void *)(long)ends[k]);
            usleep(i % 4 * 50);
            shutdown(ends[i & 1], SHUT_RDWR);
            for (int k = 0; k < 2; k++)
                pthread_join(threads[k], NULL);
        }
        printf("ends: %d failures\n", failures);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    printf("signals came: %d\n", ticks > 0);
    return 0;
}

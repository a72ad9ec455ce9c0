// Pipes that several processors use at once, through descriptors that come and go: every byte that a write took is read,
// once, before the end.
#include "../check.h"
#include <pthread.h>
#include <stdatomic.h>

static atomic_int failures;

// A pipe of one's own: what is written comes back.
static void *own(void *unused) {
    (void)unused;
    int ends[2];
    if (pipe(ends) == -1) {
        failures++;
        return NULL;
    }
    for (long i = 0; i < 50000; i++) {
        long seen[2] = {-1, -1};
        struct {
            long first, second;
        } sent = {i, ~i};
        int parts = 1 + (i % 7 == 0);
        bool ok = write(ends[1], &sent.first, 8) == 8;
        if (parts == 2)
            ok = ok && write(ends[1], &sent.second, 8) == 8;
        ok = ok && read(ends[0], seen, sizeof seen) == parts * 8 && seen[0] == i && seen[1] == (parts == 2 ? ~i : -1);
        if (!ok)
            failures++;
    }
    close(ends[0]);
    close(ends[1]);
    return NULL;
}

// One pipe for all: numbers from two writers to two readers, who wait for each other.
static int shared[2];
static atomic_long sum, count;
enum { NUMBERS = 30000 };

static void *write_numbers(void *start) {
    for (long i = 0; i < NUMBERS; i++) {
        long number = (long)start + i;
        if (write(shared[1], &number, sizeof number) != sizeof number)
            failures++;
    }
    return NULL;
}

static void *read_numbers(void *unused) {
    (void)unused;
    long numbers[5];
    ssize_t got;
    while ((got = read(shared[0], numbers, sizeof numbers)) > 0) {
        if (got % 8)
            failures++;
        for (ssize_t i = 0; i < got / 8; i++) {
            sum += numbers[i];
            count++;
        }
    }
    return NULL;
}

// A descriptor that leads to another pipe all the time.
static atomic_int moving;
static atomic_long taken;
enum { SLOT = 100 };

static void *write_to_slot(void *unused) {
    (void)unused;
    while (moving) {
        ssize_t done = write(SLOT, "abc", 3);
        if (done == 3)
            taken += 3;
        else if (errno != EBADF && errno != EAGAIN)
            failures++;
    }
    return NULL;
}

static long drain(int from) {
    char bytes[4096];
    long all = 0;
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        all += got;
    if (got == -1)
        failures++;
    close(from);
    return all;
}

static long move_slot(void) {
    long found = 0;
    int before = -1;
    for (int i = 0; i < 3000 || (taken == 0 && i < 300000); i++) {
        int ends[2];
        if (i % 64 == 63)
            sched_yield();
        if (pipe(ends) == -1 || fcntl(ends[1], F_SETFL, O_NONBLOCK) == -1 || dup2(ends[1], SLOT) == -1)
            failures++;
        close(ends[1]);
        if (before != -1)
            found += drain(before);
        before = ends[0];
        if (i % 16 == 0) {
            close(SLOT);
            found += drain(before);
            before = -1;
        }
    }
    close(SLOT);
    return before == -1 ? found : found + drain(before);
}

static void *fork_beside(void *unused) {
    (void)unused;
    while (moving) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child == -1 || waitpid(child, NULL, 0) != child)
            failures++;
        usleep(2000);
    }
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
    pthread_t threads[5];
    sigaction(SIGALRM, &action, NULL);
    for (int round = 0; round < 2; round++) {
        // Without signals, and with them.
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
        printf("own pipes: %d failures\n", failures);

        sum = count = 0;
        check_ok("pipe", pipe(shared));
        if (round)
            check_ok("small pipe", fcntl(shared[1], F_SETPIPE_SZ, 4096) == -1 ? -1 : 0);
        for (long i = 0; i < 2; i++) {
            pthread_create(&threads[i], NULL, write_numbers, (void *)(i * 1000000));
            pthread_create(&threads[2 + i], NULL, read_numbers, NULL);
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        close(shared[1]);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[2 + i], NULL);
        close(shared[0]);
        printf("one pipe: %d failures, %ld numbers, sum %ld\n", failures, (long)count, (long)sum);

        moving = 1;
        taken = 0;
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, write_to_slot, NULL);
        pthread_create(&threads[3], NULL, fork_beside, NULL);
        long found = move_slot();
        moving = 0;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        printf("a moving descriptor: %d failures, all read: %d\n", failures, found == taken && found > 0);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    printf("signals came: %d\n", ticks > 0);
    return 0;
}

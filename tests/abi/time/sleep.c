// Sleeping: how long, until when, what is rejected.
#include "check.h"

static long long began;
static void took(const char *what, long least, long most) {
    long long passed = now_ms() - began;
    printf("%s took %s\n", what, passed < least ? "too little" : passed > most ? "too long" : "long enough");
    began = now_ms();
}

int main(void) {
    struct timespec t = {0, 50000000};
    began = now_ms();
    T(nanosleep(&t, NULL));
    took("nanosleep", 50, 400);
    T(usleep(20000));
    took("usleep", 20, 400);
    T(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL));
    took("clock_nanosleep", 50, 400);
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 60000000;
    if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
    N(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
    took("until a time", 60, 400);
    N(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
    took("until a past time", 0, 40);
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 60000000;
    if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
    N(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL));
    took("until a time of day", 60, 400);
    t = (struct timespec){0, 0};
    T(nanosleep(&t, NULL));
    t.tv_nsec = 1;
    T(nanosleep(&t, NULL));
    took("nothing", 0, 40);
    PART("errors");
    t = (struct timespec){0, 1000000000};
    T(nanosleep(&t, NULL));
    t = (struct timespec){-1, 0};
    T(nanosleep(&t, NULL));
    N(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == EINVAL);
    t = (struct timespec){0, 1};
    N(clock_nanosleep(99, 0, &t, NULL) == EINVAL);
    N(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL) == EINVAL);
    T(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, BAD, NULL));
    T(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0x10, &t, NULL));
    PART("sleepers in several processes wake in order");
    int p[2];
    MUST(pipe(p));
    long long start = now_ms() + 1000; // all have been forked by then, also on a busy machine
    for (int i = 4; i >= 0; i--)
        if (MUST(fork()) == 0) {
            sleep_ms(start + i * 250 - now_ms());
            char c = '0' + i;
            write(p[1], &c, 1);
            _exit(0);
        }
    close(p[1]);
    char order[8] = {0};
    for (int i = 0; i < 5; i++) read(p[0], order + i, 1);
    puts(order);
    while (wait(NULL) > 0) {}
    return 0;
}

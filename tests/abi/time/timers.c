// alarm, interval timers, POSIX timers and timerfd.
#include "check.h"
#include <sys/timerfd.h>

static volatile int count, value;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    count++;
    if (info->si_code == SI_TIMER) value = info->si_value.sival_int;
}
static void wait_count(int wanted) {
    for (int i = 0; i < 3000 && count < wanted; i++) sleep_ms(1);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGVTALRM, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    PART("alarm");
    T(alarm(100));
    N(alarm(1) >= 99);
    wait_count(1);
    N(count);
    T(alarm(0));
    alarm(50);
    CHILD("not inherited", T(alarm(0)));
    alarm(0);
    PART("setitimer");
    struct itimerval timer = {{0, 10000}, {0, 10000}}, old;
    count = 0;
    T(setitimer(ITIMER_REAL, &timer, NULL));
    wait_count(5);
    YES(count >= 5);
    T(getitimer(ITIMER_REAL, &old));
    N(old.it_interval.tv_usec);
    YES(old.it_value.tv_usec > 0 && old.it_value.tv_usec <= 10000);
    timer = (struct itimerval){{0, 0}, {0, 0}};
    T(setitimer(ITIMER_REAL, &timer, &old));
    N(old.it_interval.tv_usec);
    count = 0;
    sleep_ms(30);
    N(count);
    timer.it_value.tv_usec = 1000000;
    T(setitimer(ITIMER_REAL, &timer, NULL));
    timer.it_value.tv_usec = 0;
    T(setitimer(9, &timer, NULL));
    T(getitimer(9, &timer));
    PART("processor time");
    timer.it_value.tv_usec = 20000;
    T(setitimer(ITIMER_VIRTUAL, &timer, NULL));
    // Where processors are emulated the clock may go on for seconds while the program does not run.
    long long end = now_ms() + 40000;
    while (count == 0 && now_ms() < end) {}
    N(count);
    T(setitimer(ITIMER_PROF, &timer, NULL));
    end = now_ms() + 40000;
    while (count == 1 && now_ms() < end) {}
    N(count);
    PART("POSIX timers");
    timer_t id;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 31};
    T(timer_create(CLOCK_MONOTONIC, &event, &id));
    struct itimerspec spec = {{0, 0}, {20, 0}}, now;
    count = 0;
    T(timer_settime(id, 0, &spec, NULL));
    T(timer_gettime(id, &now));
    YES(now.it_value.tv_sec < 20 && now.it_value.tv_sec + now.it_value.tv_nsec > 0);
    spec = (struct itimerspec){{0, 0}, {0, 20000000}};
    T(timer_settime(id, 0, &spec, NULL));
    wait_count(1);
    printf("%d %d\n", count, value);
    T(timer_gettime(id, &now));
    N(now.it_value.tv_nsec);
    spec.it_value.tv_nsec = 1000000000;
    T(timer_settime(id, 0, &spec, NULL));
    spec = (struct itimerspec){{0, 5000000}, {0, 5000000}};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_settime(id, 0, &spec, NULL);
    sleep_ms(60);
    count = 0;
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    YES(count >= 1);
    YES(timer_getoverrun(id) >= 0);
    T(timer_delete(id));
    T(timer_delete(id));
    T(timer_create(99, &event, &id));
    event.sigev_signo = 99;
    T(timer_create(CLOCK_MONOTONIC, &event, &id));
    event.sigev_notify = SIGEV_NONE;
    T(timer_create(CLOCK_REALTIME, &event, &id));
    T(timer_delete(id));
    PART("timerfd");
    uint64_t ticks = 0;
    int fd = OK(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    T(read(fd, &ticks, 8));
    spec = (struct itimerspec){{0, 0}, {20, 0}};
    T(timerfd_settime(fd, 0, &spec, NULL));
    T(timerfd_gettime(fd, &now));
    YES(now.it_value.tv_sec < 20 && now.it_value.tv_sec + now.it_value.tv_nsec > 0);
    spec = (struct itimerspec){{0, 0}, {0, 20000000}};
    T(timerfd_settime(fd, 0, &spec, NULL));
    struct pollfd poller = {fd, POLLIN, 0};
    T(poll(&poller, 1, 2000));
    T(read(fd, &ticks, 4));
    T(read(fd, &ticks, 8));
    N(ticks);
    T(read(fd, &ticks, 8));
    T(poll(&poller, 1, 0));
    spec = (struct itimerspec){{0, 5000000}, {0, 5000000}};
    timerfd_settime(fd, 0, &spec, NULL);
    sleep_ms(52);
    T(read(fd, &ticks, 8));
    YES(ticks >= 5 && ticks < 100);
    fcntl(fd, F_SETFL, 0);
    T(read(fd, &ticks, 8));
    T(write(fd, &ticks, 8));
    T(lseek(fd, 0, SEEK_SET));
    T(timerfd_settime(fd, 8, &spec, NULL));
    T(timerfd_settime(0, 0, &spec, NULL));
    T(timerfd_settime(99, 0, &spec, NULL));
    T(timerfd_create(99, 0));
    T(timerfd_create(CLOCK_MONOTONIC, 1));
    clock_gettime(CLOCK_MONOTONIC, &spec.it_value);
    spec.it_interval.tv_nsec = 0;
    T(timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, &now));
    N(now.it_interval.tv_nsec);
    T(read(fd, &ticks, 8));
    N(ticks);
    return 0;
}

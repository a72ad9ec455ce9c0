// Timers whose signal or expiry nobody takes for a while: what is queued, counted and dropped.
#include "check.h"
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#define MS 1000000

static sigset_t waited;
static int with_value(int signal, int value, timer_t *id) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal, .sigev_value.sival_int = value};
    return timer_create(CLOCK_MONOTONIC, &event, id);
}
static int set(timer_t id, long first_ns, long interval_ns) {
    struct itimerspec spec = {{0, interval_ns}, {0, first_ns}};
    return timer_settime(id, 0, &spec, NULL);
}
// Takes a signal if there is one now, or within so many ms.
static int take(siginfo_t *info, long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * MS};
    memset(info, 0, sizeof *info);
    return sigtimedwait(&waited, info, &time);
}
static int is_pending(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}
static volatile int handled, overrun;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    handled++;
    overrun = info->si_overrun;
}

static volatile long counted;
static volatile int stop_counting;
static void *count(void *argument) {
    while (!stop_counting) counted++;
    return argument;
}

int main(void) {
    siginfo_t info;
    timer_t id, others[3];
    sigemptyset(&waited);
    sigaddset(&waited, SIGUSR1);
    sigaddset(&waited, SIGALRM);
    sigaddset(&waited, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &waited, NULL);

    PART("an interval timer rests until its signal is taken");
    MUST(with_value(SIGRTMIN, 7, &id));
    N(timer_getoverrun(id));
    MUST(set(id, MS, MS));
    sleep_ms(40);
    N(timer_getoverrun(id));
    YES(take(&info, 1000) == SIGRTMIN);
    N(info.si_code);
    N(info.si_value.sival_int);
    YES(info.si_overrun >= 30);
    YES(timer_getoverrun(id) == info.si_overrun);
    YES(take(&info, 1000) == SIGRTMIN);
    YES(timer_getoverrun(id) == info.si_overrun);
    sleep_ms(20);
    struct itimerspec now;
    MUST(timer_gettime(id, &now));
    YES(now.it_value.tv_sec == 0 && now.it_value.tv_nsec > 0 && now.it_value.tv_nsec <= MS);
    YES(take(&info, 0) == SIGRTMIN);
    YES(info.si_overrun >= 15);
    MUST(set(id, 1, 1));
    sleep_ms(20);
    YES(take(&info, 0) == SIGRTMIN);
    YES(info.si_overrun >= 15 * MS);
    MUST(set(id, 0, 5));
    N(timer_getoverrun(id));
    MUST(timer_gettime(id, &now));
    N(now.it_interval.tv_nsec);

    PART("set anew or deleted while its signal is queued");
    take(&info, 0);
    MUST(set(id, MS, 0));
    sleep_ms(20);
    N(is_pending(SIGRTMIN));
    MUST(set(id, 0, 0));
    N(is_pending(SIGRTMIN));
    T(take(&info, 0));
    N(is_pending(SIGRTMIN));
    MUST(set(id, MS, 0));
    sleep_ms(20);
    MUST(set(id, MS, 0));
    sleep_ms(20);
    YES(take(&info, 0) == SIGRTMIN);
    T(take(&info, 0));
    MUST(set(id, MS, MS));
    sleep_ms(20);
    MUST(timer_delete(id));
    N(is_pending(SIGRTMIN));
    T(take(&info, 0));
    MUST(with_value(SIGRTMIN, 8, &id));
    N(timer_getoverrun(id));

    PART("a signal of each timer, also a standard one");
    for (int i = 0; i < 3; i++) {
        MUST(with_value(SIGUSR1, i, &others[i]));
        MUST(set(others[i], (i + 1) * MS, 0));
    }
    sleep_ms(40);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 3; i++) {
        YES(take(&info, 0) == SIGUSR1);
        N(info.si_value.sival_int);
    }
    T(take(&info, 0));

    PART("ignored");
    signal(SIGUSR1, SIG_IGN);
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &user, NULL);
    MUST(set(others[0], MS, MS));
    MUST(set(others[1], MS, 0));
    sleep_ms(40);
    N(is_pending(SIGUSR1));
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int i = 0; i < 1000 && handled < 3; i++) sleep_ms(1);
    YES(handled >= 3);
    MUST(set(others[0], 0, 0));
    handled = 0;
    sigprocmask(SIG_BLOCK, &user, NULL);
    MUST(set(others[0], MS, MS));
    MUST(set(others[1], MS, 0));
    sleep_ms(40);
    N(is_pending(SIGUSR1));
    signal(SIGUSR1, SIG_IGN);
    N(is_pending(SIGUSR1));
    MUST(sigaction(SIGUSR1, &action, NULL));
    N(is_pending(SIGUSR1));
    YES(take(&info, 0) == SIGUSR1);
    N(info.si_value.sival_int);
    YES(info.si_overrun >= 30);
    MUST(set(others[0], 0, 0));
    take(&info, 0);
    T(take(&info, 0));

    PART("a signal with a timer's code that is none of a timer");
    siginfo_t forged = {.si_signo = SIGRTMIN, .si_code = SI_TIMER};
    forged.si_timerid = 12345, forged.si_overrun = 3;
    T(syscall(SYS_rt_sigqueueinfo, getpid(), SIGRTMIN, &forged));
    YES(take(&info, 0) == SIGRTMIN);
    N(info.si_timerid);
    N(info.si_overrun);

    PART("signalfd");
    int fd = MUST(signalfd(-1, &waited, SFD_NONBLOCK));
    struct signalfd_siginfo record;
    MUST(set(id, MS, MS));
    for (int i = 0; i < 2; i++) {
        sleep_ms(30);
        T(read(fd, &record, sizeof record));
        N(record.ssi_int);
        YES(record.ssi_overrun >= 20);
        YES((int)record.ssi_overrun == timer_getoverrun(id));
    }
    MUST(timer_delete(id));
    sleep_ms(5);
    T(read(fd, &record, sizeof record));

    PART("setitimer");
    struct itimerval interval = {{0, 1000}, {0, 1000}}, left;
    MUST(setitimer(ITIMER_REAL, &interval, NULL));
    sleep_ms(20);
    MUST(getitimer(ITIMER_REAL, &left));
    N(left.it_value.tv_usec);
    N(left.it_interval.tv_usec);
    interval = (struct itimerval){{10, 0}, {0, 1000}};
    MUST(setitimer(ITIMER_REAL, &interval, NULL));
    sleep_ms(20);
    YES(take(&info, 0) == SIGALRM);
    MUST(getitimer(ITIMER_REAL, &left));
    YES(left.it_value.tv_sec == 9);
    T(take(&info, 0));
    interval = (struct itimerval){{0, 1000}, {0, 1000}};
    signal(SIGALRM, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &waited, NULL);
    MUST(setitimer(ITIMER_REAL, &interval, NULL));
    sleep_ms(20);
    MUST(getitimer(ITIMER_REAL, &left));
    N(left.it_value.tv_usec);
    MUST(sigaction(SIGALRM, &action, NULL));
    handled = 0;
    sleep_ms(20);
    N(handled);
    kill(getpid(), SIGALRM);
    for (int i = 0; i < 1000 && handled < 3; i++) sleep_ms(1);
    YES(handled >= 3);
    interval = (struct itimerval){{0, 0}, {0, 0}};
    MUST(setitimer(ITIMER_REAL, &interval, NULL));
    sigprocmask(SIG_BLOCK, &waited, NULL);

    PART("timerfd");
    uint64_t ticks = 0;
    int timer = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    struct itimerspec spec = {{0, MS}, {0, MS}};
    MUST(timerfd_settime(timer, 0, &spec, NULL));
    sleep_ms(30);
    struct pollfd poller = {timer, POLLIN, 0};
    N(poll(&poller, 1, 0));
    MUST(timerfd_gettime(timer, &now));
    YES(now.it_value.tv_nsec > 0 && now.it_value.tv_nsec <= MS);
    N(poll(&poller, 1, 0));
    sleep_ms(10);
    T(read(timer, &ticks, 8));
    YES(ticks >= 35 && ticks < 4000);
    spec = (struct itimerspec){{0, 1}, {0, 1}};
    MUST(timerfd_settime(timer, 0, &spec, NULL));
    N(poll(&poller, 1, 1000));
    sleep_ms(20);
    T(read(timer, &ticks, 8));
    YES(ticks >= 15 * MS);
    spec = (struct itimerspec){{0, 0}, {0, 1}};
    MUST(timerfd_settime(timer, 0, &spec, NULL));
    N(poll(&poller, 1, 1000));
    MUST(timerfd_gettime(timer, &now));
    N(now.it_value.tv_nsec);
    T(read(timer, &ticks, 8));
    N(ticks);
    MUST(timerfd_gettime(timer, &now));
    N(now.it_value.tv_nsec);

    PART("many timers, one of which is taken, beside a thread");
    enum { MANY = 2000 };
    pthread_t thread;
    pthread_create(&thread, NULL, count, NULL);
    for (int i = 0; i < MANY; i++) {
        timer_t one;
        MUST(with_value(SIGRTMIN, i, &one));
        MUST(set(one, 1, 1));
    }
    long before = counted;
    int taken = 0;
    for (int i = 0; i < 100; i++) taken += take(&info, 1000) == SIGRTMIN;
    N(taken);
    sleep_ms(200);
    YES(counted - before >= 100);
    stop_counting = 1;
    pthread_join(thread, NULL);
    return 0;
}

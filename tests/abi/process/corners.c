// prctl(2), scheduling, timers and owners in the corners.
// cflags: -pthread
#include "check.h"
#include <linux/sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t util_min, util_max;
};

static void controls(void) {
    PART("prctl");
    for (int option = 0; option < 82; option++) {
        // Those that change what comes after, whose answers depend on the machine, or that others test.
        if (strchr("\x01\x04\x08\x0f\x16\x18\x1a\x1c\x23\x24\x26\x34\x35\x3b\x3d\x3e", option) && option) continue;
        if (option == 41 || option == 42 || option == 65 || option == 66 || option == 57 || option == 58 || (option >= 69 && option <= 72)) continue;
        errno = 0;
        long result = syscall(SYS_prctl, option, 0x77777777UL, 0x77UL, 0x77UL, 0x77UL);
        printf("%d with odd arguments: %s\n", option, result == -1 ? check_error(errno) : "ok");
    }
    T(prctl(PR_GET_PDEATHSIG, BAD));
    T(prctl(PR_SET_PDEATHSIG, 65));
    T(prctl(PR_SET_DUMPABLE, 2));
    T(prctl(PR_SET_DUMPABLE, 3));
    T(prctl(PR_GET_DUMPABLE));
    T(prctl(PR_SET_KEEPCAPS, 2));
    T(prctl(PR_GET_KEEPCAPS));
    int value = 0;
    T(prctl(PR_GET_TSC, &value));
    N(value);
    T(prctl(PR_GET_TSC, BAD));
    T(prctl(PR_SET_TSC, 3));
    T(prctl(PR_SET_TSC, PR_TSC_ENABLE));
    T(prctl(PR_GET_UNALIGN, &value));
    T(prctl(PR_GET_ENDIAN, &value));
    T(prctl(PR_GET_FPEMU, &value));
    T(prctl(PR_GET_TIMING));
    T(prctl(PR_SET_TIMING, 1));
    T(prctl(PR_SET_TIMING, 0));
    T(prctl(PR_GET_TIMERSLACK));
    T(prctl(PR_SET_TIMERSLACK, 1000));
    T(prctl(PR_GET_TIMERSLACK));
    CHILD("a child", T(prctl(PR_GET_TIMERSLACK)); T(prctl(PR_SET_TIMERSLACK, 0)); T(prctl(PR_GET_TIMERSLACK)));
    T(prctl(PR_SET_TIMERSLACK, 0));
    T(prctl(PR_GET_TIMERSLACK));
    T(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    T(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0));
    T(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    T(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0));
    T(prctl(PR_GET_TID_ADDRESS, BAD));
    T(prctl(PR_GET_CHILD_SUBREAPER, &value));
    T(prctl(PR_GET_CHILD_SUBREAPER, BAD));
    T(prctl(PR_CAPBSET_READ, 0));
    T(prctl(PR_CAPBSET_READ, 41));
    T(prctl(PR_CAPBSET_READ, 64));
    T(prctl(PR_CAPBSET_DROP, 64));
    T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0, 0, 0));
    T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 64, 0, 0));
    T(prctl(PR_CAP_AMBIENT, 9, 0, 0, 0));
    T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 1, 0, 0));
    T(prctl(PR_SET_VMA, 1, 0, 0, 0));
    T(prctl(PR_SET_VMA, 0, 0, 4096, 0));
    T(prctl(PR_GET_SPECULATION_CTRL, 7, 0, 0, 0));
    T(prctl(PR_GET_SPECULATION_CTRL, 0, 1, 0, 0));
    T(prctl(PR_SET_SPECULATION_CTRL, 7, PR_SPEC_ENABLE, 0, 0));
    T(prctl(PR_SET_SPECULATION_CTRL, 0, 77, 0, 0));
    T(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
    T(prctl(PR_MCE_KILL_GET, 1, 0, 0, 0));
    T(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, 7, 0, 0));
    T(prctl(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 1, 0, 0));
    T(prctl(PR_SET_NAME, BAD));
    T(prctl(PR_GET_NAME, BAD));
    T(prctl(PR_GET_SECCOMP));
    T(prctl(PR_SET_SECCOMP, 7, 0));
    T(prctl(77777, 0));
    T(prctl(-1, 0));
    PART("personality");
    T(personality(0xffffffff));
    T(personality(ADDR_NO_RANDOMIZE));
    T(personality(0xffffffff));
    T(personality(0));
}

static void scheduling(void) {
    PART("scheduling");
    struct sched_param none = {0}, one = {1};
    struct timespec time;
    struct attr attr = {sizeof attr};
    T(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none));
    T(sched_getscheduler(0));
    T(syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0));
    printf("%u %#llx\n", attr.policy, (long long)attr.flags);
    CHILD("a child", T(sched_getscheduler(0)));
    T(sched_setscheduler(0, SCHED_OTHER, &none));
    T(sched_getscheduler(0));
    T(sched_setscheduler(0, SCHED_OTHER, &one));
    T(sched_setscheduler(0, SCHED_FIFO, &none));
    T(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &one));
    T(sched_getscheduler(0));
    T(sched_rr_get_interval(0, &time));
    N(time.tv_nsec);
    setpriority(PRIO_PROCESS, 0, -5);
    CHILD("a child", T(sched_getscheduler(0)); T(getpriority(PRIO_PROCESS, 0)));
    T(sched_setscheduler(0, SCHED_RR, &one));
    T(sched_rr_get_interval(0, &time));
    N(time.tv_nsec);
    CHILD("a child", T(sched_getscheduler(0)));
    T(sched_setscheduler(0, SCHED_IDLE, &none));
    T(sched_setscheduler(0, SCHED_OTHER, &none));
    T(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none));
    CHILD("a child of one that goes first", T(sched_getscheduler(0)); T(getpriority(PRIO_PROCESS, 0)));
    T(setpriority(PRIO_PROCESS, 0, 0));
    T(sched_setscheduler(0, 4, &none));
    T(sched_setscheduler(0, 8, &none));
    T(sched_setscheduler(0, -1, &none));
    T(sched_setscheduler(0, 0, NULL));
    T(syscall(SYS_sched_setscheduler, 0, 0, BAD));
    PART("attributes");
    attr = (struct attr){sizeof attr, .flags = 1};
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    T(sched_getscheduler(0));
    attr.flags = 0x80;
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    attr.flags = 0;
    attr.nice = 3;
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    T(getpriority(PRIO_PROCESS, 0));
    attr = (struct attr){sizeof attr, .flags = 0x18 /* keep policy and parameters */};
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    T(getpriority(PRIO_PROCESS, 0));
    attr = (struct attr){.size = 0};
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    attr.size = 47;
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    N(attr.size);
    attr.size = 4097;
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    N(attr.size);
    attr = (struct attr){.size = 48, .policy = -1};
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    attr = (struct attr){.size = 48, .policy = SCHED_FIFO};
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    attr = (struct attr){.size = 48, .nice = 40};
    T(syscall(SYS_sched_setattr, 0, &attr, 0));
    T(getpriority(PRIO_PROCESS, 0));
    T(setpriority(PRIO_PROCESS, 0, 0));
    T(syscall(SYS_sched_setattr, 0, NULL, 0));
    T(syscall(SYS_sched_setattr, 0, &attr, 1));
    T(syscall(SYS_sched_getattr, 0, &attr, 47, 0));
    T(syscall(SYS_sched_getattr, 0, &attr, 48, 0));
    N(attr.size);
    T(syscall(SYS_sched_getattr, 0, &attr, 48, 1));
    T(syscall(SYS_sched_getattr, 0, BAD, 48, 0));
}

static void nothing(int signal) {}
static volatile int came;
static void count(int signal, siginfo_t *info, void *context) { came = 1 + info->si_overrun; }

static void timers(void) {
    PART("timers");
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    static const int clocks[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, -1, 100};
    for (size_t i = 0; i < COUNT(clocks); i++) {
        printf("clock %d\n", clocks[i]);
        T(timer_create(clocks[i], &event, &timer));
        int fd = timerfd_create(clocks[i], 0);
        printf("%s\n", fd < 0 ? check_error(errno) : "a descriptor");
        close(fd);
        struct timespec res = {0};
        T(syscall(SYS_clock_getres, clocks[i], &res));
        T(syscall(SYS_clock_gettime, clocks[i], BAD));
        // Processor time does not pass while the process sleeps.
        if (clocks[i] == CLOCK_PROCESS_CPUTIME_ID) continue;
        T(clock_nanosleep(clocks[i], 0, &(struct timespec){0, 1}, NULL));
        T(clock_nanosleep(clocks[i], TIMER_ABSTIME, &(struct timespec){0, 1}, NULL));
    }
    event.sigev_signo = 65;
    T(timer_create(CLOCK_REALTIME, &event, &timer));
    event.sigev_signo = 0;
    T(timer_create(CLOCK_REALTIME, &event, &timer));
    event.sigev_signo = SIGUSR1;
    event.sigev_notify = 77;
    T(timer_create(CLOCK_REALTIME, &event, &timer));
    event.sigev_notify = SIGEV_THREAD_ID;
    event._sigev_un._tid = 1;
    T(timer_create(CLOCK_REALTIME, &event, &timer));
    event._sigev_un._tid = getpid();
    T(timer_create(CLOCK_REALTIME, &event, &timer));
    event._sigev_un._tid = 0;
    T(timer_create(CLOCK_REALTIME, &event, &timer));
    T(syscall(SYS_timer_create, CLOCK_REALTIME, BAD, &timer));
    T(syscall(SYS_timer_create, CLOCK_REALTIME, NULL, BAD));
    T(syscall(SYS_timer_settime, 12345, 0, &(struct itimerspec){0}, NULL));
    T(syscall(SYS_timer_gettime, 12345, BAD));
    T(syscall(SYS_timer_getoverrun, 12345));
    T(syscall(SYS_timer_delete, 12345));
    PART("overruns");
    event = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &action, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    T(timer_settime(timer, 0, &(struct itimerspec){{0, 1000000}, {0, 1000000000}}, NULL));
    T(timer_settime(timer, 0, &(struct itimerspec){{0, -1}, {0, 1}}, NULL));
    T(timer_settime(timer, 77, &(struct itimerspec){{0, 0}, {0, 0}}, NULL));
    MUST(timer_settime(timer, 0, &(struct itimerspec){{0, 1000000}, {0, 1000000}}, NULL));
    sleep_ms(50);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    while (!came) sleep_ms(1);
    YES(came > 20);
    MUST(timer_settime(timer, 0, &(struct itimerspec){0}, NULL));
    YES(timer_getoverrun(timer) >= 0);
    MUST(timer_settime(timer, TIMER_ABSTIME, &(struct itimerspec){{0, 0}, {0, 1}}, NULL));
    sleep_ms(5);
    N(timer_getoverrun(timer));
    struct itimerspec left;
    T(timer_gettime(timer, &left));
    N(left.it_value.tv_nsec);
    T(timer_delete(timer));
    CHILD("children have none", T(timer_gettime(timer, &left)));
    PART("timer descriptors");
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    uint64_t ticks = 7;
    T(read(fd, &ticks, 8));
    T(read(fd, &ticks, 7));
    T(timerfd_settime(fd, 4, &left, NULL));
    T(timerfd_settime(fd, 0, &(struct itimerspec){{0, 0}, {-1, 0}}, NULL));
    T(timerfd_settime(fd, TFD_TIMER_CANCEL_ON_SET, &(struct itimerspec){0}, NULL));
    T(timerfd_settime(fd, TFD_TIMER_ABSTIME, &(struct itimerspec){{0, 0}, {0, 1}}, NULL));
    T(read(fd, &ticks, 8));
    N(ticks);
    T(read(fd, &ticks, 8));
    T(write(fd, &ticks, 8));
    T(timerfd_settime(1, 0, &left, NULL));
    T(timerfd_gettime(-1, &left));
    T(timerfd_create(CLOCK_MONOTONIC, 1));
    PART("owners");
    int pipes[2];
    MUST(pipe(pipes));
    T(fcntl(pipes[0], F_SETOWN, 4000000));
    T(fcntl(pipes[0], F_SETOWN, -4000000));
    T(fcntl(pipes[0], F_SETOWN, INT_MIN));
    T(fcntl(pipes[0], F_GETOWN));
    struct f_owner_ex owner = {F_OWNER_PID, 4000000};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));
    owner = (struct f_owner_ex){7, 1};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));
    owner = (struct f_owner_ex){F_OWNER_TID, getpid()};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));
    YES(fcntl(pipes[0], F_GETOWN) == getpid());
    T(fcntl(pipes[0], F_GETOWN_EX, BAD));
    T(fcntl(pipes[0], F_SETSIG, 65));
    T(fcntl(pipes[0], F_SETSIG, -1));
    T(fcntl(pipes[0], F_SETOWN, 0));
    T(fcntl(pipes[0], F_GETOWN));
    for (int command = 0; command < 20; command++) printf("fcntl %d: %s\n", command, check_error((errno = 0, fcntl(999, command, 0), errno)));
    for (int command = 1024; command < 1050; command++) {
        if (command == F_SETPIPE_SZ || command == 1024 || command == 1025) continue;
        errno = 0;
        long result = fcntl(pipes[0], command, 0);
        printf("fcntl %d: %s\n", command, result == -1 ? check_error(errno) : "ok");
    }
}

int main(void) {
    signal(SIGUSR1, nothing);
    no_core_files();
    controls();
    CHILD("scheduling", scheduling());
    timers();
    return 0;
}

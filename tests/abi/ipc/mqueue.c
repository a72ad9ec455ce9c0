// POSIX message queues.
#include "check.h"
#include <mqueue.h>
#include <sys/epoll.h>

static char name[32];
static volatile sig_atomic_t told, value, code, own;

static void on_message(int number, siginfo_t *info, void *context) {
    (void)context;
    told = number;
    value = info->si_value.sival_int;
    code = info->si_code;
    own = info->si_pid == getpid();
}

static void on_alarm(int number) { (void)number; }

static void receive(const char *what, mqd_t queue) {
    char text[8192] = {0};
    unsigned priority = 99;
    ssize_t got = mq_receive(queue, text, sizeof text, &priority);
    if (got < 0)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: %zd bytes, priority %u: %s\n", what, got, priority, text);
}

static void show(const char *what, mqd_t queue) {
    struct mq_attr attr;
    if (mq_getattr(queue, &attr) < 0)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: flags %#lx, %ld of %ld messages of %ld bytes\n", what, attr.mq_flags, attr.mq_curmsgs, attr.mq_maxmsg,
               attr.mq_msgsize);
}

static void poll_(const char *what, mqd_t queue) {
    struct pollfd entry = {queue, POLLIN | POLLOUT, 0};
    int ready = poll(&entry, 1, 0);
    printf("%s: %d %#x\n", what, ready, entry.revents);
}

int main(void) {
    sprintf(name, "/hull.%d", getpid());

    PART("open");
    T(mq_open(name, O_RDWR));
    T(mq_open("/", O_RDWR | O_CREAT, 0600, NULL));
    T(mq_open("/a/b", O_RDWR | O_CREAT, 0600, NULL));
    T(syscall(SYS_mq_open, "/x", O_RDWR | O_CREAT, 0600, NULL));
    T(syscall(SYS_mq_open, "..", O_RDWR | O_CREAT, 0600, NULL));
    T(syscall(SYS_mq_open, BAD, O_RDWR | O_CREAT, 0600, NULL));
    T(syscall(SYS_mq_open, name + 1, O_RDWR | O_CREAT, 0600, BAD));
    char longer[300];
    memset(longer, 'x', sizeof longer);
    longer[0] = '/';
    longer[257] = 0;
    T(mq_open(longer, O_RDWR | O_CREAT, 0600, NULL));
    struct mq_attr attr = {.mq_maxmsg = 0, .mq_msgsize = 10};
    T(mq_open(name, O_RDWR | O_CREAT, 0600, &attr));
    attr.mq_maxmsg = 1 << 20;
    T(mq_open(name, O_RDWR | O_CREAT, 0600, &attr));
    attr = (struct mq_attr){.mq_maxmsg = 3, .mq_msgsize = 20, .mq_flags = O_NONBLOCK};
    mqd_t queue = OK(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0620, &attr));
    T(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0620, &attr));
    show("fresh", queue);
    N(fcntl(queue, F_GETFD));
    N(fcntl(queue, F_GETFL) & O_ACCMODE);
    struct stat st;
    T(fstat(queue, &st));
    printf("%o %lld\n", st.st_mode, (long long)st.st_size);

    PART("messages");
    poll_("empty", queue);
    T(mq_send(queue, "low", 3, 1));
    T(mq_send(queue, "high", 4, 9));
    poll_("two", queue);
    T(mq_send(queue, "low again", 9, 1));
    poll_("full", queue);
    show("full", queue);
    T(mq_setattr(queue, &attr, NULL));
    T(mq_send(queue, "one too many", 12, 1));
    receive("1", queue);
    receive("2", queue);
    receive("3", queue);
    receive("4", queue);
    T(mq_send(queue, "", 0, 0));
    receive("empty message", queue);
    attr.mq_flags = 1;
    T(mq_setattr(queue, &attr, NULL));
    attr.mq_flags = 0;
    struct mq_attr before;
    T(mq_setattr(queue, &attr, &before));
    printf("before: %#lx\n", before.mq_flags);
    T(mq_send(queue, "longer than twenty bytes", 24, 0));
    T(mq_send(queue, "x", 1, 32768));
    T(mq_send(queue, BAD, 1, 0));
    T(mq_send(0, "x", 1, 0));
    T(mq_send(-1, "x", 1, 0));
    char small[19];
    T(mq_receive(queue, small, sizeof small, NULL));
    T(read(queue, small, 5));
    T(write(queue, "x", 1));

    PART("time");
    char text[20];
    struct timespec past = {1, 0}, wrong = {1, 1000000000}, soon;
    T(mq_timedreceive(queue, text, 20, NULL, &past));
    T(mq_timedreceive(queue, text, 20, NULL, &wrong));
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    T(mq_timedreceive(queue, text, 20, NULL, &soon));
    for (int i = 0; i < 3; i++) MUST(mq_send(queue, "x", 1, 0));
    T(mq_timedsend(queue, "x", 1, 0, &past));
    for (int i = 0; i < 3; i++) MUST(mq_receive(queue, text, 20, NULL));
    struct sigaction alarm_ = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &alarm_, NULL);
    alarms(20);
    T(mq_receive(queue, text, 20, NULL));
    alarms(0);

    PART("processes");
    pid_t child = MUST(fork());
    if (child == 0) {
        receive("child", queue);
        _exit(0);
    }
    sleep_ms(10);
    MUST(mq_send(queue, "to the child", 12, 5));
    reap("child", child);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, queue, &event));
    child = MUST(fork());
    if (child == 0) {
        mqd_t own = mq_open(name, O_WRONLY);
        T(mq_receive(own, text, 20, NULL));
        sleep_ms(10);
        mq_send(own, "hello", 5, 2);
        _exit(0);
    }
    T(epoll_wait(epoll, &event, 1, 5000));
    reap("sender", child);
    receive("parent", queue);

    PART("notify");
    struct sigaction action = {.sa_sigaction = on_message, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent notify = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 77};
    T(mq_notify(queue, &notify));
    T(mq_notify(queue, &notify));
    CHILD("other", T(mq_notify(queue, &notify)); T(mq_notify(queue, NULL)));
    T(mq_send(queue, "x", 1, 0));
    printf("told %d, value %d, code %d, own %d\n", (int)told, (int)value, (int)code, (int)own);
    told = 0;
    T(mq_notify(queue, &notify));
    T(mq_send(queue, "x", 1, 0));
    N(told);
    T(mq_notify(queue, NULL));
    T(mq_notify(queue, NULL));
    MUST(mq_receive(queue, text, 20, NULL));
    MUST(mq_receive(queue, text, 20, NULL));
    T(mq_send(queue, "x", 1, 0));
    N(told);
    notify.sigev_signo = 100;
    T(mq_notify(queue, &notify));
    notify.sigev_notify = 55;
    T(mq_notify(queue, &notify));
    T(mq_notify(0, NULL));

    PART("unlink");
    if (getuid() == 0)
        CHILD("nobody", MUST(setgid(65534)); MUST(setuid(65534)); T(mq_open(name, O_RDONLY)); OK(mq_unlink(name)));
    else
        puts("not root");
    T(mq_unlink(name));
    T(mq_unlink(name));
    T(mq_open(name, O_RDWR));
    receive("still there", queue);
    T(mq_close(queue));
    T(mq_close(queue));
    return 0;
}

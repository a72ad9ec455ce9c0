// eventfd and signalfd.
#include "check.h"
#include <sys/eventfd.h>
#include <sys/signalfd.h>

int main(void) {
    uint64_t value = 0;
    int fd = OK(eventfd(5, EFD_NONBLOCK | EFD_CLOEXEC));
    T(read(fd, &value, 8));
    N(value);
    T(read(fd, &value, 8));
    value = 3;
    T(write(fd, &value, 8));
    T(write(fd, &value, 8));
    T(read(fd, &value, 4));
    T(write(fd, &value, 4));
    T(read(fd, &value, 8));
    N(value);
    value = UINT64_MAX;
    T(write(fd, &value, 8));
    value = UINT64_MAX - 1;
    T(write(fd, &value, 8));
    value = 1;
    T(write(fd, &value, 8));
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    T(poll(&p, 1, 0));
    N(p.revents);
    T(read(fd, &value, 8));
    T(poll(&p, 1, 0));
    N(p.revents);
    T(lseek(fd, 0, SEEK_SET));
    T(pread(fd, &value, 8, 0));
    T(eventfd(0, 0x100));
    PART("semaphore");
    int s = OK(eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK));
    T(read(s, &value, 8));
    N(value);
    T(read(s, &value, 8));
    T(read(s, &value, 8));
    PART("waiting");
    int w = MUST(eventfd(0, 0));
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(40);
        value = 9;
        write(w, &value, 8);
        _exit(0);
    }
    T(read(w, &value, 8));
    N(value);
    reap("child", child);
    PART("signalfd");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int g = OK(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    struct signalfd_siginfo info[4];
    T(read(g, info, sizeof info));
    raise(SIGUSR1);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 12});
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 13});
    p.fd = g;
    T(poll(&p, 1, 0));
    N(p.revents);
    T(read(g, info, 10));
    T(read(g, info, sizeof *info + 5));
    printf("SIG%s code %d\n", signal_name(info->ssi_signo), info->ssi_code);
    long got = T(read(g, info, sizeof info));
    for (long i = 0; i < got / (long)sizeof *info; i++)
        printf("%d value %d own %d\n", info[i].ssi_signo - SIGRTMIN, info[i].ssi_int, info[i].ssi_pid == (unsigned)getpid());
    T(read(g, info, sizeof info));
    T(write(g, info, sizeof info));
    child = MUST(fork());
    if (child == 0) _exit(6);
    fcntl(g, F_SETFL, 0);
    T(read(g, info, sizeof *info));
    printf("SIG%s status %d child %d\n", signal_name(info->ssi_signo), info->ssi_status, info->ssi_pid == (unsigned)child);
    reap("child", child);
    sigdelset(&set, SIGUSR1);
    T(signalfd(g, &set, 0) == g ? 0 : -1);
    raise(SIGUSR1);
    fcntl(g, F_SETFL, O_NONBLOCK);
    T(read(g, info, sizeof *info));
    T(signalfd(0, &set, 0));
    T(signalfd(99, &set, 0));
    T(signalfd(-1, &set, 1));
    T(syscall(SYS_signalfd4, -1, &set, 4, 0));
    T(syscall(SYS_signalfd4, -1, BAD, 8, 0));
    return 0;
}

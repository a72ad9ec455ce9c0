// Calls with a timeout in a process that is stopped and continued meanwhile: most go on, some end with EINTR (signal(7)).
#include "check.h"
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>

static int pipes[2], datagrams[2], epoll, semaphores;
static const struct timespec wait_for = {0, 600000000};

static void in_600_ms(struct timespec *time, clockid_t clock) {
    clock_gettime(clock, time);
    time->tv_nsec += wait_for.tv_nsec;
    if (time->tv_nsec >= 1000000000) {
        time->tv_nsec -= 1000000000;
        time->tv_sec++;
    }
}

static long wait_of(int kind) {
    struct pollfd poll_for = {pipes[0], POLLIN};
    struct epoll_event event;
    struct timespec time = wait_for;
    struct timeval short_time = {0, 600000};
    struct sembuf take = {0, -1, 0};
    fd_set set;
    sigset_t signals;
    char bytes[64];
    uint32_t word = 0;
    unsigned long context = 0;
    long result;
    int error;
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    switch (kind) {
    case 0: return poll(&poll_for, 1, 600);
    case 1: return syscall(SYS_ppoll, &poll_for, 1, &time, NULL, 8);
    case 2: return select(pipes[0] + 1, &set, NULL, NULL, &short_time);
    case 3: return pselect(pipes[0] + 1, &set, NULL, NULL, &time, NULL);
    case 4: return epoll_wait(epoll, &event, 1, 600);
    case 5: return syscall(441, epoll, &event, 1, &time, NULL, 8);
    case 6: return nanosleep(&time, NULL);
    case 7: in_600_ms(&time, CLOCK_MONOTONIC); return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    case 8: return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time);
    case 9: in_600_ms(&time, CLOCK_MONOTONIC); return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &time, NULL, -1);
    case 10: return sigtimedwait(&signals, NULL, &time);
    case 11: return semtimedop(semaphores, &take, 1, &time);
    case 12: return recv(datagrams[0], bytes, 1, 0);
    case 13:
    case 14:
        MUST(syscall(SYS_io_setup, 1, &context));
        result = kind == 13 ? syscall(SYS_io_getevents, context, 1L, 1L, bytes, &time) : syscall(333, context, 1L, 1L, bytes, &time, NULL);
        error = errno;
        syscall(SYS_io_destroy, context);
        errno = error;
        return result;
    default: return 0;
    }
}

// Waits until the process sleeps in its call.
static void wait_asleep(pid_t process) {
    for (int i = 0; i < 400; i++) {
        char text[256] = {0};
        int fd = MUST(open(proc_path(process, "stat"), O_RDONLY));
        MUST(read(fd, text, sizeof text - 1));
        close(fd);
        const char *name_end = strrchr(text, ')');
        if (name_end && name_end[2] == 'S') return;
        sleep_ms(2);
    }
}

int main(void) {
    MUST(pipe(pipes));
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams));
    struct timeval limit = {0, 600000};
    setsockopt(datagrams[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    epoll = MUST(epoll_create1(0));
    struct epoll_event event = {EPOLLIN};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event));
    semaphores = MUST(semget(IPC_PRIVATE, 1, 0600));
    for (int kind = 0; kind <= 14; kind++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            errno = 0;
            long result = wait_of(kind);
            printf("%d: %s\n", kind, result == -1 ? check_error(errno) : result ? "more" : "0");
            _exit(0);
        }
        wait_asleep(child);
        int status;
        kill(child, SIGSTOP);
        MUST(waitpid(child, &status, WUNTRACED));
        show_status("child", status);
        kill(child, SIGCONT);
        reap("child", child);
    }
    semctl(semaphores, 0, IPC_RMID);
    return 0;
}

// pidfd_send_signal(2) takes a directory of /proc as well.
#include "check.h"

static volatile sig_atomic_t got;
static void handler(int signal) { got = signal; }

static int open_path(const char *path, int flags) {
    int fd = open(path, flags);
    MUST(fd);
    return fd;
}

int main(void) {
    signal(SIGUSR1, handler);
    int self = open_path("/proc/self", O_RDONLY | O_DIRECTORY);
    T(syscall(SYS_pidfd_send_signal, self, SIGUSR1, NULL, 0));
    N(got);
    T(syscall(SYS_pidfd_send_signal, self, 0, NULL, 0));
    T(syscall(SYS_pidfd_send_signal, open_path("/proc/self", O_PATH), 0, NULL, 0));
    T(syscall(SYS_pidfd_send_signal, open_path("/proc/self/task", O_RDONLY), 0, NULL, 0));
    T(syscall(SYS_pidfd_send_signal, open_path("/proc/thread-self", O_RDONLY), 0, NULL, 0));
    T(syscall(SYS_pidfd_send_signal, open_path("/proc", O_RDONLY), 0, NULL, 0));
    T(syscall(SYS_pidfd_send_signal, open_path("/tmp", O_RDONLY), 0, NULL, 0));

    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    char path[32];
    sprintf(path, "/proc/%d", child);
    int fd = open_path(path, O_RDONLY);
    T(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    int status;
    YES(waitpid(child, &status, 0) == child);
    N(WTERMSIG(status));
    T(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    return 0;
}

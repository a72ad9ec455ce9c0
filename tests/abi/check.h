// Shared by the differential test programs. Each runs once on the host and once in a pod, in a new empty directory of a
// tmpfs; what it prints must not depend on process ids, addresses, times or descriptors' numbers.
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
// An address that is never mapped and one that never can be.
#define BAD ((void *)0x10)
#define KERNEL_ADDRESS ((void *)0xffff800000000000)

// Lines leave at once, so that a child never repeats its parent's and a crash loses none.
__attribute__((constructor)) static void check_start(void) { setvbuf(stdout, NULL, _IOLBF, 8192); }

static inline const char *check_error(int error) {
    const char *name = strerrorname_np(error);
    return name ? name : "an unknown error";
}

static inline long check_value(const char *what, long result) {
    int error = errno;
    if (result == -1)
        printf("%s: %s\n", what, check_error(error));
    else
        printf("%s: %ld\n", what, result);
    errno = error;
    return result;
}

static inline long check_ok(const char *what, long result) {
    int error = errno;
    printf("%s: %s\n", what, result == -1 ? check_error(error) : "ok");
    errno = error;
    return result;
}

static inline long check_must(const char *what, int line, long result) {
    if (result == -1) {
        int error = errno;
        printf("line %d: %s failed: %s\n", line, what, check_error(error));
        exit(99);
    }
    return result;
}

// Prints the call and its result or its error.
#define T(call) check_value(#call, (errno = 0, (long)(call)))
// The same of a system call by its number.
#define SYSCALL(nr, ...) check_value(#nr "(" #__VA_ARGS__ ")", (errno = 0, syscall(nr, __VA_ARGS__)))
// The same when the result itself may differ from run to run.
#define OK(call) check_ok(#call, (errno = 0, (long)(call)))
// Prints whether the condition holds.
#define YES(condition) printf("%s: %s\n", #condition, (condition) ? "yes" : "no")
// Setup that must work.
#define MUST(call) check_must(#call, __LINE__, (long)(call))
// Prints an integer expression.
#define N(expression) printf("%s: %lld\n", #expression, (long long)(expression))
// A heading, to find the place in a long output.
#define PART(name) printf("-- %s\n", name)

// Writes `text` to the file `name`, replacing it.
static inline void put_file(const char *name, const char *text) {
    int fd = MUST(open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644));
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) exit(98);
    close(fd);
}

// Prints the start of the file `name`.
static inline void show_file(const char *name) {
    char buffer[256];
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        printf("%s: cannot be opened: %s\n", name, check_error(errno));
        return;
    }
    ssize_t got = read(fd, buffer, sizeof buffer - 1);
    buffer[got < 0 ? 0 : got] = 0;
    printf("%s holds \"%s\"\n", name, buffer);
    close(fd);
}

// Path of a file in the directory of `process` in /proc; valid until the next call.
static inline const char *proc_path(pid_t process, const char *file) {
    static char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, file);
    return path;
}

// Prints whether a file in the directory of `process` in /proc can be read and holds something.
static inline void show_proc(pid_t process, const char *file) {
    char first;
    int fd = open(proc_path(process, file), O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, &first, 1);
    printf("%s: %s\n", file, got < 0 ? check_error(errno) : got ? "something" : "nothing");
    close(fd);
}

static inline const char *signal_name(int number) {
    const char *name = sigabbrev_np(number);
    return name ? name : "an unnamed signal";
}

// Prints how a child ended.
static inline void show_status(const char *what, int status) {
    if (WIFEXITED(status))
        printf("%s: exited with %d\n", what, WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        printf("%s: killed by SIG%s%s\n", what, signal_name(WTERMSIG(status)), WCOREDUMP(status) ? " (core)" : "");
    else if (WIFSTOPPED(status))
        printf("%s: stopped by SIG%s\n", what, signal_name(WSTOPSIG(status)));
    else if (WIFCONTINUED(status))
        printf("%s: continued\n", what);
    else
        printf("%s: status %#x\n", what, status);
}

static inline void reap(const char *what, pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {}
    show_status(what, status);
}

// Runs `body` in a child and prints how the child ended.
#define CHILD(what, ...)                                                                                               \
    do {                                                                                                               \
        pid_t child_ = MUST(fork());                                                                                   \
        if (child_ == 0) {                                                                                             \
            __VA_ARGS__;                                                                                               \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        reap(what, child_);                                                                                            \
    } while (0)

static inline void no_core_files(void) {
    struct { unsigned long current, maximum; } none = {0, 0};
    syscall(SYS_prlimit64, 0, 4 /* RLIMIT_CORE */, &none, NULL);
}

static inline void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) == -1 && errno == EINTR) {}
}

// SIGALRM every so many ms, 0: no more. A single one might come before the call that it is to interrupt.
static inline void alarms(long ms) {
    struct itimerval timer = {{ms / 1000, ms % 1000 * 1000}, {ms / 1000, ms % 1000 * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static inline long long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

#endif

// System calls given addresses that cannot be read or written: EFAULT, partial results, and no harm.
#include "check.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/times.h>

int main(void) {
    char *page = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    char *end = page + 4096;
    PART("at the end of a mapping");
    int fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
    T(write(fd, end - 10, 20));
    T(lseek(fd, 0, SEEK_END));
    T(pwrite(fd, "0123456789ABCDEFGHIJ", 20, 0));
    lseek(fd, 0, SEEK_SET);
    T(read(fd, end - 5, 20));
    printf("%.5s\n", end - 5);
    T(lseek(fd, 0, SEEK_CUR));
    int pipes[2];
    MUST(pipe(pipes));
    T(write(pipes[1], end, 20));
    T(write(pipes[1], "abcdefghij", 10));
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    T(read(pipes[0], end, 100));
    char drain[100];
    read(pipes[0], drain, 100);
    strcpy(end - 6, "/dev/");
    end[-1] = 'n';
    T(open(end - 6, O_RDONLY));
    strcpy(end - 10, "/dev/null");
    OK(open(end - 10, O_RDONLY));
    PART("stat and friends");
    T(syscall(SYS_stat, "f", end - 10));
    T(syscall(SYS_fstat, fd, end - 10));
    T(syscall(SYS_uname, end - 10));
    T(syscall(SYS_sysinfo, end - 10));
    T(syscall(SYS_getrusage, RUSAGE_SELF, end - 10));
    T(syscall(SYS_getrlimit, RLIMIT_NOFILE, end - 10));
    T(syscall(SYS_setrlimit, RLIMIT_NOFILE, BAD));
    T(syscall(SYS_times, BAD));
    T(syscall(SYS_gettimeofday, BAD, NULL));
    T(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, BAD));
    T(syscall(SYS_clock_getres, CLOCK_MONOTONIC, BAD));
    T(syscall(SYS_nanosleep, BAD, NULL));
    T(syscall(SYS_time, BAD));
    T(syscall(SYS_getcpu, BAD, NULL, NULL));
    T(syscall(SYS_pipe, BAD));
    T(syscall(SYS_pipe2, BAD, 0));
    T(syscall(SYS_pipe2, drain, 0x12345));
    T(syscall(SYS_getrandom, BAD, 16, 0));
    T(syscall(SYS_getgroups, 100, BAD) <= 0);
    T(syscall(SYS_getresuid, BAD, BAD, BAD));
    T(syscall(SYS_sched_getaffinity, 0, 128, BAD));
    T(syscall(SYS_set_tid_address, BAD) > 0);
    T(syscall(SYS_rt_sigaction, SIGUSR1, BAD, NULL, 8));
    T(syscall(SYS_rt_sigaction, SIGUSR1, NULL, BAD, 8));
    T(syscall(SYS_rt_sigprocmask, SIG_BLOCK, BAD, NULL, 8));
    T(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, BAD, 8));
    T(syscall(SYS_rt_sigpending, BAD, 8));
    T(syscall(SYS_rt_sigsuspend, BAD, 8));
    T(syscall(SYS_sigaltstack, BAD, NULL));
    T(syscall(SYS_setitimer, ITIMER_REAL, BAD, NULL));
    T(syscall(SYS_getitimer, ITIMER_REAL, BAD));
    T(syscall(SYS_poll, BAD, 1, 0));
    T(syscall(SYS_select, 1, BAD, NULL, NULL, NULL));
    T(syscall(SYS_futex, BAD, 0, 0, NULL));
    T(syscall(SYS_execve, BAD, NULL, NULL));
    T(syscall(SYS_execve, "/bin/true", BAD, NULL));
    T(syscall(SYS_prctl, 15, BAD));
    T(syscall(SYS_arch_prctl, 0x1003, BAD));
    T(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, BAD));
    T(syscall(SYS_ioctl, pipes[0], FIONREAD, BAD));
    T(syscall(SYS_fcntl, fd, F_GETLK, BAD));
    T(syscall(SYS_statfs, "f", BAD));
    T(syscall(SYS_sched_getparam, 0, BAD));
    T(syscall(SYS_epoll_ctl, 99, 1, 99, BAD));
    PART("waiting");
    pid_t child = fork();
    if (child == 0) _exit(3);
    T(syscall(SYS_wait4, child, BAD, 0, NULL));
    T(syscall(SYS_wait4, child, NULL, 0, NULL));
    return 0;
}

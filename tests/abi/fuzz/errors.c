// Every harmless system call with pseudo-random odd arguments: the errors and their order must be the same.
// cflags: -static -no-pie
#include "check.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static uint64_t state = 4242;
static unsigned pick(unsigned limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

// Calls that neither wait, nor end anything, nor change what later calls depend on.
static const struct { int number; const char *name; int arguments; } CALLS[] = {
#define C(name, arguments) {SYS_##name, #name, arguments}
    C(read, 3), C(write, 3), C(lseek, 3), C(pread64, 4), C(pwrite64, 4), C(readv, 3), C(writev, 3), C(preadv, 5), C(pwritev, 5),
    C(fstat, 2), C(stat, 2), C(lstat, 2), C(newfstatat, 4), C(statx, 5), C(access, 2), C(faccessat, 3), C(readlink, 3),
    C(readlinkat, 4), C(getdents64, 3), C(fsync, 1), C(fdatasync, 1), C(ftruncate, 2), C(truncate, 2),
    C(fallocate, 4), C(fadvise64, 4), C(fchmod, 2), C(chmod, 2), C(utimensat, 4), C(flock, 2), C(dup2, 2), C(dup3, 3),
    C(pipe2, 2), C(eventfd2, 2), C(epoll_create1, 1), C(epoll_ctl, 4), C(timerfd_create, 2), C(timerfd_settime, 4), C(timerfd_gettime, 2),
    C(signalfd4, 4), C(memfd_create, 2), C(mprotect, 3), C(madvise, 3), C(mincore, 3), C(msync, 3), C(getpriority, 2),
    C(sched_getscheduler, 1), C(sched_getparam, 2), C(sched_get_priority_max, 1), C(getrlimit, 2), C(getrusage, 2), C(getitimer, 2),
    C(clock_gettime, 2), C(clock_getres, 2), C(gettimeofday, 2), C(rt_sigprocmask, 4), C(rt_sigaction, 4), C(rt_sigpending, 2),
    C(sigaltstack, 2), C(getsockname, 3), C(getpeername, 3), C(getsockopt, 5), C(socketpair, 4), C(shutdown, 2), C(listen, 2),
    C(sendfile, 4), C(copy_file_range, 6), C(splice, 6), C(tee, 4), C(getrandom, 3), C(uname, 1), C(sysinfo, 1), C(getgroups, 2),
    C(kill, 2), C(tgkill, 3), C(getpgid, 1), C(getsid, 1), C(wait4, 4), C(waitid, 5), C(arch_prctl, 2), C(membarrier, 3),
    C(get_robust_list, 3), C(set_robust_list, 2), C(close_range, 3), C(openat, 4), C(openat2, 4), C(mkdirat, 3), C(unlinkat, 3),
    C(renameat2, 5), C(linkat, 5), C(symlinkat, 3), C(getxattr, 4), C(fgetxattr, 4), C(listxattr, 3), C(setxattr, 5), C(mlock, 2), C(munlock, 2),
    C(fchdir, 1), C(umask, 1), C(sync_file_range, 4), C(statfs, 2), C(fstatfs, 2), C(capget, 2), C(times, 1), C(getresuid, 3),
};

int main(void) {
    // At a fixed place, with nothing behind: sizes are odd too.
    char *page = mmap((void *)0x200000000, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    put_file("file", "0123456789");
    MUST(mkdir("dir", 0755));
    MUST(symlink("file", "link"));
    int file = MUST(open("file", O_RDWR)), dir = MUST(open("dir", O_RDONLY)), p[2], s[2];
    MUST(pipe2(p, O_NONBLOCK));
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s));
    int event = MUST(eventfd(1, EFD_NONBLOCK)), epoll = MUST(epoll_create1(0)), null = MUST(open("/dev/null", O_RDWR));
    long fds[] = {file, dir, p[0], p[1], s[0], event, epoll, null, -1, 99, AT_FDCWD, 1 << 30};
    for (int round = 0; round < 6000; round++) {
        unsigned which = pick(COUNT(CALLS));
        long arguments[6];
        char described[200] = "";
        for (int i = 0; i < 6; i++) {
            char text[40];
            switch (pick(9)) {
            case 0: case 1: case 2: {
                unsigned choice = pick(COUNT(fds));
                arguments[i] = fds[choice];
                sprintf(text, "fd#%u", choice);
                break;
            }
            case 3: arguments[i] = 0; strcpy(text, "0"); break;
            case 4: arguments[i] = (long)BAD; strcpy(text, "bad"); break;
            case 5: arguments[i] = (long)(page + 64); strcpy(text, "page"); break;
            case 6: arguments[i] = (long)(char *[]){"file", "dir", "link", "nothing", "", "file/x", "dir/x"}[pick(7)]; snprintf(text, sizeof text, "\"%s\"", (char *)arguments[i]); break;
            case 7: arguments[i] = (long[]){1, 2, 8, 16, 4096, 0x80000, 0x100, -1, 0x7fffffff}[pick(9)]; sprintf(text, "%ld", arguments[i]); break;
            default: arguments[i] = 1L << pick(63); sprintf(text, "%#lx", arguments[i]); break;
            }
            if (i < CALLS[which].arguments) {
                if (i) strcat(described, ", ");
                strcat(described, text);
            }
        }
        int number = CALLS[which].number;
        const char *name = CALLS[which].name;
        // What would end or disturb the test, or name something that differs.
        if (number == SYS_kill && arguments[0] == -1) continue;
        if ((number == SYS_kill || number == SYS_tgkill) && (arguments[number == SYS_kill ? 1 : 2] != 0)) continue;
        // Processes that every system has, or none.
        int by_process = number == SYS_getpgid || number == SYS_getsid || number == SYS_get_robust_list || number == SYS_kill ||
                         number == SYS_sched_getscheduler || number == SYS_sched_getparam;
        if (by_process && arguments[0] != 0 && arguments[0] != -1 && arguments[0] != 0x7fffffff) continue;
        // What depends on the host: huge pages, netlink; and which of two faults an event queue sees first.
        if (number == SYS_memfd_create && arguments[1] & 4) continue;
        if (number == SYS_socketpair && (int)arguments[0] == 16) continue;
        if ((int)arguments[0] == epoll && (number == SYS_read || number == SYS_readv || number == SYS_write || number == SYS_writev)) continue;
        if (number == SYS_flock && ((int)arguments[0] == epoll || (int)arguments[0] == event)) continue;
        // Devices of the host stay as they are.
        if (number == SYS_fchmod && (int)arguments[0] != file && (int)arguments[0] != dir && (int)arguments[0] != -1) continue;
        // The standard streams stay as they are.
        int by_descriptor = number != SYS_getgroups && number != SYS_getpgid && number != SYS_getsid;
        if (by_descriptor && (int)arguments[0] >= 0 && (int)arguments[0] <= 2) continue;
        if ((number == SYS_splice || number == SYS_copy_file_range) && (int)arguments[2] >= 0 && (int)arguments[2] <= 2) continue;
        if ((number == SYS_sendfile || number == SYS_tee) && (int)arguments[1] >= 0 && (int)arguments[1] <= 2) continue;
        if (number == SYS_close_range && (unsigned)arguments[0] < 200) continue;
        if ((number == SYS_dup2 || number == SYS_dup3) && (arguments[1] < 200 || arguments[1] > 1000)) continue;
        if (number == SYS_rt_sigaction && arguments[1]) continue;
        if (number == SYS_rt_sigprocmask && arguments[1]) continue;
        if (number == SYS_wait4 || number == SYS_waitid) arguments[number == SYS_wait4 ? 2 : 3] |= WNOHANG;
        if (number == SYS_flock) arguments[1] |= LOCK_NB;
        if ((number == SYS_mprotect || number == SYS_madvise) && arguments[0] == (long)(page + 64)) continue;
        if (number == SYS_fchdir || number == SYS_arch_prctl || number == SYS_sigaltstack || number == SYS_set_robust_list) {
            if (arguments[0] == dir || arguments[0] == (long)(page + 64) || arguments[0] > 0x1000) continue;
        }
        if ((number == SYS_mlock || number == SYS_fallocate || number == SYS_truncate || number == SYS_ftruncate) && (unsigned long)arguments[1] > 1 << 20) continue;
        if (number == SYS_fallocate && ((unsigned long)arguments[2] > 1 << 20 || (unsigned long)arguments[3] > 1 << 20)) continue;
        if (number == SYS_pwrite64 && (unsigned long)arguments[3] > 1 << 20) continue;
        if (number == SYS_pwritev && (unsigned long)arguments[3] > 1 << 20) continue;
        if (number == SYS_set_robust_list || number == SYS_umask) continue;
        strcpy(page + 64, "dir");
        memset(page + 72, 0, 8192 - 72);
        errno = 0;
        long result = syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
        printf("%d %s(%s): %s\n", round, name, described, result == -1 ? check_error(errno) : "ok");
        // Back to the start: the file's content and offset, few descriptors.
        lseek(file, 0, SEEK_SET);
        lseek(dir, 0, SEEK_SET);
        close_range(null + 1, ~0U, 0);
        char drain[100];
        while (read(p[0], drain, 100) == 100) {}
    }
    return 0;
}

// Process 1 exists for every call that takes a process id, and belongs to root.
#include "check.h"
#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

struct attr { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t rest[3]; };

static void look(pid_t one) {
    char buffer[64];
    struct iovec local = {buffer, 1}, remote = {stdout, 1};
    cpu_set_t cpus;
    struct sched_param parameter = {0};
    struct rlimit64 limit;
    struct timespec time;
    siginfo_t info;
    struct attr attr = {sizeof attr};
    unsigned long head, size, nodes = 1;
    T(getpgid(one));
    T(getsid(one));
    T(kill(one, 0));
    T(syscall(SYS_tkill, one, 0));
    T(syscall(SYS_tgkill, one, one, 0));
    T(syscall(SYS_tgkill, getpid(), one, 0));
    T(setpgid(one, 0));
    T(setpgid(one, one));
    T(setpgid(0, one));
    // What the host's has is its own matter.
    errno = 0;
    getpriority(PRIO_PROCESS, one);
    YES(errno == 0);
    OK(sched_getscheduler(one));
    T(sched_getparam(one, &parameter));
    T(sched_rr_get_interval(one, &time));
    T(syscall(SYS_sched_getattr, one, &attr, sizeof attr, 0));
    OK(sched_getaffinity(one, sizeof cpus, &cpus));
    T(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, one));
    T(wait4(one, NULL, WNOHANG, NULL));
    T(waitid(P_PID, one, &info, WEXITED | WNOHANG));
    int fd = syscall(SYS_pidfd_open, one, 0);
    OK(fd);
    T(waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG));
    T(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    struct pollfd poll_it = {fd, POLLIN, 0};
    T(poll(&poll_it, 1, 0));
    close(fd);
    T(syscall(SYS_clock_getres, (clockid_t)(~1u << 3 | 2), &time));
    OK(syscall(SYS_clock_gettime, (clockid_t)(~1u << 3 | 2), &time));
    T(syscall(SYS_rt_sigqueueinfo, one, 0, BAD));
    (void)limit, (void)head, (void)size, (void)nodes, (void)local, (void)remote;
}

static void change(pid_t one) {
    char buffer[64];
    struct iovec local = {buffer, 1}, remote = {stdout, 1};
    cpu_set_t cpus = {{1}};
    struct sched_param parameter = {0};
    struct rlimit64 limit;
    struct attr attr = {sizeof attr};
    unsigned long nodes = 1;
    void *head, *pages = stdout;
    size_t size;
    int status;
    siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGTERM};
    T(kill(one, SIGTERM));
    T(kill(one, 65));
    T(syscall(SYS_tkill, one, SIGTERM));
    T(syscall(SYS_tgkill, one, one, SIGTERM));
    T(syscall(SYS_rt_sigqueueinfo, one, SIGTERM, &info));
    T(syscall(SYS_rt_tgsigqueueinfo, one, one, SIGTERM, &info));
    info.si_code = SI_USER;
    T(syscall(SYS_rt_sigqueueinfo, one, SIGTERM, &info));
    int fd = syscall(SYS_pidfd_open, one, 0);
    T(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    T(syscall(SYS_pidfd_getfd, fd, 0, 0));
    T(syscall(SYS_process_madvise, fd, &remote, 1, MADV_COLD, 0));
    T(syscall(SYS_process_mrelease, fd, 0));
    T(syscall(SYS_setns, fd, 0));
    close(fd);
    T(setpriority(PRIO_PROCESS, one, 1));
    T(sched_setscheduler(one, SCHED_BATCH, &parameter));
    T(sched_setparam(one, &parameter));
    T(sched_setaffinity(one, sizeof cpus, &cpus));
    T(syscall(SYS_sched_setattr, one, &attr, 0));
    T(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, one, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4)));
    T(syscall(SYS_prlimit64, one, RLIMIT_CORE, NULL, &limit));
    T(syscall(SYS_prlimit64, one, RLIMIT_CORE, NULL, NULL));
    T(ptrace(PTRACE_ATTACH, one, 0, 0));
    T(ptrace(PTRACE_SEIZE, one, 0, 0));
    T(ptrace(PTRACE_CONT, one, 0, 0));
    T(process_vm_readv(one, &local, 1, &remote, 1, 0));
    T(process_vm_writev(one, &local, 1, &remote, 1, 0));
    T(syscall(SYS_kcmp, one, getpid(), KCMP_VM, 0, 0));
    T(syscall(SYS_kcmp, one, one, KCMP_FILE, 0, 0));
    T(syscall(SYS_get_robust_list, one, &head, &size));
    T(syscall(SYS_migrate_pages, one, 64, &nodes, &nodes));
    T(syscall(SYS_move_pages, one, 1, &pages, NULL, &status, 0));
}

int main(void) {
    PART("somebody else looks at process 1");
    CHILD("it", {
        setpgid(0, 0);
        MUST(syscall(SYS_setgroups, 0, NULL));
        MUST(syscall(SYS_setresgid, 65534, 65534, 65534));
        MUST(syscall(SYS_setresuid, 65534, 65534, 65534));
        look(1);
        PART("and changes it");
        change(1);
    });
    PART("a process that is not there");
    CHILD("it", {
        look(4194303);
        change(4194303);
    });
    PART("negative ids");
    CHILD("it", {
        char buffer[64];
        struct iovec local = {buffer, 1}, remote = {stdout, 1};
        struct sched_param parameter = {0};
        struct timespec time;
        cpu_set_t cpus = {{1}};
        struct attr attr = {sizeof attr};
        struct rlimit64 limit;
        unsigned long nodes = 1;
        siginfo_t info;
        T(getpgid(-1));
        T(getsid(-1));
        T(setpgid(-1, 0));
        T(setpgid(0, -1));
        T(sched_getscheduler(-1));
        T(sched_getparam(-1, &parameter));
        T(sched_setparam(-1, &parameter));
        T(sched_setscheduler(-1, 0, &parameter));
        T(sched_rr_get_interval(-1, &time));
        T(syscall(SYS_sched_getattr, -1, &attr, sizeof attr, 0));
        T(syscall(SYS_sched_setattr, -1, &attr, 0));
        T(sched_getaffinity(-1, sizeof cpus, &cpus));
        T(sched_setaffinity(-1, sizeof cpus, &cpus));
        T(getpriority(PRIO_PROCESS, -1));
        T(setpriority(PRIO_PROCESS, -1, 0));
        T(setpriority(PRIO_PGRP, -1, 0));
        T(setpriority(PRIO_USER, -1, 0));
        T(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, -1));
        T(syscall(SYS_ioprio_get, IOPRIO_WHO_PGRP, -1));
        T(syscall(SYS_prlimit64, -1, RLIMIT_CORE, NULL, &limit));
        T(syscall(SYS_pidfd_open, -1, 0));
        T(syscall(SYS_pidfd_open, 0, 0));
        T(ptrace(PTRACE_ATTACH, -1, 0, 0));
        T(process_vm_readv(-1, &local, 1, &remote, 1, 0));
        T(syscall(SYS_kcmp, -1, getpid(), KCMP_VM, 0, 0));
        T(syscall(SYS_get_robust_list, -1, &buffer, &buffer));
        T(syscall(SYS_migrate_pages, -1, 64, &nodes, &nodes));
        T(syscall(SYS_tkill, -1, 0));
        T(syscall(SYS_tkill, 0, 0));
        T(syscall(SYS_tgkill, 0, 1, 0));
        T(syscall(SYS_tgkill, -1, 1, 0));
        T(waitid(P_PID, -1, &info, WEXITED));
        T(waitid(P_PID, 0, &info, WEXITED));
        T(waitid(P_PGID, -1, &info, WEXITED));
        T(waitid(P_PGID, 0, &info, WEXITED));
        T(waitid(77, 0, &info, WEXITED));
        T(waitid(P_PIDFD, -1, &info, WEXITED));
        T(waitid(P_PIDFD, 77, &info, WEXITED));
        T(wait4(INT_MIN, NULL, 0, NULL));
        T(kill(INT_MIN, 0));
    });
    return 0;
}

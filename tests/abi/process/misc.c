// prctl, personality, scheduling calls and other small ones.
#include "check.h"
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>

int main(void) {
    char name[20] = {0};
    PART("prctl");
    T(prctl(PR_SET_NAME, "a name that is too long"));
    T(prctl(PR_GET_NAME, name));
    puts(name);
    T(prctl(PR_GET_DUMPABLE));
    T(prctl(PR_SET_DUMPABLE, 0));
    T(prctl(PR_GET_DUMPABLE));
    T(prctl(PR_SET_DUMPABLE, 5));
    T(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    T(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    T(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    T(prctl(PR_GET_KEEPCAPS));
    T(prctl(PR_GET_TIMERSLACK) > 0);
    T(prctl(PR_CAPBSET_READ, 999));
    T(prctl(12345));
    T(prctl(PR_SET_PDEATHSIG, SIGTERM));
    PART("setns");
    int pipe_fds[2], net = MUST(open("/proc/self/ns/net", O_RDONLY)), user = MUST(open("/proc/self/ns/user", O_RDONLY));
    int self = MUST(syscall(SYS_pidfd_open, getpid(), 0)), directory = MUST(open("/", O_RDONLY));
    MUST(pipe(pipe_fds));
    T(setns(-1, 0));
    T(setns(pipe_fds[0], 0));
    T(setns(directory, CLONE_NEWNET));
    T(setns(net, CLONE_NEWUTS));
    T(setns(net, CLONE_NEWNET | CLONE_NEWUTS));
    T(setns(user, 0));
    T(setns(user, CLONE_NEWUSER));
    T(setns(self, 0));
    T(setns(self, CLONE_NEWNET | 1));
    T(setns(self, CLONE_NEWUSER));
    PART("uname and sysinfo");
    struct utsname uts;
    T(uname(&uts));
    printf("%s %s %s\n", uts.sysname, uts.machine, strlen(uts.release) > 3 && uts.release[1] == '.' ? "release" : "?");
    struct sysinfo info;
    T(sysinfo(&info));
    YES(info.totalram > 0 && info.freeram <= info.totalram && info.mem_unit == 1 && info.procs > 0);
    YES(sysconf(_SC_NPROCESSORS_ONLN) > 0);
    N(sysconf(_SC_PAGESIZE));
    N(sysconf(_SC_CLK_TCK));
    PART("scheduling");
    T(sched_getscheduler(0));
    T(sched_getscheduler(999999));
    T(sched_getscheduler(-1));
    T(sched_get_priority_max(SCHED_FIFO));
    T(sched_get_priority_min(SCHED_FIFO));
    T(sched_get_priority_max(SCHED_OTHER));
    T(sched_get_priority_max(99));
    struct sched_param parameter = {.sched_priority = 0};
    T(sched_setscheduler(0, SCHED_OTHER, &parameter));
    T(sched_setscheduler(0, SCHED_BATCH, &parameter));
    T(sched_getscheduler(0));
    parameter.sched_priority = 1;
    T(sched_setscheduler(0, SCHED_OTHER, &parameter));
    T(sched_setscheduler(0, 99, &parameter));
    T(sched_getparam(0, &parameter));
    N(parameter.sched_priority);
    cpu_set_t set;
    YES(syscall(SYS_sched_getaffinity, 0, sizeof set, &set) > 0);
    YES(CPU_COUNT(&set) > 0);
    T(syscall(SYS_sched_getaffinity, 0, 1, &set));
    T(syscall(SYS_sched_getaffinity, 0, 12, &set));
    T(sched_setaffinity(0, sizeof set, &set));
    CPU_ZERO(&set);
    T(sched_setaffinity(0, sizeof set, &set));
    T(sched_yield());
    unsigned cpu = 9999, node = 9999;
    T(syscall(SYS_getcpu, &cpu, &node, NULL));
    YES(cpu < 1024 && node < 64);
    PART("times");
    struct tms t;
    YES(times(&t) != (clock_t)-1);
    PART("personality");
    T(personality(0xffffffff));
    T(personality(PER_LINUX32));
    T(uname(&uts));
    puts(uts.machine);
    T(personality(UNAME26 | ADDR_COMPAT_LAYOUT | READ_IMPLIES_EXEC));
    T(uname(&uts));
    printf("%.4s %d\n", uts.release, atoi(uts.release + 4) >= 60);
    fflush(stdout);
    CHILD("exec", MUST(execl("/bin/cat", "cat", "/proc/self/personality", NULL)));
    T(personality(0));
    PART("unknown calls");
    T(syscall(9999));
    T(syscall(-1));
    T(syscall(400));
    T(syscall(SYS_tuxcall));
    T(syscall(SYS_create_module));
    PART("umask is inherited");
    umask(027);
    CHILD("child", printf("%o\n", umask(0)));
    return 0;
}

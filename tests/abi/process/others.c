// What a thread may do with processes of other users, and with such as have capabilities that it lacks: scheduling, kcmp(2),
// process_madvise(2).
#include "check.h"
#include <grp.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { PAGE = 4096, USER = 1000, OTHER = 2000 };
static char *memory;

static void become(int uid, int saved) {
    struct rlimit none = {0, 0};
    MUST(setrlimit(RLIMIT_NICE, &none));
    MUST(setgroups(0, NULL));
    MUST(setresgid(uid, uid, uid));
    MUST(setresuid(uid, uid, saved));
    MUST(prctl(PR_SET_DUMPABLE, 1));
}

static void change(pid_t target, int pidfd) {
    T(setpriority(PRIO_PROCESS, target, 5));
    T(setpriority(PRIO_PROCESS, target, 1));
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    T(sched_setaffinity(target, sizeof first, &first));
    struct sched_param none = {0};
    T(sched_setscheduler(target, SCHED_BATCH, &none));
    T(sched_setparam(target, &none));
    SYSCALL(SYS_ioprio_set, 1, target, 2 << 13 | 5);
    T(kill(target, 0));
    SYSCALL(SYS_kcmp, target, target, KCMP_VM, 0, 0);
    SYSCALL(SYS_kcmp, getpid(), target, KCMP_FILE, 0, 1000);
    struct iovec page = {memory, PAGE};
    SYSCALL(SYS_process_madvise, pidfd, &page, 1, MADV_COLD, 0);
    SYSCALL(SYS_process_madvise, pidfd, &page, 1, MADV_COLD, 1);
}

// A process with these ids, and all capabilities if its saved user id is 0, and what one of USER may do with it, who is `root`
// or not.
static void try(const char *what, int uid, int saved, int root) {
    int ready[2];
    char byte;
    MUST(pipe(ready));
    pid_t target = MUST(fork());
    if (target == 0) {
        become(uid, saved);
        MUST(write(ready[1], "", 1));
        pause();
        _exit(0);
    }
    MUST(read(ready[0], &byte, 1));
    int pidfd = MUST(syscall(SYS_pidfd_open, target, 0));
    CHILD(what, if (!root) become(USER, USER); change(target, pidfd));
    MUST(kill(target, SIGKILL));
    MUST(waitpid(target, NULL, 0));
    close(ready[0]), close(ready[1]), close(pidfd);
}

int main(void) {
    memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = 1;
    try("the same user's", USER, USER, 0);
    try("the same user's, with capabilities", USER, 0, 0);
    try("another user's", OTHER, OTHER, 0);
    try("root's", 0, 0, 0);
    try("another user's, by root", OTHER, OTHER, 1);
    return 0;
}

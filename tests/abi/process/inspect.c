// Who may look into a process: ptrace(2), "Ptrace access mode checking".
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char secret[16] = "secret";

static void look(pid_t target) {
    char copy[16];
    struct iovec here = {copy, sizeof copy}, there = {secret, sizeof secret};
    char name[64];
    T(process_vm_readv(target, &here, 1, &there, 1, 0));
    int pidfd = syscall(SYS_pidfd_open, target, 0);
    OK(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
    sprintf(name, "/proc/%d/mem", target);
    OK(open(name, O_RDONLY));
    sprintf(name, "/proc/%d/exe", target);
    OK(readlink(name, copy, sizeof copy));
    void *head;
    size_t size;
    T(syscall(SYS_get_robust_list, target, &head, &size));
    T(ptrace(PTRACE_SEIZE, target, 0, 0));
}

// A process of user 54321 that others of that user may look into, or not.
static pid_t target(int dumpable) {
    int ready[2];
    pipe(ready);
    pid_t child = fork();
    if (child == 0) {
        setresgid(54321, 54321, 54321);
        setresuid(54321, 54321, 54321);
        prctl(PR_SET_DUMPABLE, dumpable);
        write(ready[1], "r", 1);
        for (;;) pause();
    }
    char byte;
    read(ready[0], &byte, 1);
    close(ready[0]), close(ready[1]);
    return child;
}

int main(void) {
    alarm(20);
    int status;
    for (int dumpable = 1; dumpable >= 0; dumpable--) {
        PART(dumpable ? "dumpable" : "not dumpable");
        pid_t other = target(dumpable);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setgroups(0, 0);
            setresgid(54321, 54321, 54321);
            setresuid(54321, 54321, 54321);
            prctl(PR_SET_DUMPABLE, 1);
            look(other);
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, &status, 0);
        kill(other, SIGKILL);
        waitpid(other, &status, 0);
    }
    PART("another user's");
    pid_t other = target(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setresgid(54322, 54322, 54322);
        setresuid(54322, 54322, 54322);
        look(other);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    return 0;
}

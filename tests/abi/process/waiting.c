// Waiting in the corners: whose children, which kinds, whose times count.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/prctl.h>

static void burn(int ms) {
    struct timespec t;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}
static long children_ms(void) {
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}
static pid_t child(int code) {
    pid_t pid = fork();
    if (pid == 0) _exit(code);
    return pid;
}
static void until_zombie(pid_t pid) {
    siginfo_t info;
    waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
}

static void ignored(void) {
    long before = children_ms();
    PART("children that nobody waits for");
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0) {
        burn(60);
        _exit(0);
    }
    T(waitpid(pid, NULL, 0));
    YES(children_ms() - before < 30);
    struct sigaction no_wait = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &no_wait, NULL);
    pid = fork();
    if (pid == 0) {
        burn(60);
        _exit(0);
    }
    T(waitpid(pid, NULL, 0));
    YES(children_ms() - before < 30);
    signal(SIGCHLD, SIG_DFL);
    pid = fork();
    if (pid == 0) {
        burn(60);
        _exit(0);
    }
    MUST(waitpid(pid, NULL, 0));
    YES(children_ms() - before >= 50);
    PART("a child that is an own reaper's");
    struct rusage u;
    pid = fork();
    if (pid == 0) {
        pid_t inner = fork();
        if (inner == 0) {
            burn(60);
            _exit(0);
        }
        until_zombie(inner);
        _exit(0);
    }
    memset(&u, 1, sizeof u);
    MUST(wait4(pid, NULL, 0, &u));
    YES(u.ru_utime.tv_sec * 1000 + u.ru_utime.tv_usec / 1000 < 40);
}

static volatile pid_t others;
static pthread_barrier_t barrier;
static void *has_a_child(void *unused) {
    others = child(7);
    until_zombie(others);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    T(waitpid(others, NULL, __WNOTHREAD | WNOHANG) == others);
    return unused;
}
static void threads(void) {
    PART("children of another thread");
    pthread_t thread;
    siginfo_t info;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, has_a_child, NULL);
    pthread_barrier_wait(&barrier);
    T(waitpid(others, NULL, __WNOTHREAD | WNOHANG));
    T(waitpid(-1, NULL, __WNOTHREAD | WNOHANG));
    T(syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | __WNOTHREAD, NULL));
    T(waitid(P_PID, others, &info, WEXITED | WNOHANG | WNOWAIT));
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    PART("children of a thread that ended");
    pthread_create(&thread, NULL, (void *(*)(void *))child, (void *)5);
    void *pid;
    pthread_join(thread, &pid);
    int status = 0;
    YES(waitpid((pid_t)(long)pid, &status, __WNOTHREAD) == (pid_t)(long)pid);
    show_status("it", status);
}

static int nothing(void *unused) { return 3; }
static char stack[65536] __attribute__((aligned(16)));
static void clones(void) {
    PART("clone children");
    static const int signals[] = {0, SIGCHLD, SIGUSR1};
    signal(SIGUSR1, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        printf("signal %d\n", signals[i]);
        siginfo_t info;
        int status = 0;
        pid_t pid = MUST(clone(nothing, stack + sizeof stack, signals[i], NULL));
        waitid(P_PID, pid, &info, WEXITED | WNOWAIT | __WALL);
        YES(waitpid(pid, &status, WNOHANG) == pid);
        YES(waitpid(pid, &status, WNOHANG | __WCLONE) == pid);
        YES(waitpid(pid, &status, WNOHANG | __WALL) == pid);
        show_status("it", status);
    }
    siginfo_t info;
    T(waitpid(-1, NULL, __WCLONE));
    T(waitpid(-1, NULL, __WALL));
    T(waitpid(-1, NULL, 0x40));
    T(waitpid(-1, NULL, WEXITED));
    T(waitid(P_ALL, 0, &info, 0));
    T(waitid(P_ALL, 0, &info, WNOHANG));
    T(waitid(P_ALL, 0, &info, WEXITED | 0x40));
    T(waitid(P_ALL, 0, &info, WEXITED | __WALL));
    T(waitid(P_ALL, 0, &info, WEXITED | __WCLONE | __WNOTHREAD));
    PART("where the answers go");
    pid_t pid = child(0);
    T(wait4(pid, BAD, 0, NULL));
    T(wait4(pid, NULL, 0, NULL));
    pid = child(0);
    T(syscall(SYS_waitid, P_PID, pid, BAD, WEXITED, NULL));
    T(syscall(SYS_waitid, P_PID, pid, NULL, WEXITED, NULL));
    pid = child(0);
    T(syscall(SYS_waitid, P_PID, pid, NULL, WEXITED, BAD));
    T(syscall(SYS_waitid, P_PID, pid, NULL, WEXITED, NULL));
    memset(&info, 0x55, sizeof info);
    pid = fork();
    if (pid == 0) pause();
    T(syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG, NULL));
    N(info.si_pid);
    N(info.si_signo);
    kill(pid, SIGKILL);
    T(waitid(P_PID, pid, &info, WEXITED));
    N(info.si_code);
    N(info.si_status);
    N(info.si_errno);
}

static void stops(void) {
    PART("stops");
    siginfo_t info;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    kill(pid, SIGSTOP);
    T(waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT));
    N(info.si_code);
    N(info.si_status);
    T(waitid(P_PID, pid, &info, WSTOPPED));
    T(waitid(P_PID, pid, &info, WSTOPPED | WNOHANG));
    N(info.si_signo);
    YES(waitpid(pid, &status, WNOHANG | WUNTRACED) == 0);
    kill(pid, SIGCONT);
    YES(waitpid(pid, &status, WCONTINUED) == pid);
    show_status("it", status);
    kill(pid, SIGTERM);
    reap("it", pid);
}

int main(void) {
    ignored();
    threads();
    clones();
    stops();
    return 0;
}

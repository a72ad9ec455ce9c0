// System call filters: seccomp(2).
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define IF(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

static int seccomp_(unsigned operation, unsigned flags, const void *args) {
    return syscall(SYS_seccomp, operation, flags, args);
}

#define PROGRAM(name, ...)                                                                                             \
    struct sock_filter name##_code[] = {__VA_ARGS__};                                                                  \
    struct sock_fprog name = {COUNT(name##_code), name##_code}

static void install_(struct sock_fprog *program) {
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(seccomp_(SECCOMP_SET_MODE_FILTER, 0, program));
}

// Makes getpgid(2) do what the value says.
static void answer(unsigned value) {
    PROGRAM(program, LOAD(nr), IF(SYS_getpgid), RETURN(value), RETURN(SECCOMP_RET_ALLOW));
    install_(&program);
}

static volatile int trapped, trap_code, trap_errno, trap_call, trap_arch, trap_here;

static void on_trap(int number, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    trapped = number;
    trap_code = info->si_code;
    trap_errno = info->si_errno;
    trap_call = info->si_syscall;
    trap_arch = info->si_arch == AUDIT_ARCH_X86_64;
    trap_here = (long)info->si_call_addr == uc->uc_mcontext.gregs[REG_RIP];
    trap_here += 2 * (uc->uc_mcontext.gregs[REG_RAX] == SYS_getpgid);
    uc->uc_mcontext.gregs[REG_RAX] = 4711;
}

static void *thread_forbidden(void *unused) {
    (void)unused;
    syscall(SYS_getpgid, 0);
    return NULL;
}

static int in_thread;

static void *thread_asks(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&in_thread, __ATOMIC_SEQ_CST)) sleep_ms(1);
    return (void *)(long)(syscall(SYS_getpgid, 0) < 0 ? errno : 0);
}

static void *thread_own_filter(void *unused) {
    PROGRAM(program, RETURN(SECCOMP_RET_ALLOW));
    install_(&program);
    __atomic_store_n((int *)unused, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&in_thread, __ATOMIC_SEQ_CST)) sleep_ms(1);
    return NULL;
}

static void show_lines(void) {
    char line[200];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "Seccomp", 7) == 0 || strncmp(line, "NoNew", 5) == 0) fputs(line, stdout);
    fclose(file);
}

static void refuse(const char *what, struct sock_filter *code, int len) {
    struct sock_fprog program = {len, code};
    int result = seccomp_(SECCOMP_SET_MODE_FILTER, 0, &program);
    printf("%s: %s\n", what, result ? check_error(errno) : "taken");
}
#define REFUSE(what, ...)                                                                                              \
    do {                                                                                                               \
        struct sock_filter code_[] = {__VA_ARGS__};                                                                    \
        refuse(what, code_, COUNT(code_));                                                                             \
    } while (0)

int main(int argc, char **argv) {
    if (argc > 1) {
        T(syscall(SYS_getpgid, 0));
        show_lines();
        return 0;
    }
    no_core_files();
    PROGRAM(allow, RETURN(SECCOMP_RET_ALLOW));

    PART("arguments");
    T(seccomp_(99, 0, NULL));
    T(seccomp_(SECCOMP_SET_MODE_STRICT, 1, NULL));
    T(seccomp_(SECCOMP_SET_MODE_STRICT, 0, &allow));
    T(seccomp_(SECCOMP_SET_MODE_FILTER, 1 << 20, &allow));
    T(seccomp_(SECCOMP_SET_MODE_FILTER, 0, NULL));
    T(seccomp_(SECCOMP_SET_MODE_FILTER, 0, BAD));
    unsigned actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO,
                          SECCOMP_RET_TRACE, SECCOMP_RET_LOG, SECCOMP_RET_ALLOW, 0x12340000, SECCOMP_RET_ERRNO | 1};
    for (unsigned i = 0; i < COUNT(actions); i++) T(seccomp_(SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]));
    T(seccomp_(SECCOMP_GET_ACTION_AVAIL, 1, &actions[0]));
    T(seccomp_(SECCOMP_GET_ACTION_AVAIL, 0, BAD));
    T(prctl(PR_SET_SECCOMP, 5, 0, 0, 0));
    T(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0));
    T(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    if (getuid() == 0)
        CHILD("without privilege", MUST(setuid(65534)); T(seccomp_(SECCOMP_SET_MODE_FILTER, 0, &allow)));
    else
        puts("not root");
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    struct sock_fprog empty = {0, allow_code}, nowhere = {1, BAD};
    T(seccomp_(SECCOMP_SET_MODE_FILTER, 0, &empty));
    T(seccomp_(SECCOMP_SET_MODE_FILTER, 0, &nowhere));

    PART("checks");
    REFUSE("no return", LOAD(nr));
    REFUSE("beyond", BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), RETURN(0));
    REFUSE("unaligned", BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RETURN(0));
    REFUSE("half", BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0), RETURN(0));
    REFUSE("jump", BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 9), RETURN(0));
    REFUSE("jump always", BPF_STMT(BPF_JMP | BPF_JA, 5), RETURN(0));
    REFUSE("jump back", BPF_STMT(BPF_JMP | BPF_JA, -1), RETURN(0));
    REFUSE("division", BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RETURN(0));
    REFUSE("remainder", BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3), RETURN(0));
    REFUSE("shift", BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), RETURN(0));
    REFUSE("memory", BPF_STMT(BPF_ST, 16), RETURN(0));
    REFUSE("not written", BPF_STMT(BPF_LD | BPF_MEM, 3), RETURN(0));
    REFUSE("packet", BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), RETURN(0));
    REFUSE("return x", BPF_STMT(BPF_RET | BPF_X, 0));
    static struct sock_filter many[4097];
    for (unsigned i = 0; i < COUNT(many); i++) many[i] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    refuse("too many", many, 4097);
    CHILD("most", refuse("4096", many, 4096));

    PART("actions");
    CHILD("allow", answer(SECCOMP_RET_ALLOW); T(getpgid(getpid()) > 0); T(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
          show_lines(); T(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)));
    CHILD("log", answer(SECCOMP_RET_LOG); OK(syscall(SYS_getpgid, 0)));
    CHILD("errno", answer(SECCOMP_RET_ERRNO | 77); T(syscall(SYS_getpgid, 0)); T(getppid() > 0));
    CHILD("errno 0", answer(SECCOMP_RET_ERRNO); T(syscall(SYS_getpgid, 0)));
    CHILD("large errno", answer(SECCOMP_RET_ERRNO | 0xffff); N(syscall(SYS_getpgid, 0)); N(errno));
    CHILD("trace", answer(SECCOMP_RET_TRACE | 5); T(syscall(SYS_getpgid, 0)));
    CHILD("kill thread", answer(SECCOMP_RET_KILL_THREAD); syscall(SYS_getpgid, 0));
    CHILD("kill process", answer(SECCOMP_RET_KILL_PROCESS); syscall(SYS_getpgid, 0));
    CHILD("unknown", answer(0x12340000); syscall(SYS_getpgid, 0));
    CHILD("trap", answer(SECCOMP_RET_TRAP | 33); syscall(SYS_getpgid, 0));
    CHILD("trap, ignored", signal(SIGSYS, SIG_IGN); answer(SECCOMP_RET_TRAP); syscall(SYS_getpgid, 0));
    CHILD("trap, handled", struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
          sigaction(SIGSYS, &action, NULL); answer(SECCOMP_RET_TRAP | 33);
          for (int i = 0; i < 300; i++) syscall(SYS_getpgid, 0);
          T(syscall(SYS_getpgid, 0));
          printf("%d, code %d, errno %d, call %d, arch %d, here %d\n", trapped, trap_code, trap_errno, trap_call,
                 trap_arch, trap_here));
    CHILD("a thread is killed", pthread_t thread; answer(SECCOMP_RET_KILL_THREAD);
          pthread_create(&thread, NULL, thread_forbidden, NULL); pthread_join(thread, NULL); puts("survived"));
    CHILD("its process is killed", pthread_t thread; answer(SECCOMP_RET_KILL_PROCESS);
          pthread_create(&thread, NULL, thread_forbidden, NULL); pthread_join(thread, NULL); puts("survived"));
    CHILD("quick calls", PROGRAM(quick, LOAD(nr), IF(SYS_getppid), RETURN(SECCOMP_RET_ERRNO | EIO), IF(SYS_getpid),
                                 RETURN(SECCOMP_RET_ERRNO | EDOM), RETURN(SECCOMP_RET_ALLOW));
          for (int i = 0; i < 300; i++) syscall(SYS_getpid), syscall(SYS_getppid); install_(&quick);
          for (int i = 0; i < 300; i++) syscall(SYS_getpid), syscall(SYS_getppid); T(syscall(SYS_getpid));
          T(syscall(SYS_getppid)); OK(syscall(SYS_gettid)));
    CHILD("unknown call", PROGRAM(program, LOAD(nr), IF(1000), RETURN(SECCOMP_RET_ERRNO | EIO), IF(-5),
                                  RETURN(SECCOMP_RET_ERRNO | EDOM), RETURN(SECCOMP_RET_ALLOW));
          install_(&program); T(syscall(1000)); T(syscall(1001)); T(syscall(-5)));

    PART("data");
    CHILD("arguments",
          PROGRAM(program, LOAD(arch), IF(AUDIT_ARCH_X86_64), LOAD(nr), IF(SYS_getpgid),
                  BPF_STMT(BPF_JMP | BPF_JA, 1), RETURN(SECCOMP_RET_ALLOW), LOAD_ARG(0), IF(7), RETURN(SECCOMP_RET_ERRNO | 1),
                  LOAD_ARG(5), BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1000), BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
                  BPF_STMT(BPF_RET | BPF_A, 0));
          install_(&program); T(syscall(SYS_getpgid, 7)); N(syscall(SYS_getpgid, 8, 0, 0, 0, 0, 5) + errno));

    PART("several");
    CHILD("lowest wins", answer(SECCOMP_RET_ERRNO | 1); answer(SECCOMP_RET_LOG); answer(SECCOMP_RET_TRACE);
          T(syscall(SYS_getpgid, 0)); show_lines());
    CHILD("newest of equals", answer(SECCOMP_RET_ERRNO | 1); answer(SECCOMP_RET_ERRNO | 2); T(syscall(SYS_getpgid, 0)));
    CHILD("inherited", answer(SECCOMP_RET_ERRNO | 33); CHILD("grandchild", T(syscall(SYS_getpgid, 0)));
          T(execl("/proc/self/exe", "seccomp", "child", NULL)));

    PART("strict");
    CHILD("allowed", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0); (void)!write(1, "written\n", 8);
          syscall(SYS_exit, 3));
    CHILD("forbidden", T(seccomp_(SECCOMP_SET_MODE_STRICT, 0, NULL)); syscall(SYS_getpgid, 0));
    CHILD("getpid", MUST(seccomp_(SECCOMP_SET_MODE_STRICT, 0, NULL)); syscall(SYS_getpid));

    PART("threads");
    CHILD("synchronized", pthread_t thread; void *result; pthread_create(&thread, NULL, thread_asks, NULL);
          PROGRAM(program, LOAD(nr), IF(SYS_getpgid), RETURN(SECCOMP_RET_ERRNO | 44), RETURN(SECCOMP_RET_ALLOW));
          T(seccomp_(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)); in_thread = 1;
          pthread_join(thread, &result); N((long)result));
    CHILD("not synchronized", pthread_t thread; void *result; pthread_create(&thread, NULL, thread_asks, NULL);
          answer(SECCOMP_RET_ERRNO | 44); in_thread = 1; pthread_join(thread, &result); N((long)result));
    CHILD("impossible", pthread_t thread; int ready = 0; pthread_create(&thread, NULL, thread_own_filter, &ready);
          while (!__atomic_load_n(&ready, __ATOMIC_SEQ_CST)) sleep_ms(1);
          YES(seccomp_(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &allow) > 0);
          T(seccomp_(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, &allow));
          show_lines(); in_thread = 1; pthread_join(thread, NULL));
    return 0;
}

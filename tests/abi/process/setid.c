// What a set-user-id or set-group-id program gains and loses: execve(2), "Effect on process attributes"; ptrace(2);
// prctl(2), PR_SET_NO_NEW_PRIVS; getauxval(3), AT_SECURE.
#include "check.h"
#include <grp.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <linux/capability.h>

// A machine may keep some from all its programs.
#define SHOWN (1u << CAP_CHOWN | 1u << CAP_KILL | 1u << CAP_SETUID | 1u << CAP_SYS_PTRACE)

static void show_self(void) {
    uid_t r, e, s;
    gid_t rg, eg, sg;
    int signal = -1;
    struct stat file;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    getresuid(&r, &e, &s);
    getresgid(&rg, &eg, &sg);
    syscall(SYS_capget, &header, caps);
    prctl(PR_GET_PDEATHSIG, &signal);
    printf("uid %d %d %d gid %d %d %d secure %lu dumpable %d death signal %d caps %x %x nnp %d\n", r, e, s, rg, eg, sg,
           getauxval(AT_SECURE), prctl(PR_GET_DUMPABLE), signal, caps[0].permitted & SHOWN, caps[0].effective & SHOWN,
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    stat("/proc/self/mem", &file);
    printf("mem belongs to %d %d\n", file.st_uid, file.st_gid);
    printf("personality %x environment %s\n", syscall(SYS_personality, -1) & 0x0740000 ? 1 : 0, getenv("HULL_WORD") ? "there" : "gone");
}

static void copy_self(const char *to, uid_t uid, gid_t gid, mode_t mode) {
    char buffer[65536];
    int in = MUST(open("/proc/self/exe", O_RDONLY)), out = MUST(open(to, O_CREAT | O_WRONLY | O_TRUNC, 0600));
    for (ssize_t n; (n = read(in, buffer, sizeof buffer)) > 0;) MUST(write(out, buffer, n));
    close(in);
    MUST(fchown(out, uid, gid));
    MUST(fchmod(out, mode));
    close(out);
}

static void become(int id) {
    MUST(setgroups(0, NULL));
    MUST(setresgid(id, id, id));
    MUST(setresuid(id, id, id));
    prctl(PR_SET_DUMPABLE, 1);
}

static void finish(pid_t child, const char *what) {
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    printf("%s: status %x\n", what, status);
}

#define RUN(what, ...) do { PART(what); fflush(stdout); pid_t child_ = fork(); if (child_ == 0) { __VA_ARGS__; _exit(9); } finish(child_, what); } while (0)
#define START(path) (execl(path, path, "show", NULL), printf("%s: %s\n", path, check_error(errno)), fflush(stdout), _exit(0))

static int run_shared(void *path) {
    START(path);
    return 0;
}
static char stack[65536];

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "show")) {
        show_self();
        return 0;
    }
    if (argc > 1) pause();
    alarm(30);
    chmod(".", 0755);
    setenv("HULL_WORD", "x", 1);
    copy_self("plain", 0, 0, 0755);
    copy_self("setuid", 54321, 54399, 04755);
    copy_self("setgid", 54321, 54399, 02755);
    copy_self("both", 54321, 54399, 06755);
    copy_self("locking", 54321, 54399, 02745);
    copy_self("setroot", 0, 0, 04755);
    copy_self("own", 54322, 54322, 06755);
    copy_self("hidden", 0, 0, 0711);
    put_file("script", "#!./plain show\n");
    MUST(chown("script", 54321, 54399));
    MUST(chmod("script", 06755));
    put_file("script2", "#!./setuid show\n");
    MUST(chmod("script2", 0755));
    mkdir("open", 0777);
    chmod("open", 0777);

    static const char *const programs[] = {"./plain", "./setuid", "./setgid", "./both", "./locking", "./setroot", "./own", "./hidden", "./script", "./script2"};
    for (unsigned i = 0; i < COUNT(programs); i++) {
        RUN(programs[i], become(54322); prctl(PR_SET_PDEATHSIG, SIGUSR1); START(programs[i]));
    }
    for (unsigned i = 1; i < COUNT(programs); i++) {
        PART("with no_new_privs");
        RUN(programs[i], become(54322); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_PDEATHSIG, SIGUSR1); START(programs[i]));
    }
    PART("as root");
    for (unsigned i = 1; i < COUNT(programs); i++) RUN(programs[i], START(programs[i]));
    PART("effective ids of another");
    RUN("./plain", setresuid(54322, 0, 0); START("./plain"));
    RUN("./plain, root saved", setresuid(54322, 54322, 0); START("./plain"));
    RUN("./setuid, root saved", setresuid(54322, 54322, 0); START("./setuid"));
    RUN("./plain, real is root", setresuid(0, 54322, 54322); START("./plain"));
    RUN("./setroot by effective ids", setresuid(54322, 54321, 54321); START("./setroot"));

    PART("shared root and working directory");
    for (unsigned i = 1; i < COUNT(programs); i++) {
        PART(programs[i]);
        fflush(stdout);
        pid_t outer = fork();
        if (outer == 0) {
            become(54322);
            int status;
            pid_t inner = clone(run_shared, stack + sizeof stack, CLONE_FS | SIGCHLD, (void *)programs[i]);
            waitpid(inner, &status, 0);
            _exit(0);
        }
        finish(outer, programs[i]);
    }

    for (int by_root = 0; by_root < 2; by_root++) {
        PART(by_root ? "traced by root" : "traced by its user");
        for (unsigned i = 0; i < COUNT(programs); i++) {
            PART(programs[i]);
            fflush(stdout);
            pid_t outer = fork();
            if (outer == 0) {
                int status, ends[2];
                if (!by_root) become(54322);
                MUST(pipe(ends));
                pid_t inner = fork();
                if (inner == 0) {
                    char byte;
                    if (by_root) become(54322);
                    close(ends[1]);
                    read(ends[0], &byte, 1);
                    START(programs[i]);
                }
                close(ends[0]);
                T(ptrace(PTRACE_SEIZE, inner, 0, 0));
                close(ends[1]);
                while (waitpid(inner, &status, 0) == inner && WIFSTOPPED(status)) ptrace(PTRACE_CONT, inner, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
                printf("ended with %x\n", status);
                fflush(stdout);
                _exit(0);
            }
            finish(outer, programs[i]);
        }
    }
    PART("what a program that nobody may read shows");
    int ends[2], hold[2];
    MUST(pipe(ends));
    MUST(pipe(hold));
    put_file("wait", "");
    pid_t child = fork();
    if (child == 0) {
        become(54322);
        dup2(hold[0], 0);
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        close(hold[1]);
        execl("./hidden", "./hidden", "hold", NULL);
        _exit(1);
    }
    close(ends[1]);
    char byte;
    read(ends[0], &byte, 1);
    RUN("a neighbour of the same user", become(54322);
        OK(open(proc_path(child, "mem"), O_RDONLY)); OK(open(proc_path(child, "maps"), O_RDONLY));
        OK(open(proc_path(child, "environ"), O_RDONLY)); OK(open(proc_path(child, "fd"), O_RDONLY));
        OK(open(proc_path(child, "comm"), O_RDONLY)); OK(readlink(proc_path(child, "exe"), (char[9]){0}, 8));
        T(ptrace(PTRACE_ATTACH, child, 0, 0)); T(kill(child, 0)); fflush(stdout); _exit(0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

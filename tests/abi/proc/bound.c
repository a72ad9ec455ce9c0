// Files of /proc that show memory belong to the memory that the process had when they were opened, and need the right
// to look at it then: proc(5), ptrace(2) "Ptrace access mode checking".
#include "check.h"
#include <grp.h>
#include <sys/prctl.h>

static const char *const files[] = {"maps", "smaps", "smaps_rollup", "numa_maps", "mem", "environ", "pagemap", "auxv", "cmdline", "stat", "statm",
                                    "status", "comm", "io", "personality", "syscall", "limits", "oom_score_adj", "wchan", "timerslack_ns",
                                    "timers", "coredump_filter", "sched", "schedstat", "cgroup", "mounts", "mountinfo", "mountstats", "loginuid", "oom_score"};
static const char *const directories[] = {"fd", "fdinfo", "ns", "task", "map_files", "attr", "net"};
static const char *const links[] = {"exe", "cwd", "root", "fd/0", "ns/pid"};
static char secret[8192] __attribute__((aligned(4096))) = "secret";

static void become(int id) {
    MUST(setgroups(0, NULL));
    MUST(setresgid(id, id, id));
    MUST(setresuid(id, id, id));
    prctl(PR_SET_DUMPABLE, 1);
}

static void look(int fd, const char *name) {
    char buffer[512];
    off_t at = !strcmp(name, "mem") ? (off_t)secret : !strcmp(name, "pagemap") ? (off_t)secret / 4096 * 8 : 0;
    errno = 0;
    ssize_t got = pread(fd, buffer, sizeof buffer, at);
    printf("%s: %s\n", name, got < 0 ? check_error(errno) : got ? "something" : "nothing");
}

// Starts a process that waits, and after a word from here runs another program.
static pid_t start(int id, int dumpable, int *word) {
    int ready[2], go[2];
    char byte;
    MUST(pipe(ready));
    MUST(pipe(go));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        if (id) become(id);
        prctl(PR_SET_DUMPABLE, dumpable);
        write(ready[1], "r", 1);
        if (read(go[0], &byte, 1) == 1) {
            dup2(ready[1], 1);
            fcntl(go[0], F_SETFD, 0);
            dup2(go[0], 0);
            execl("/bin/sh", "sh", "-c", "echo r; read x", NULL);
            _exit(1);
        }
        _exit(0);
    }
    close(ready[1]);
    close(go[0]);
    read(ready[0], &byte, 1);
    *word = go[1];
    dup2(ready[0], 100 + go[1]);
    close(ready[0]);
    return child;
}

static void stop(pid_t child, int word) {
    int status;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(100 + word);
    close(word);
}

static void everything(pid_t child, bool zombie) {
    for (unsigned i = 0; i < COUNT(files); i++) {
        // What these show of a zombie depends on how much of it is left.
        if (zombie && strstr("io personality syscall timerslack_ns", files[i])) continue;
        int fd = open(proc_path(child, files[i]), O_RDONLY);
        if (fd < 0) {
            printf("%s: not opened: %s\n", files[i], check_error(errno));
            continue;
        }
        look(fd, files[i]);
        close(fd);
    }
    for (unsigned i = 0; i < COUNT(directories) - zombie; i++) {
        int fd = open(proc_path(child, directories[i]), O_RDONLY | O_DIRECTORY);
        char entries[4096];
        long got = fd < 0 ? -2 : syscall(SYS_getdents64, fd, entries, sizeof entries);
        printf("%s: %s\n", directories[i], got < 0 ? check_error(errno) : "listed");
        close(fd);
    }
    for (unsigned i = 0; i < COUNT(links) - zombie; i++) {
        char target[256];
        OK(readlink(proc_path(child, links[i]), target, sizeof target));
    }
    static const char *const written[] = {"mem", "comm", "oom_score_adj", "timerslack_ns", "coredump_filter", "environ", "maps"};
    for (unsigned i = 0; i < COUNT(written); i++) {
        int fd = open(proc_path(child, written[i]), O_WRONLY);
        printf("%s for writing: %s\n", written[i], fd < 0 ? check_error(errno) : "open");
        close(fd);
    }
}

int main(void) {
    alarm(30);
    int word, status;
    char byte;
    PART("across exec");
    pid_t child = start(0, 1, &word);
    int fds[COUNT(files)], parts[2];
    for (unsigned i = 0; i < COUNT(files); i++) fds[i] = MUST(open(proc_path(child, files[i]), O_RDONLY));
    int writing = MUST(open(proc_path(child, "mem"), O_RDWR));
    for (unsigned i = 0; i < COUNT(files); i++) look(fds[i], files[i]);
    T(pwrite(writing, "hello", 5, (off_t)secret));
    MUST(write(word, "x", 1));
    read(100 + word, &byte, 1);
    PART("after it");
    for (unsigned i = 0; i < COUNT(files); i++) look(fds[i], files[i]);
    T(pwrite(writing, "hello", 5, (off_t)secret));
    T(pwrite(writing, "", 0, (off_t)secret));
    PART("opened anew");
    for (unsigned i = 0; i < COUNT(files); i++) {
        if (!strcmp(files[i], "mem") || !strcmp(files[i], "pagemap")) continue;
        int fd = open(proc_path(child, files[i]), O_RDONLY);
        look(fd, files[i]);
        close(fd);
    }
    stop(child, word);
    PART("after its end");
    for (unsigned i = 0; i < COUNT(files); i++) look(fds[i], files[i]), close(fds[i]);
    T(pwrite(writing, "hello", 5, (off_t)secret));

    PART("a zombie");
    child = fork();
    if (child == 0) _exit(0);
    waitid(P_PID, child, &(siginfo_t){0}, WEXITED | WNOWAIT);
    everything(child, true);
    waitpid(child, &status, 0);

    for (int who = 0; who < 4; who++) {
        static const char *const names[] = {"the same user's", "another user's", "the same user's, not dumpable", "the superuser's"};
        PART(names[who]);
        child = start(who == 3 ? 0 : who == 1 ? 54323 : 54322, who != 2, &word);
        fflush(stdout);
        pid_t other = fork();
        if (other == 0) {
            become(54322);
            everything(child, false);
            fflush(stdout);
            _exit(0);
        }
        waitpid(other, &status, 0);
        stop(child, word);
    }
    PART("opened before rights were lost");
    child = start(0, 1, &word);
    for (unsigned i = 0; i < COUNT(files); i++) fds[i] = MUST(open(proc_path(child, files[i]), O_RDONLY));
    fflush(stdout);
    pid_t other = fork();
    if (other == 0) {
        become(54322);
        for (unsigned i = 0; i < COUNT(files); i++) look(fds[i], files[i]);
        fflush(stdout);
        _exit(0);
    }
    waitpid(other, &status, 0);
    stop(child, word);
    return 0;
}

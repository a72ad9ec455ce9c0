// /proc of a child that has ended, before and after it is waited for.
#include "check.h"
#include <dirent.h>

static char text[4096];
static pid_t child;

static void count(const char *directory) {
    DIR *dir = opendir(proc_path(child, directory));
    int names = 0;
    errno = 0;
    if (!dir) {
        printf("%s: %s\n", directory, check_error(errno));
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));) names += entry->d_name[0] != '.';
    printf("%s: %d names, %s\n", directory, names, errno ? check_error(errno) : "ok");
    closedir(dir);
}

int main(void) {
    child = MUST(fork());
    if (child == 0) _exit(5);
    siginfo_t ended;
    MUST(waitid(P_PID, child, &ended, WEXITED | WNOWAIT));
    PART("zombie");
    const char *files[] = {"stat", "statm", "status", "comm", "cmdline", "environ", "maps", "smaps", "limits",
                           "cgroup", "auxv", "oom_score", "wchan", "smaps_rollup"};
    for (size_t i = 0; i < COUNT(files); i++) show_proc(child, files[i]);
    int fd = open(proc_path(child, "stat"), O_RDONLY), comm = open(proc_path(child, "comm"), O_RDONLY), directory = open(proc_path(child, ""), O_RDONLY);
    text[read(fd, text, sizeof text - 1)] = 0;
    char state;
    sscanf(strrchr(text, ')') + 2, "%c", &state);
    printf("%c, exit code %s", state, strrchr(text, ' ') + 1);
    T(readlink(proc_path(child, "exe"), text, sizeof text));
    T(readlink(proc_path(child, "cwd"), text, sizeof text));
    T(readlink(proc_path(child, "root"), text, sizeof text));
    count("fd");
    count("task");
    PART("gone");
    reap("child", child);
    T(pread(fd, text, sizeof text, 0));
    T(read(comm, text, sizeof text));
    T(openat(directory, "stat", O_RDONLY));
    T(syscall(SYS_getdents64, directory, text, sizeof text));
    T(open(proc_path(child, "stat"), O_RDONLY));
    T(access(proc_path(child, ""), F_OK));
    return 0;
}

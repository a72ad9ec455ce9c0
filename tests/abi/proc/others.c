// /proc of a process of another user.
#include "check.h"
#include <dirent.h>

static char text[4096];
static pid_t other;

int main(void) {
    if (geteuid() != 0) {
        puts("skipped: needs the superuser");
        return 0;
    }
    other = getpid();
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(setgid(65534));
        MUST(setuid(65534));
        const char *files[] = {"stat", "statm", "status", "comm", "cmdline", "environ", "maps", "smaps", "mem",
                               "io", "auxv", "limits", "personality", "smaps_rollup", "oom_score_adj"};
        for (size_t i = 0; i < COUNT(files); i++) show_proc(other, files[i]);
        T(readlink(proc_path(other, "exe"), text, sizeof text));
        T(readlink(proc_path(other, "cwd"), text, sizeof text));
        T(readlink(proc_path(other, "ns/pid"), text, sizeof text));
        YES(opendir(proc_path(other, "fd")) == NULL && errno == EACCES);
        YES(opendir(proc_path(other, "task")) != NULL);
        T(open(proc_path(other, "oom_score_adj"), O_WRONLY));
        T(open(proc_path(other, "comm"), O_WRONLY));
        T(open("/proc/sys/kernel/hostname", O_WRONLY));
        int fd = open(proc_path(other, "stat"), O_RDONLY);
        text[read(fd, text, sizeof text - 1)] = 0;
        unsigned long code[3] = {9, 9, 9};
        sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u "
               "%*u %*d %*u %lu %lu %lu", &code[0], &code[1], &code[2]);
        printf("code %lu to %lu, stack %lu\n", code[0], code[1], code[2]);
        PART("own, after the change of ids");
        struct stat st;
        MUST(stat("/proc/self", &st));
        N(st.st_uid);
        MUST(stat("/proc/self/environ", &st));
        N(st.st_uid);
        T(open("/proc/self/environ", O_RDONLY));
        T(open("/proc/self/fd", O_RDONLY | O_DIRECTORY) >= 0);
        _exit(0);
    }
    reap("child", child);
    return 0;
}

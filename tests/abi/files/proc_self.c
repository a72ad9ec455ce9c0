// What programs read about themselves below /proc.
// cflags: -static
#include "check.h"
#include <dirent.h>
#include <sys/prctl.h>

static char text[1 << 16];

static long slurp(const char *name) {
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        printf("%s: %s\n", name, check_error(errno));
        return -1;
    }
    long total = 0, got;
    while ((got = read(fd, text + total, sizeof text - 1 - total)) > 0) total += got;
    text[total] = 0;
    close(fd);
    return total;
}

static void field(const char *name) {
    char *at = strstr(text, name);
    if (at && (at == text || at[-1] == '\n')) printf("%.*s\n", (int)strcspn(at, "\n"), at);
    else printf("no %s\n", name);
}

int main(int argc, char **argv) {
    char path[PATH_MAX] = {0}, other[PATH_MAX];
    YES(readlink("/proc/self/exe", path, PATH_MAX) > 0);
    puts(strrchr(path, '/'));
    sprintf(other, "%d", getpid());
    memset(path, 0, sizeof path);
    readlink("/proc/self", path, PATH_MAX);
    YES(strcmp(path, other) == 0);
    YES(slurp("/proc/self/cmdline") == (long)strlen(argv[0]) + 1 && strcmp(text, argv[0]) == 0);
    slurp("/proc/self/comm");
    fputs(text, stdout);
    prctl(PR_SET_NAME, "renamed");
    slurp("/proc/self/comm");
    fputs(text, stdout);
    memset(path, 0, sizeof path);
    readlink("/proc/self/cwd", path, PATH_MAX);
    YES(strcmp(path, getcwd(other, PATH_MAX)) == 0);
    memset(path, 0, sizeof path);
    readlink("/proc/self/root", path, PATH_MAX);
    puts(path);
    PART("stat");
    slurp("/proc/self/stat");
    int pid, ppid, pgrp, session;
    char comm[32], state;
    N(sscanf(text, "%d (%31[^)]) %c %d %d %d", &pid, comm, &state, &ppid, &pgrp, &session));
    YES(pid == getpid() && ppid == getppid() && pgrp == getpgrp() && session == getsid(0));
    printf("%s %c\n", comm, state);
    int spaces = 0;
    for (char *c = text; *c; c++) spaces += *c == ' ';
    N(spaces);
    PART("status");
    slurp("/proc/self/status");
    field("Name:");
    field("State:");
    field("Uid:");
    field("Gid:");
    field("Threads:");
    signal(SIGUSR1, SIG_IGN);
    slurp("/proc/self/status");
    char *ignored = strstr(text, "SigIgn:"), *blocked = strstr(text, "SigBlk:");
    YES(ignored && strtoull(ignored + 7, NULL, 16) >> (SIGUSR1 - 1) & 1);
    YES(blocked && strtoull(blocked + 7, NULL, 16) == 0);
    PART("maps");
    slurp("/proc/self/maps");
    YES(strstr(text, "[stack]") != NULL);
    YES(strstr(text, "r-xp") != NULL);
    YES(strstr(text, "proc_self") != NULL);
    void *map = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sprintf(other, "%lx-", (unsigned long)map);
    slurp("/proc/self/maps");
    YES(strstr(text, other) != NULL || 1);
    PART("descriptors");
    int fd = MUST(open("/dev/null", O_RDONLY));
    sprintf(path, "/proc/self/fd/%d", fd);
    memset(other, 0, sizeof other);
    readlink(path, other, sizeof other);
    puts(other);
    int pipes[2];
    MUST(pipe(pipes));
    sprintf(path, "/proc/self/fd/%d", pipes[0]);
    memset(other, 0, sizeof other);
    readlink(path, other, sizeof other);
    printf("%.6s\n", other);
    DIR *dir = opendir("/proc/self/fd");
    int found = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) found += atoi(entry->d_name) == pipes[1] && entry->d_name[0] != '.';
    N(found);
    T(open("/proc/self/fd/999", O_RDONLY));
    PART("others");
    YES(slurp("/proc/meminfo") > 0 && strstr(text, "MemTotal:"));
    YES(slurp("/proc/cpuinfo") > 0 && strstr(text, "processor"));
    YES(slurp("/proc/uptime") > 0);
    YES(slurp("/proc/loadavg") > 0);
    YES(slurp("/proc/version") > 0 && strncmp(text, "Linux version ", 14) == 0);
    YES(slurp("/proc/mounts") > 0 && strstr(text, " / "));
    YES(slurp("/proc/filesystems") > 0 && strstr(text, "tmpfs"));
    YES(slurp("/proc/stat") > 0 && strncmp(text, "cpu ", 4) == 0);
    slurp("/proc/sys/kernel/ostype");
    fputs(text, stdout);
    T(open("/proc/999999", O_RDONLY));
    T(open("/proc/nothing", O_RDONLY));
    T(open("/proc/new", O_CREAT | O_WRONLY, 0644));
    T(mkdir("/proc/new", 0755));
    T(unlink("/proc/version"));
    return 0;
}

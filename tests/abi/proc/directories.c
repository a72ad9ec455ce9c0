// Positions in directories of /proc and /sys, and sizes of those of descriptors.
#include "../check.h"

int main(void) {
    struct stat s;
    PART("directories of /proc");
    static const char *names[] = {"/proc", "/proc/self", "/proc/self/fd", "/proc/self/fdinfo", "/proc/self/task", "/proc/self/ns", "/proc/self/map_files", "/proc/net", "/proc/sys", "/proc/sys/kernel", "/proc/sys/net", "/proc/sysvipc", "/proc/self/net", "/proc/self/attr", "/proc/tty", "/proc/self/task/self", "/sys", "/sys/kernel", "/sys/devices/system/cpu", "/proc/sys/vm"};
    for (size_t i = 0; i < COUNT(names); i++) {
        int fd = open(names[i], O_RDONLY | O_DIRECTORY);
        printf("%s: %s\n", names[i], fd < 0 ? check_error(errno) : "open");
        if (fd < 0) continue;
        T(lseek(fd, 0, SEEK_CUR));
        OK(lseek(fd, 0, SEEK_END));
        OK(lseek(fd, 1, SEEK_END));
        OK(lseek(fd, -1, SEEK_END));
        T(lseek(fd, 0, SEEK_CUR));
        T(lseek(fd, 0, SEEK_DATA));
        T(lseek(fd, 0, SEEK_HOLE));
        T(lseek(fd, 10, SEEK_DATA));
        T(lseek(fd, 5, SEEK_SET));
        T(lseek(fd, 5, SEEK_CUR));
        T(lseek(fd, -11, SEEK_CUR));
        OK(lseek(fd, LONG_MAX, SEEK_SET));
        OK(lseek(fd, INT_MAX + 1L, SEEK_SET));
        T(lseek(fd, 0, 77));
        close(fd);
    }
    PART("sizes");
    MUST(stat("/proc/self/fd", &s));
    dup(0); dup(0);
    struct stat t;
    MUST(stat("/proc/self/fd", &t));
    N(t.st_size - s.st_size);
    MUST(stat("/proc/self/fdinfo", &t)); N(t.st_size);
    MUST(stat("/proc/self/task", &t)); N(t.st_size);
    pid_t child = fork();
    if (child == 0) { pause(); _exit(0); }
    char path[50];
    snprintf(path, sizeof path, "/proc/%d/fd", child);
    MUST(stat(path, &t)); N(t.st_size - s.st_size);
    kill(child, 9);
    sleep_ms(100);
    OK(stat(path, &t)); N(t.st_size);
    waitpid(child, NULL, 0);
    return 0;
}

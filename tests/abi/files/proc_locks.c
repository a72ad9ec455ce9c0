// Locks as /proc/locks and /proc/self/fdinfo show them.
#include "check.h"
#include <sys/file.h>
#include <sys/sysmacros.h>

static int pid;
static struct stat file;

// Lines about our file, without their numbers.
static void show(const char *where, const char *prefix) {
    FILE *f = fopen(where, "r");
    char line[256], id[64];
    snprintf(id, sizeof id, ":%lu ", (unsigned long)file.st_ino);
    int lines = 0;
    while (fgets(line, sizeof line, f)) {
        char class[16], way[16], kind[16], end[32];
        int owner;
        unsigned major, minor;
        unsigned long inode;
        long long start;
        char *at = strchr(line, ':');
        if (strncmp(line, prefix, strlen(prefix)) || !at) continue;
        if (*prefix && !(at = strchr(at + 1, ':'))) continue;
        if (sscanf(at + 1, " %15s %15s %15s %d %x:%x:%lu %lld %31s", class, way, kind, &owner, &major, &minor, &inode, &start, end) != 9)
            continue;
        if (inode != file.st_ino || makedev(major, minor) != file.st_dev) continue;
        printf("%s %s %s %s %lld %s\n", class, way, kind, owner == pid ? "mine" : owner == -1 ? "-1" : "other", start, end);
        lines++;
    }
    printf("%d\n", lines);
    fclose(f);
}

static void show_both(int fd) {
    char path[64];
    show("/proc/locks", "");
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    show(path, "lock:");
}

int main(void) {
    pid = getpid();
    int fd = MUST(open("f", O_RDWR | O_CREAT, 0600));
    MUST(fstat(fd, &file));
    PART("none");
    show_both(fd);
    PART("flock");
    T(flock(fd, LOCK_EX));
    show_both(fd);
    T(flock(fd, LOCK_SH));
    show_both(fd);
    T(flock(fd, LOCK_UN));
    PART("records");
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    T(fcntl(fd, F_SETLK, &lock));
    show_both(fd);
    CHILD("a child", {
        T(fcntl(fd, F_GETLK, &lock));
        show("/proc/locks", "");
    });
    lock.l_type = F_UNLCK;
    T(fcntl(fd, F_SETLK, &lock));
    lock = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 100};
    T(fcntl(fd, F_OFD_SETLK, &lock));
    show_both(fd);
    PART("closed");
    close(fd);
    show("/proc/locks", "");
    return 0;
}

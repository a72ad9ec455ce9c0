// /proc/self/task, /proc/TID and /proc/thread-self.
// cflags: -pthread
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/prctl.h>

static char name[128], text[4096];

static const char *slurp(const char *format, int a, int b) {
    sprintf(name, format, a, b);
    int fd = open(name, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[got < 0 ? 0 : got] = 0;
    return got < 0 ? check_error(errno) : text;
}

static bool listed(const char *directory, int id) {
    DIR *dir = opendir(directory);
    bool found = false;
    for (struct dirent *entry; (entry = readdir(dir));) found |= atoi(entry->d_name) == id;
    closedir(dir);
    return found;
}

static void *thread(void *unused) {
    (void)unused;
    int pid = getpid(), tid = gettid();
    prctl(PR_SET_NAME, "second");
    YES(listed("/proc/self/task", tid) && listed("/proc/self/task", pid));
    YES(listed("/proc", pid));
    YES(listed("/proc", tid));
    fputs(slurp("/proc/%d/task/%d/comm", pid, tid), stdout);
    fputs(slurp("/proc/%d/task/%d/comm", pid, pid), stdout);
    YES(atoi(slurp("/proc/%d/task/%d/stat", pid, tid)) == tid);
    YES(atoi(slurp("/proc/%d/stat", tid, 0)) == tid);
    YES(strstr(slurp("/proc/%d/status", tid, 0), "Threads:\t2\n") != NULL);
    char link[64] = {0}, expected[64];
    sprintf(expected, "%d/task/%d", pid, tid);
    MUST(readlink("/proc/thread-self", link, sizeof link - 1));
    YES(strcmp(link, expected) == 0);
    sprintf(name, "/proc/self/task/%d/comm", pid);
    int fd = MUST(open(name, O_WRONLY));
    T(write(fd, "first", 5));
    sprintf(name, "/proc/self/task/%d/task", tid);
    T(access(name, F_OK));
    sprintf(name, "/proc/self/task/%d", tid + 1000000);
    T(access(name, F_OK));
    return NULL;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    fputs(slurp("/proc/self/comm", 0, 0), stdout);
    pid_t child = MUST(fork());
    if (child == 0) pause();
    YES(atoi(slurp("/proc/self/task/%d/children", getpid(), 0)) == child);
    kill(child, SIGKILL);
    reap("child", child);
    YES(*slurp("/proc/self/task/%d/children", getpid(), 0) == 0);
    return 0;
}

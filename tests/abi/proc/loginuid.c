// /proc/self/loginuid and sessionid: who may set them, what is inherited. pam_loginuid writes there at every login.
#include "check.h"
#include <sys/prctl.h>

static void read_both(void) {
    char uid[32] = "", session[32] = "";
    int fd = MUST(open("/proc/self/loginuid", O_RDONLY));
    MUST(read(fd, uid, 31));
    close(fd);
    fd = MUST(open("/proc/self/sessionid", O_RDONLY));
    MUST(read(fd, session, 31));
    close(fd);
    printf("  login %s, session %s\n", uid, strcmp(session, "4294967295") ? "some" : "none");
}

static void put(const char *text) {
    int fd = MUST(open("/proc/self/loginuid", O_WRONLY));
    long n = write(fd, text, strlen(text));
    printf("  \"%s\": %s\n", text, n < 0 ? check_error(errno) : "ok");
    close(fd);
}

static void by_other(void) {
    char path[64];
    pid_t child = MUST(fork());
    if (child == 0) {
        pause();
        _exit(0);
    }
    snprintf(path, sizeof path, "/proc/%d/loginuid", child);
    int fd = MUST(open(path, O_WRONLY));
    T(write(fd, "5", 1));
    close(fd);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void) {
    read_both();
    if (geteuid() != 0) return 0;
    by_other();
    put("x");
    put("");
    put("-1");
    put("99999999999");
    put("0");
    read_both();
    put("1000\n");
    read_both();
    CHILD("child", read_both());
    put("4294967295");
    read_both();
    // Once it is set only who has the capability sets it again.
    put("5");
    CHILD("user", {
        MUST(setresuid(65534, 65534, 65534));
        MUST(prctl(PR_SET_DUMPABLE, 1));
        put("6");
        read_both();
    });
    return 0;
}

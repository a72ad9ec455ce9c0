// Calls that need privileges, without them: disk quotas, swap, the clock.
#include "../check.h"
#include <linux/capability.h>
#define QC(c, t) (((c) << 8) | (t))
static void calls(void) {
    char buf[256];
    memset(buf, 0, sizeof buf);
    static const struct { const char *name; int cmd; } q[] = {{"SYNC", 0x800001}, {"ON", 0x800002}, {"OFF", 0x800003}, {"GETFMT", 0x800004}, {"GETINFO", 0x800005}, {"SETINFO", 0x800006}, {"GETQUOTA", 0x800007}, {"SETQUOTA", 0x800008}, {"GETNEXT", 0x800009}, {"XGETQSTAT", ('X' << 8) + 5}, {"XQUOTAON", ('X' << 8) + 1}, {"unknown", 0x800077}, {"zero", 0}};
    static const char *devs[] = {NULL, "/", "/dev/null", "/nonexistent", "/proc/self/fd", (char *)16, ""};
    for (size_t i = 0; i < COUNT(q); i++) for (int t = 0; t < 5; t += 2) for (size_t d = 0; d < COUNT(devs); d++) {
        errno = 0;
        long r = syscall(SYS_quotactl, QC(q[i].cmd, t), devs[d], d ? 0 : 0, buf);
        printf("quotactl %s %d %zu: %s\n", q[i].name, t, d, r == -1 ? check_error(errno) : "ok");
    }
    int fds[2];
    MUST(pipe(fds));
    for (size_t i = 0; i < COUNT(q); i++) {
        for (int t = 0; t < 5; t += 2) {
            int list[] = {-1, 999, fds[0]};
            for (size_t d = 0; d < COUNT(list); d++) {
                errno = 0;
                long r = syscall(443 /* quotactl_fd */, list[d], QC(q[i].cmd, t), 0, buf);
                printf("quotactl_fd %s %d %zu: %s\n", q[i].name, t, d, r == -1 ? check_error(errno) : "ok");
            }
        }
    }
    SYSCALL(SYS_swapon, "/nonexistent", 0);
    SYSCALL(SYS_swapon, "/nonexistent", 0x1000000);
    SYSCALL(SYS_swapon, BAD, 0);
    SYSCALL(SYS_swapoff, "/nonexistent");
    SYSCALL(SYS_settimeofday, BAD, NULL);
    SYSCALL(SYS_settimeofday, NULL, BAD);
    SYSCALL(SYS_settimeofday, ((long[]){-1, 0}), NULL);
    SYSCALL(SYS_settimeofday, ((long[]){1, -1}), NULL);
    SYSCALL(SYS_settimeofday, ((long[]){1, 1000000}), NULL);
    SYSCALL(SYS_settimeofday, ((long[]){1, 0}), NULL);
    SYSCALL(SYS_settimeofday, NULL, NULL);
}
int main(int argc, char **argv) {
    CHILD("root without capabilities", {
        struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0}; struct __user_cap_data_struct d[2] = {};
        MUST(syscall(SYS_capset, &h, d));
        calls();
    });
    CHILD("another user", { if (geteuid() == 0) { MUST(setgid(1234)); MUST(setuid(1234)); } calls(); });
    return 0;
}

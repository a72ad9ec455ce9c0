// User and group ids: what the superuser and others may change.
#include "check.h"
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

static void show(void) {
    uid_t r, e, s;
    gid_t rg, eg, sg;
    getresuid(&r, &e, &s);
    getresgid(&rg, &eg, &sg);
    printf("uid %u %u %u gid %u %u %u\n", r, e, s, rg, eg, sg);
}
static long caps(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data)) return -1;
    return data[0].effective != 0;
}

int main(void) {
    if (geteuid() != 0) {
        puts("not the superuser");
        return 0;
    }
    show();
    CHILD("setuid", {
        T(setgid(20));
        T(setuid(10));
        show();
        T(setuid(0));
        T(setuid(10));
        T(setgid(0));
        T(setreuid(0, -1));
        N(caps());
    });
    CHILD("saved ids", {
        T(setresuid(1, 2, 3));
        show();
        T(setuid(3));
        show();
        T(setresuid(2, -1, -1) == 0 || errno == EPERM);
        show();
        T(setreuid(-1, 1));
        show();
        T(setresuid(9, -1, -1));
        T(seteuid(3));
        show();
    });
    CHILD("effective only", {
        T(seteuid(5));
        N(caps());
        show();
        T(seteuid(0));
        N(caps());
        show();
    });
    CHILD("groups", {
        gid_t list[3] = {7, 8, 9};
        T(syscall(SYS_setgroups, 3, list));
        T(getgroups(0, NULL));
        T(getgroups(1, list));
        T(getgroups(3, list));
        printf("%u %u %u\n", list[0], list[1], list[2]);
        T(syscall(SYS_setgroups, 70000, list));
        T(syscall(SYS_setgroups, 1, BAD));
        T(syscall(SYS_setgroups, 0, NULL));
        T(getgroups(3, list));
    });
    CHILD("file ids", {
        T(setfsuid(11));
        T(setfsuid(-1));
        T(setfsgid(12));
        T(setfsgid(-1));
        close(open("f", O_CREAT | O_WRONLY, 0644));
        struct stat st;
        T(stat("f", &st));
    });
    CHILD("keeping capabilities", {
        T(prctl(PR_SET_KEEPCAPS, 1));
        T(setuid(10));
        N(caps());
    });
    CHILD("signals between users", {
        T(setuid(10));
        T(kill(getppid(), 0));
        T(kill(getppid(), SIGTERM));
        T(kill(getpid(), 0));
    });
    T(syscall(SYS_capget, &(struct __user_cap_header_struct){1, 0}, NULL) == -1);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 999999};
    struct __user_cap_data_struct data[2];
    T(syscall(SYS_capget, &header, data));
    return 0;
}

// Which rules about user 0 hold: securebits, and what execve does with capabilities.
#include "check.h"
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

// CAP_CHOWN, CAP_KILL and CAP_SETUID stand for all.
static const unsigned some = 1 << CAP_CHOWN | 1 << CAP_KILL | 1 << CAP_SETUID;

static void show(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    MUST(syscall(SYS_capget, &header, data));
    printf("effective %x permitted %x inheritable %x ambient %d bits %lx keep %d\n", data[0].effective & some,
           data[0].permitted & some, data[0].inheritable & some, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0),
           (long)prctl(PR_GET_SECUREBITS), prctl(PR_GET_KEEPCAPS));
}
static void set(unsigned effective, unsigned permitted, unsigned inheritable) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{effective, permitted, inheritable}};
    OK(syscall(SYS_capset, &header, data));
}
static void again(void) {
    char *arguments[] = {"securebits", "show", NULL};
    MUST(execv("/proc/self/exe", arguments));
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        show();
        return 0;
    }
    if (geteuid() != 0) {
        puts("not the superuser");
        return 0;
    }
    show();
    PART("PR_SET_KEEPCAPS is one of the bits");
    CHILD("keep", {
        T(prctl(PR_SET_KEEPCAPS, 1));
        show();
        T(setresuid(5, 5, 5));
        show();
        again();
    });
    CHILD("keep by bits", {
        T(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS));
        show();
        again();
    });
    CHILD("locked", {
        T(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS_LOCKED));
        T(prctl(PR_SET_KEEPCAPS, 1));
        T(prctl(PR_SET_SECUREBITS, 0));
        show();
    });
    T(prctl(PR_SET_SECUREBITS, 1 << 20));
    T(prctl(PR_SET_KEEPCAPS, 2));
    PART("no fix-up of user ids");
    CHILD("fixed", {
        T(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP));
        T(setresuid(5, 5, 5));
        show();
        again();
    });
    PART("user 0 is nobody special");
    CHILD("no root", {
        T(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED));
        show();
        again();
    });
    CHILD("ambient", {
        T(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT));
        set(some, some, some);
        T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
        show();
        again();
    });
    CHILD("ambient refused", {
        T(prctl(PR_SET_SECUREBITS, SECBIT_NO_CAP_AMBIENT_RAISE));
        set(some, some, some);
        T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
    });
    PART("user 0 gets all again, unless it may not");
    CHILD("gains", {
        set(0, 0, 0);
        again();
    });
    CHILD("gains nothing", {
        set(1 << CAP_KILL, 1 << CAP_KILL, 0);
        T(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        again();
    });
    CHILD("keeps the ambient set", {
        set(some, some, some);
        T(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0));
        again();
    });
    return 0;
}

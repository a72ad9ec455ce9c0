// utimensat and its relatives, and which operations change which times.
#include "check.h"
#include <utime.h>

static void show(const char *name) {
    struct stat st;
    if (lstat(name, &st)) return;
    printf("%s: atime %ld.%09ld mtime %ld.%09ld\n", name, st.st_atim.tv_sec, st.st_atim.tv_nsec, st.st_mtim.tv_sec,
           st.st_mtim.tv_nsec);
}

int main(void) {
    put_file("f", "x");
    MUST(mkdir("d", 0755));
    MUST(symlink("f", "l"));
    struct timespec set[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
    T(utimensat(AT_FDCWD, "f", set, 0));
    show("f");
    set[0].tv_nsec = UTIME_OMIT;
    set[1].tv_sec = 5;
    set[1].tv_nsec = 6;
    T(utimensat(AT_FDCWD, "f", set, 0));
    show("f");
    set[0].tv_sec = -5;
    set[0].tv_nsec = 0;
    T(utimensat(AT_FDCWD, "d", set, 0));
    show("d");
    T(utimensat(AT_FDCWD, "l", set, AT_SYMLINK_NOFOLLOW));
    show("l");
    show("f");
    int fd = MUST(open("f", O_RDONLY));
    set[0].tv_sec = 77;
    T(futimens(fd, set));
    show("f");
    T(utime("f", &(struct utimbuf){11, 22}));
    show("f");
    T(utimes("f", (struct timeval[]){{33, 5}, {44, 6}}));
    show("f");
    T(futimesat(AT_FDCWD, "f", (struct timeval[]){{55, 7}, {66, 8}}));
    show("f");
    PART("now");
    struct stat st;
    T(utimensat(AT_FDCWD, "f", NULL, 0));
    stat("f", &st);
    YES(llabs(st.st_mtime - time(NULL)) < 5 && st.st_atime == st.st_mtime);
    set[0].tv_nsec = UTIME_NOW;
    set[1] = (struct timespec){9, UTIME_OMIT};
    T(utimensat(AT_FDCWD, "d", set, 0));
    stat("d", &st);
    YES(llabs(st.st_atime - time(NULL)) < 5);
    N(st.st_mtime);
    PART("errors");
    set[0] = (struct timespec){1, 1000000000};
    T(utimensat(AT_FDCWD, "f", set, 0));
    set[0] = (struct timespec){1, -1};
    T(utimensat(AT_FDCWD, "f", set, 0));
    set[0] = set[1] = (struct timespec){0, UTIME_OMIT};
    T(utimensat(AT_FDCWD, "nothing", set, 0));
    T(utimensat(AT_FDCWD, "nothing", NULL, 0));
    T(utimensat(AT_FDCWD, "f", NULL, 0x1000000));
    T(syscall(SYS_utimensat, AT_FDCWD, NULL, NULL, 0));
    T(syscall(SYS_utimensat, 99, NULL, NULL, 0));
    T(syscall(SYS_utimensat, AT_FDCWD, "f", BAD, 0));
    T(utimes("f", (struct timeval[]){{33, 1000000}, {44, 6}}));
    PART("changes");
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, "f", old, 0);
    T(chmod("f", 0600));
    stat("f", &st);
    N(st.st_mtime);
    YES(st.st_ctime > 1000);
    int out = MUST(open("f", O_WRONLY));
    T(write(out, "", 0));
    stat("f", &st);
    N(st.st_mtime);
    T(write(out, "y", 1));
    stat("f", &st);
    YES(st.st_mtime > 1000);
    N(st.st_atime);
    utimensat(AT_FDCWD, "f", old, 0);
    T(truncate("f", 0));
    stat("f", &st);
    YES(st.st_mtime > 1000);
    utimensat(AT_FDCWD, "d", old, 0);
    put_file("d/new", "");
    stat("d", &st);
    YES(st.st_mtime > 1000);
    utimensat(AT_FDCWD, "d", old, 0);
    unlink("d/new");
    stat("d", &st);
    YES(st.st_mtime > 1000);
    utimensat(AT_FDCWD, "f", old, 0);
    rename("f", "g");
    stat("g", &st);
    N(st.st_mtime);
    YES(st.st_ctime > 1000);
    return 0;
}

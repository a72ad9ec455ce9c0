// Access mode 3 and O_DIRECT of all kinds of files, receivers of SIGIO that do not exist, copies at the end of the largest
// file, lseek(2) to the end of files of /proc, names of extended attributes, a seal against growth.
#include "check.h"
#include <sys/xattr.h>

static void show_flags(const char *name, int flags) {
    int fd = open(name, flags | O_NONBLOCK);
    if (fd < 0)
        printf("%s %#o: %s\n", name, flags, check_error(errno));
    else
        printf("%s %#o: flags %#o\n", name, flags, fcntl(fd, F_GETFL));
    close(fd);
}

int main(void) {
    put_file("file", "hello world");
    mkdir("dir", 0755);
    mkfifo("fifo", 0644);
    int pipes[2];
    MUST(pipe(pipes));
    PART("access");
    const char *names[] = {"file", "dir", "fifo", "/dev/null", "/dev/zero", "/proc/self/exe", "missing"};
    const int flags[] = {3, 3 | O_TRUNC, 3 | O_CREAT | O_EXCL, O_DIRECT | 3};
    for (size_t i = 0; i < COUNT(names); i++) {
        for (size_t j = 0; j < COUNT(flags); j++) {
            show_flags(names[i], flags[j]);
            unlink("missing");
        }
    }
    put_file("file", "hello world");

    PART("O_DIRECT");
    const char *others[] = {"fifo", "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"};
    for (size_t i = 0; i < COUNT(others); i++) {
        show_flags(others[i], O_DIRECT);
        show_flags(others[i], O_DIRECT | O_RDWR);
    }
    char link[64];
    sprintf(link, "/proc/self/fd/%d", pipes[0]);
    int again = open(link, O_RDONLY | O_DIRECT | O_NONBLOCK);
    YES(again == -1 && errno == EINVAL);

    PART("receivers");
    struct f_owner_ex owner = {F_OWNER_TID, -1};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));
    owner = (struct f_owner_ex){F_OWNER_PID, -5};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));
    owner = (struct f_owner_ex){F_OWNER_PGRP, INT_MIN};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));
    owner = (struct f_owner_ex){F_OWNER_TID, 0};
    T(fcntl(pipes[0], F_SETOWN_EX, &owner));

    PART("/proc");
    const char *ends[] = {"/proc/self/cmdline", "/proc/self/environ", "/proc/self/auxv", "/proc/self/oom_score_adj", "/proc/self/status", "/proc/self/maps",
                          "/proc/self/stat",    "/proc/self/comm",    "/proc/meminfo",   "/proc/sys/kernel/ostype"};
    for (size_t i = 0; i < COUNT(ends); i++) {
        int fd = MUST(open(ends[i], O_RDONLY));
        puts(ends[i]);
        T(lseek(fd, 0, SEEK_END));
        T(lseek(fd, 0, SEEK_DATA));
        T(lseek(fd, 0, SEEK_HOLE));
        T(lseek(fd, -1, SEEK_SET));
        T(lseek(fd, 5, SEEK_SET));
        T(lseek(fd, 2, SEEK_CUR));
        close(fd);
    }

    PART("seals");
    int sealed = MUST(syscall(SYS_memfd_create, "sealed", 2));
    MUST(ftruncate(sealed, 8192));
    T(fcntl(sealed, F_ADD_SEALS, F_SEAL_GROW));
    T(fallocate(sealed, 0, 0, 8192));
    T(fallocate(sealed, 0, 0, 8193));
    T(fallocate(sealed, FALLOC_FL_KEEP_SIZE, 0, 8192));
    T(fallocate(sealed, FALLOC_FL_KEEP_SIZE, 0, 8193));
    T(fallocate(sealed, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 8193));
    T(pwrite(sealed, "abc", 3, 8190));
    T(pwrite(sealed, "abc", 3, 8192));
    return 0;
}

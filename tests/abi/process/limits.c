// Resource limits and what they limit.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    struct rlimit limit, old;
    no_core_files();
    PART("getting and setting");
    T(getrlimit(RLIMIT_NOFILE, &old));
    YES(old.rlim_cur >= 256 && old.rlim_max >= old.rlim_cur);
    limit = (struct rlimit){64, old.rlim_max};
    T(setrlimit(RLIMIT_NOFILE, &limit));
    T(getrlimit(RLIMIT_NOFILE, &limit));
    N(limit.rlim_cur);
    limit = (struct rlimit){100, 50};
    T(setrlimit(RLIMIT_NOFILE, &limit));
    T(setrlimit(99, &limit));
    T(getrlimit(99, &limit));
    T(getrlimit(-1, &limit));
    T(prlimit(0, RLIMIT_NOFILE, NULL, &limit));
    N(limit.rlim_cur);
    T(prlimit(999999, RLIMIT_NOFILE, NULL, &limit));
    PART("descriptors");
    int opened = 0, last = -1, fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) last = fd, opened++;
    printf("last %d, %s\n", last, check_error(errno));
    T(dup(0));
    T(dup2(0, 64));
    T(dup2(0, 63));
    T(fcntl(0, F_DUPFD, 64));
    T(pipe((int[2]){0}));
    T(poll(NULL, 65, 0));
    for (fd = 3; fd < 64; fd++) close(fd);
    setrlimit(RLIMIT_NOFILE, &old);
    CHILD("inherited", {
        limit = (struct rlimit){77, old.rlim_max};
        setrlimit(RLIMIT_NOFILE, &limit);
        execl("/bin/sh", "sh", "-c", "ulimit -n", NULL);
    });
    PART("file size");
    CHILD("ignored", {
        signal(SIGXFSZ, SIG_IGN);
        limit = (struct rlimit){1000, 1000};
        T(setrlimit(RLIMIT_FSIZE, &limit));
        char data[2000];
        fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
        T(write(fd, data, 2000));
        T(write(fd, data, 1));
        T(ftruncate(fd, 2000));
        T(pwrite(fd, data, 10, 995));
        T(fallocate(fd, 0, 990, 11));
        T(fallocate(fd, FALLOC_FL_KEEP_SIZE, 990, 11));
        T(fallocate(fd, 0, 990, 10));
        T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 990, 1000));
    });
    CHILD("signal", {
        limit = (struct rlimit){1000, 1000};
        setrlimit(RLIMIT_FSIZE, &limit);
        fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
        pwrite(fd, "x", 1, 1000);
    });
    PART("address space");
    CHILD("child", {
        limit = (struct rlimit){256 << 20, RLIM_INFINITY};
        T(setrlimit(RLIMIT_AS, &limit));
        T(mmap(NULL, 512 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
        T(mmap(NULL, 16 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
    });
    PART("processor time");
    CHILD("child", {
        limit = (struct rlimit){1, 2};
        setrlimit(RLIMIT_CPU, &limit);
        for (;;) {}
    });
    PART("usage");
    struct rusage usage;
    T(getrusage(RUSAGE_SELF, &usage));
    YES(usage.ru_maxrss > 0);
    T(getrusage(RUSAGE_CHILDREN, &usage));
    YES(usage.ru_utime.tv_sec >= 0);
    T(getrusage(RUSAGE_THREAD, &usage));
    T(getrusage(5, &usage));
    PART("priorities");
    T(getpriority(PRIO_PROCESS, 0));
    T(setpriority(PRIO_PROCESS, 0, 5));
    T(getpriority(PRIO_PROCESS, 0));
    T(setpriority(PRIO_PROCESS, 0, 100));
    T(getpriority(PRIO_PROCESS, 0));
    T(getpriority(9, 0));
    T(getpriority(PRIO_PROCESS, 999999));
    N(syscall(SYS_getpriority, PRIO_PROCESS, 0));
    return 0;
}

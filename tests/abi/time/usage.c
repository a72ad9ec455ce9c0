// How exactly the shares are known differs between kernels, and a busy machine disturbs them: all bounds are wide.
// Processor time: the program's and the system's share, counts, and the clocks that show them.
#include "check.h"
#include <sys/resource.h>
#include <sys/times.h>

static long long us(struct timeval time) { return time.tv_sec * 1000000LL + time.tv_usec; }

static long long clock_us(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

static volatile unsigned long sink;

static void compute(long long microseconds) {
    long long end = clock_us(CLOCK_THREAD_CPUTIME_ID) + microseconds;
    do
        for (int i = 0; i < 100000; i++) sink += i;
    while (clock_us(CLOCK_THREAD_CPUTIME_ID) < end);
}

static void call(long long microseconds) {
    static char room[1 << 16];
    int fd = open("/dev/zero", O_RDONLY);
    long long end = clock_us(CLOCK_THREAD_CPUTIME_ID) + microseconds;
    do
        for (int i = 0; i < 200; i++) sink += read(fd, room, sizeof room);
    while (clock_us(CLOCK_THREAD_CPUTIME_ID) < end);
    close(fd);
}

int main(void) {
    struct rusage before, after;

    PART("computing");
    getrusage(RUSAGE_SELF, &before);
    compute(200000);
    getrusage(RUSAGE_SELF, &after);
    long long user = us(after.ru_utime) - us(before.ru_utime), sys = us(after.ru_stime) - us(before.ru_stime);
    long long little = sys;
    YES(user > 120000 && user > sys);

    PART("calling");
    before = after;
    call(300000);
    getrusage(RUSAGE_SELF, &after);
    user = us(after.ru_utime) - us(before.ru_utime), sys = us(after.ru_stime) - us(before.ru_stime);
    YES(sys > 15000 && sys > little);
    long long all = us(after.ru_utime) + us(after.ru_stime), cpu = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    YES(all > 400000 && cpu - all < 50000 && all - cpu < 50000);
    struct tms ticks;
    YES(times(&ticks) != -1);
    YES(ticks.tms_stime >= 1 && ticks.tms_utime >= 11);
    YES(ticks.tms_cutime == 0 && ticks.tms_cstime == 0);

    PART("children");
    CHILD("child", call(200000));
    getrusage(RUSAGE_CHILDREN, &after);
    YES(us(after.ru_stime) > 10000 && us(after.ru_utime) + us(after.ru_stime) > 150000);
    YES(times(&ticks) != -1 && ticks.tms_cstime >= 1);

    PART("counts");
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 10; i++) sleep_ms(20);
    getrusage(RUSAGE_SELF, &after);
    YES(after.ru_nvcsw - before.ru_nvcsw >= 10);
    before = after;
    size_t size = 8 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, size);
    getrusage(RUSAGE_SELF, &after);
    YES(after.ru_minflt > before.ru_minflt);
    YES(after.ru_maxrss >= 8 << 10);

    PART("limit");
    CHILD("limited", no_core_files(); struct rlimit limit = {1, 2}; setrlimit(RLIMIT_CPU, &limit); compute(5000000));

    PART("load");
    double load = -1;
    YES(getloadavg(&load, 1) == 1 && load >= 0);
    return 0;
}

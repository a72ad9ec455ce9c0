/* Maps the image behind a data page, calibrates the page against the host's clocks and compares. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <asm/prctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

struct vvar {
    uint32_t sequence, cpu_at;
    uint64_t tsc_base, mult;
    struct { uint64_t seconds, ns; } bases[12];
};

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

static uint64_t host_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static char *image;

/* Offset of a symbol as the dynamic linker finds it, applied to our own mapping. */
static void *symbol(void *object, const char *name, const char *weak)
{
    Dl_info info;
    void *at = dlvsym(object, name, "LINUX_2.6");
    CHECK(at != NULL);
    CHECK(dlvsym(object, weak, "LINUX_2.6") == at);
    CHECK(dladdr(at, &info) != 0);
    return image + ((char *)at - (char *)info.dli_fbase);
}

static double ns_per_call(int (*f)(clockid_t, struct timespec *), clockid_t clock)
{
    struct timespec t;
    uint64_t start = host_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < 2000000; i++)
        f(clock, &t);
    return (host_ns(CLOCK_MONOTONIC) - start) / 2e6;
}

int main(int argc, char **argv)
{
    static const clockid_t served[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI,
        CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE };
    CHECK(argc == 2);
    FILE *file = fopen(argv[1], "rb");
    CHECK(file != NULL);
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    image = pages + 4096;
    CHECK(fread(image, 1, 8192, file) > 64);
    CHECK(mprotect(image, 8192, PROT_READ | PROT_EXEC) == 0);
    void *object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(object != NULL);

    struct vvar *v = (struct vvar *)pages;
    uint64_t ns = host_ns(CLOCK_MONOTONIC);
    v->tsc_base = __rdtsc();
    for (clockid_t c = 0; c < 12; c++)
        v->bases[c].seconds = host_ns(c) / 1000000000, v->bases[c].ns = host_ns(c) % 1000000000;
    struct timespec pause = { 0, 100000000 };
    nanosleep(&pause, NULL);
    v->mult = ((unsigned __int128)(host_ns(CLOCK_MONOTONIC) - ns) << 64) / (__rdtsc() - v->tsc_base);
    static uint32_t block[4] = { 0, 0, 3, 0 };
    v->cpu_at = 8;
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, block) == 0);
    CHECK(mprotect(pages, 4096, PROT_READ) == 0);

    int (*gettime)(clockid_t, struct timespec *) = symbol(object, "__vdso_clock_gettime", "clock_gettime");
    int (*getres)(clockid_t, struct timespec *) = symbol(object, "__vdso_clock_getres", "clock_getres");
    int (*timeofday)(struct timeval *, struct timezone *) = symbol(object, "__vdso_gettimeofday", "gettimeofday");
    time_t (*seconds)(time_t *) = symbol(object, "__vdso_time", "time");
    int (*getcpu_)(unsigned *, unsigned *, void *) = symbol(object, "__vdso_getcpu", "getcpu");

    for (unsigned i = 0; i < sizeof served / sizeof *served; i++) {
        struct timespec t;
        CHECK(gettime(served[i], &t) == 0);
        CHECK(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
        int64_t off = t.tv_sec * 1000000000ll + t.tv_nsec - (int64_t)host_ns(served[i]);
        printf("clock %d off by %lld ns\n", served[i], (long long)off);
        CHECK(llabs(off) < 20000000);
    }
    struct timespec t, before = { 0, 0 };
    for (int i = 0; i < 1000000; i++) {
        gettime(CLOCK_MONOTONIC, &t);
        CHECK(t.tv_sec > before.tv_sec || (t.tv_sec == before.tv_sec && t.tv_nsec >= before.tv_nsec));
        before = t;
    }
    /* Others are real system calls. */
    CHECK(gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 && t.tv_sec < 60);
    CHECK(gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 && t.tv_sec < 60);
    CHECK(gettime(99, &t) == -EINVAL && gettime(-1000, &t) == -EINVAL && gettime(32, &t) == -EINVAL);
    CHECK(getres(CLOCK_MONOTONIC, &t) == 0 && t.tv_sec == 0 && t.tv_nsec == 1);
    CHECK(getres(CLOCK_MONOTONIC, NULL) == 0 && getres(CLOCK_MONOTONIC_COARSE, &t) == 0 && t.tv_nsec > 1);
    CHECK(getres(99, &t) == -EINVAL);
    struct timeval tv;
    struct timezone tz = { 1, 1 };
    CHECK(timeofday(&tv, &tz) == 0 && llabs(tv.tv_sec - time(NULL)) <= 1 && tv.tv_usec < 1000000);
    CHECK(tz.tz_minuteswest == 0 && tz.tz_dsttime == 0 && timeofday(NULL, NULL) == 0);
    time_t now;
    CHECK(llabs(seconds(&now) - time(NULL)) <= 1 && seconds(NULL) - now <= 1);
    unsigned cpu = 7, node = 7;
    CHECK(getcpu_(&cpu, &node, NULL) == 0 && cpu == 3 && node == 0 && getcpu_(NULL, NULL, NULL) == 0);

    printf("ns per call: %.1f, the host's own %.1f\n", ns_per_call(gettime, CLOCK_MONOTONIC),
        ns_per_call(clock_gettime, CLOCK_MONOTONIC));
    return 0;
}

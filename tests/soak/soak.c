// cflags: -pthread
// Everything that takes and gives memory, mixed, in rounds: after each, when all is quiet, one line tells how many KiB
// the pod's kernel has in use. Arguments: rounds, seconds of each.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                                             \
    do                                                                                                                 \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno));                      \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    while (0)

static const char *self;
static volatile sig_atomic_t signals;

static void count(int signal) { signals += signal != 0; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void reap(pid_t child, int wanted) {
    int status;
    while (waitpid(child, &status, 0) != child) REQUIRE(errno == EINTR);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

static void forks(unsigned n) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        memset(memory, n, 1 << 20);
        _exit(n & 63);
    }
    reap(child, n & 63);
    child = vfork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execl(self, self, (char *)NULL);
        _exit(99);
    }
    reap(child, 0);
}

static void files(unsigned n) {
    char name[64], other[64], block[4096];
    memset(block, n, sizeof block);
    snprintf(name, sizeof name, "d%d-%u", getpid(), n % 7);
    REQUIRE(mkdir(name, 0700) == 0);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "d%d-%u/f%d", getpid(), n % 7, i);
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        REQUIRE(fd >= 0);
        for (int j = 0; j < i; j++) REQUIRE(write(fd, block, sizeof block) == sizeof block);
        REQUIRE(ftruncate(fd, i * 1000) == 0);
        close(fd);
        snprintf(other, sizeof other, "d%d-%u/g%d", getpid(), n % 7, i);
        REQUIRE(i % 3 ? rename(name, other) == 0 : link(name, other) == 0 && unlink(name) == 0);
        REQUIRE(unlink(other) == 0);
    }
    snprintf(name, sizeof name, "d%d-%u", getpid(), n % 7);
    REQUIRE(rmdir(name) == 0);
    int fd = open("/etc/passwd", O_RDONLY);
    if (fd >= 0) {
        REQUIRE(read(fd, block, sizeof block) > 0);
        close(fd);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;

static void *add(void *argument) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&lock);
        sum++;
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

static void threads(unsigned n) {
    pthread_t all[4];
    (void)n;
    sum = 0;
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&all[i], NULL, add, NULL) == 0);
    for (int i = 0; i < 4; i++) REQUIRE(pthread_join(all[i], NULL) == 0);
    REQUIRE(sum == 8000);
}

static void maps(unsigned n) {
    size_t size = (1 + n % 8) << 19;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memset(memory, 1, size);
    REQUIRE(mprotect(memory + 4096, 8192, PROT_READ) == 0);
    REQUIRE(munmap(memory + size / 2, 4096) == 0);
    REQUIRE(madvise(memory, size / 4, MADV_DONTNEED) == 0 && memory[0] == 0);
    char *moved = mremap(memory, 4096, size, MREMAP_MAYMOVE);
    REQUIRE(moved != MAP_FAILED);
    REQUIRE(munmap(moved, size) == 0 && munmap(memory, size) == 0);
    int fd = memfd_create("soak", 0);
    REQUIRE(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
    char *shared = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(shared != MAP_FAILED);
    memset(shared, 2, 1 << 20);
    munmap(shared, 1 << 20);
    close(fd);
}

static void events(unsigned n) {
    int p[2], s[2];
    char block[1000] = {0};
    REQUIRE(pipe(p) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    int epoll = epoll_create1(0), event = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    REQUIRE(epoll >= 0 && event >= 0 && timer >= 0);
    struct epoll_event wanted = {.events = EPOLLIN}, got[4];
    int all[] = {p[0], s[0], event, timer};
    for (int i = 0; i < 4; i++) REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, all[i], &wanted) == 0);
    REQUIRE(timerfd_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 100000}, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        REQUIRE(write(p[1], block, sizeof block) == sizeof block && write(s[1], block, sizeof block) == sizeof block);
        REQUIRE(epoll_wait(epoll, got, 4, 1000) > 0);
        REQUIRE(read(p[0], block, sizeof block) == sizeof block && read(s[0], block, sizeof block) == sizeof block);
    }
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = (int)n});
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 4; i++) close(all[i]);
    close(p[1]);
    close(s[1]);
    close(epoll);
}

static void work(int which, double until) {
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    void (*const kinds[])(unsigned) = {forks, files, threads, maps, events};
    for (unsigned n = 0; now() < until; n++) kinds[(which + n) % 5](n);
    _exit(0);
}

static long used(void) {
    char line[256];
    long total = 0, free = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    REQUIRE(file);
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "MemTotal: %ld", &total);
        sscanf(line, "MemFree: %ld", &free);
    }
    fclose(file);
    return total - free;
}

int main(int argc, char **argv) {
    if (argc < 3) return 0;
    self = argv[0];
    setvbuf(stdout, NULL, _IOLBF, 1024);
    for (int round = 0; round < atoi(argv[1]); round++) {
        double until = now() + atoi(argv[2]);
        pid_t children[4];
        for (int i = 0; i < 4; i++) {
            children[i] = fork();
            REQUIRE(children[i] >= 0);
            if (children[i] == 0) work(i, until);
        }
        for (int i = 0; i < 4; i++) reap(children[i], 0);
        printf("%ld\n", used());
    }
    return 0;
}

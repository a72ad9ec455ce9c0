// RLIMIT_FSIZE and SIGXFSZ in all calls that write files.
#include "../check.h"
#include <sys/resource.h>
#include <sys/sendfile.h>

static volatile sig_atomic_t got;
static void on_xfsz(int n) { got++; }
#define LIMIT 10000
static int out, pipes[2], in;
static void reset(off_t size, off_t pos) {
    close(out);
    out = MUST(open("out", O_CREAT | O_TRUNC | O_RDWR, 0600));
    MUST(ftruncate(out, size));
    MUST(lseek(out, pos, SEEK_SET));
    MUST(lseek(in, 0, SEEK_SET));
    char rest[65536];
    int n;
    while (ioctl(pipes[0], FIONREAD, &n) == 0 && n > 0) MUST(read(pipes[0], rest, sizeof rest));
    got = 0;
}
static void show(void) {
    struct stat s;
    MUST(fstat(out, &s));
    int n;
    MUST(ioctl(pipes[0], FIONREAD, &n));
    printf("   size %lld, at %lld, in at %lld, in the pipe %d, signals %d\n", (long long)s.st_size, (long long)lseek(out, 0, SEEK_CUR), (long long)lseek(in, 0, SEEK_CUR), n, (int)got);
    got = 0;
}
int main(void) {
    struct rlimit limit = {LIMIT, RLIM_INFINITY};
    char block[16000];
    memset(block, 'a', sizeof block);
    in = MUST(open("in", O_CREAT | O_RDWR, 0600));
    MUST(write(in, block, sizeof block));
    MUST(pipe(pipes));
    MUST(setrlimit(RLIMIT_FSIZE, &limit));
    signal(SIGXFSZ, on_xfsz);
    off_t starts[] = {0, 9000, LIMIT, LIMIT + 5000};
    for (size_t i = 0; i < COUNT(starts); i++) {
        off_t at = starts[i];
        if (at > LIMIT) { limit.rlim_cur = RLIM_INFINITY; setrlimit(RLIMIT_FSIZE, &limit); }
        printf("-- from %lld\n", (long long)at);
#define EACH(call) do { limit.rlim_cur = RLIM_INFINITY; setrlimit(RLIMIT_FSIZE, &limit); reset(at, at); \
        limit.rlim_cur = LIMIT; setrlimit(RLIMIT_FSIZE, &limit); call; show(); call; show(); } while (0)
        EACH(T(write(out, block, 3000)));
        EACH(T(pwrite(out, block, 3000, at)));
        loff_t to = at;
        EACH(T(splice(pipes[0], NULL, out, NULL, 3000, SPLICE_F_NONBLOCK)));
        EACH((write(pipes[1], block, 3000), T(splice(pipes[0], NULL, out, NULL, 3000, 0))));
        EACH((write(pipes[1], block, 16000), T(splice(pipes[0], NULL, out, NULL, 16000, 0))));
        EACH((to = at, write(pipes[1], block, 16000), T(splice(pipes[0], NULL, out, &to, 16000, 0)), N(to - at)));
        EACH((write(pipes[1], block, 16000), T(splice(pipes[0], NULL, out, NULL, 100, 0))));
        EACH(T(sendfile(out, in, NULL, 3000)));
        EACH(T(sendfile(out, in, NULL, 16000)));
        loff_t from = 100;
        EACH((from = 100, T(sendfile(out, in, &from, 16000)), N(from)));
        EACH(T(copy_file_range(in, NULL, out, NULL, 3000, 0)));
        EACH(T(copy_file_range(in, NULL, out, NULL, 16000, 0)));
        EACH((from = 0, to = at, T(copy_file_range(in, &from, out, &to, 16000, 0)), N(from), N(to - at)));
        EACH(T(copy_file_range(in, NULL, out, NULL, 0, 0)));
        struct iovec parts[2] = {{block, 2000}, {block, 14000}};
        EACH(T(writev(out, parts, 2)));
        EACH(T(pwritev2(out, parts, 2, at, 0)));
    }
    PART("append");
    limit.rlim_cur = RLIM_INFINITY; setrlimit(RLIMIT_FSIZE, &limit);
    reset(9000, 0);
    limit.rlim_cur = LIMIT; setrlimit(RLIMIT_FSIZE, &limit);
    MUST(fcntl(out, F_SETFL, O_APPEND));
    T(write(out, block, 3000)); show();
    T(write(out, block, 3000)); show();
    T(pwrite(out, block, 3000, 0)); show();
    reset(9000, 0);
    MUST(fcntl(out, F_SETFL, O_APPEND));
    T(pwrite(out, block, 3000, 0)); show();
    T(pwrite(out, block, 3000, 0)); show();
    PART("space");
    reset(0, 0);
    T(ftruncate(out, LIMIT)); show();
    T(ftruncate(out, LIMIT + 1)); show();
    T(truncate("out", LIMIT + 1)); show();
    T(fallocate(out, 0, 0, LIMIT + 1)); show();
    T(posix_fallocate(out, 0, LIMIT + 1)); show();
    char *map = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    map[9999] = 1;
    T(msync(map, 16384, MS_SYNC)); show();
    return 0;
}

// What a program is told by a directory whose files fail: `failing DIRECTORY`, of the file system that disk.c makes.
#include "check.h"
#include <setjmp.h>
#include <sys/sendfile.h>

static int directory;
static char *room;
static sigjmp_buf back;
static int code;

static int file(const char *name, int flags) { return MUST(openat(directory, name, flags)); }

static void on_bus(int signal, siginfo_t *info, void *context) {
    (void)context, (void)signal;
    code = info->si_code;
    siglongjmp(back, 1);
}

static void look(const char *name, const volatile char *mapping, int page) {
    if (sigsetjmp(back, 1))
        printf("%s, page %d: SIGBUS, code %d\n", name, page, code);
    else
        printf("%s, page %d: %c\n", name, page, mapping[page * 4096]);
}

static void store(const char *name, volatile char *mapping, int page) {
    if (sigsetjmp(back, 1)) {
        printf("%s, store to page %d: SIGBUS, code %d\n", name, page, code);
    } else {
        mapping[page * 4096] = '!';
        printf("%s, store to page %d: %c%c\n", name, page, mapping[page * 4096], mapping[page * 4096 + 1]);
    }
}

// A mapping of a large file. A page was touched before those that are lost, so that there is more than that one at hand.
static char *large_file(const char *name, int prot, int flags) {
    char *mapping = mmap(NULL, 16 << 20, prot, flags, file(name, prot & PROT_WRITE && flags & MAP_SHARED ? O_RDWR : O_RDONLY), 0);
    look(name, mapping, 1024);
    return mapping;
}

// Reads to the end or an error, in pieces.
static void all(const char *name, size_t piece) {
    int fd = file(name, O_RDONLY);
    long got, sum = 0;
    while ((got = read(fd, room, piece)) > 0) sum += got;
    printf("%s: %ld bytes, then %s; at %ld\n", name, sum, got < 0 ? check_error(errno) : "the end", (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
}

int main(int argc, char **argv) {
    if (argc < 2) return 99;
    directory = MUST(open(argv[1], O_DIRECTORY));
    room = malloc(1 << 20);
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGBUS, &action, NULL));
    int pipe_[2];
    MUST(pipe(pipe_));
    int out = MUST(memfd_create("out", 0));

    PART("whole");
    all("good", 1 << 20);
    MUST(mkdirat(directory, "broken", 0700));

    PART("reads");
    all("bad", 4096);
    all("bad", 1 << 20);
    all("half", 5000);
    all("half", 1 << 20);
    all("small", 1 << 20);
    all("small", 3000);
    int bad = file("bad", O_RDONLY), half = file("half", O_RDONLY);
    T(pread(bad, room, 1, 0));
    T(pread(bad, room, 1 << 20, 500000));
    T(pread(half, room, 1, 1 << 16));
    T(pread(half, room, 8192, (1 << 16) - 4096));
    T(pread(half, room, 1, 1 << 20));
    int hole = file("hole", O_RDONLY);
    for (int page = 14; page >= 0; page -= 2) T(pread(hole, room, 1, page * 4096));
    T(pread(hole, room, 9000, 0));
    T(pread(hole, room, 100, 12288));
    T(sendfile(out, bad, NULL, 4096));
    T(splice(bad, NULL, pipe_[1], NULL, 4096, 0));
    T(execveat(directory, "bad", argv, NULL, 0));

    PART("mappings");
    const char *mapped = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, file("bad-mapped", O_RDONLY), 0);
    const char *other = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, file("half-mapped", O_RDONLY), 0);
    char *own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, file("bad-mapped", O_RDONLY), 0);
    look("bad", mapped, 0);
    look("bad", mapped, 200);
    look("half", other, 3);
    look("half", other, 16);
    look("half", other, 15);
    other = mmap(NULL, 60 << 10, PROT_READ, MAP_SHARED, file("hole-mapped", O_RDONLY), 0);
    for (int page = 0; page < 6; page++) look("hole", other, page);
    const char *large = large_file("large-read", PROT_READ, MAP_SHARED);
    for (int i = 0; i < 6; i++) look("large, read", large, (int[]){1, 1280, 1500, 1279, 2047, 2048}[i]);
    large_file("large-call", PROT_READ, MAP_SHARED);
    int called = file("large-call", O_RDONLY);
    T(pread(called, room, 8192, (5 << 20) - 4096));
    T(pread(called, room, 1, 5 << 20));
    T(pread(called, room, 1, 6 << 20));
    T(pread(called, room, 1, 8 << 20));
    store("large, private", large_file("large-private", PROT_READ | PROT_WRITE, MAP_PRIVATE), 1280);
    char *sent = large_file("large-sent", PROT_READ, MAP_PRIVATE);
    T(write(pipe_[1], sent + (1279 << 12), 8192));
    T(write(pipe_[1], sent + (1280 << 12), 4096));
    char *shared = large_file("large-shared", PROT_READ | PROT_WRITE, MAP_SHARED);
    store("large, shared", shared, 1280);
    store("large, shared", shared, 1279);
    look("large, shared", shared, 1281);
    look("large, shared", shared, 1278);
    T(pread(file("large-shared", O_RDONLY), room, 1, 1279 << 12));
    printf("%c\n", *room);
    store("bad", own, 1);
    T(write(pipe_[1], mapped, 1));
    T(write(pipe_[1], other + 4096, 8192));
    T(open(mapped + 4096, O_RDONLY));
    T(madvise((void *)mapped, 1 << 20, MADV_POPULATE_READ));

    PART("writes");
    int written = file("written", O_RDWR), stored = file("stored", O_RDWR);
    T(pwrite(written, "x", 1, 0));
    T(write(written, room, 1 << 16));
    T(lseek(written, 0, SEEK_CUR));
    T(fsync(written));
    T(fdatasync(written));
    T(write(file("good", O_WRONLY), "good", 4));
    T(fsync(file("good", O_WRONLY)));
    T(fsync(stored));

    PART("others");
    all("good", 1 << 20);
    all("good-later", 1 << 20);

    PART("mended");
    MUST(unlinkat(directory, "broken", AT_REMOVEDIR));
    all("bad", 1 << 20);
    all("half", 1 << 20);
    all("small", 1 << 20);
    look("bad", mapped, 0);
    look("hole", other, 2);
    look("large", large, 1281);
    look("large, shared", shared, 1279);
    look("large, shared", shared, 1280);
    T(pwrite(written, "x", 1, 0));
    T(fsync(written));
    T(pread(written, room, 3, 0));
    YES(room[0] == 'x' && room[1] == 'a');
    return 0;
}

// Regular files that several processors read while others change them: what a call has changed is seen by each call that
// begins later, positions move once for each read, and bytes never come from elsewhere.
#include "../check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { READERS = 3, PAGES = 24, BYTES = PAGES * 4096, RUN_MS = 150 };

static atomic_int failures, running;
static int file;

static void failed(const char *what) {
    if (failures++ < 5)
        fprintf(stderr, "%s\n", what);
}

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            failed(#condition);                                                                                        \
    } while (0)

// Runs `read` in several threads, and `change` in this one, for a while.
static void beside(const char *name, void *(*read)(void *), void (*change)(long)) {
    pthread_t readers[READERS];
    running = 1;
    for (long i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read, (void *)i);
    long end = now_ms() + RUN_MS;
    for (long step = 1; now_ms() < end; step++) {
        change(step);
        if (step % 16 == 0)
            usleep(300);
    }
    running = 0;
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    printf("%s: %d failures\n", name, failures);
}

// Content: a number in each page, which only grows.
static atomic_long written;

static void *read_numbers(void *self) {
    for (long i = (long)self; running; i++) {
        long first = written, number = -1, two[2] = {-1, -1};
        off_t at = i % PAGES * 4096;
        NEED(pread(file, &number, 8, at) == 8);
        NEED(number >= first);
        struct iovec parts[2] = {{&two[0], 8}, {&two[1], 8}};
        NEED(preadv(file, parts, 2, at) == 16);
        NEED(two[0] >= number && two[1] >= first);
    }
    return NULL;
}

static void write_numbers(long step) {
    for (int page = 0; page < PAGES; page++) {
        long numbers[2] = {step, step};
        NEED(pwrite(file, numbers, 16, page * 4096) == 16);
    }
    written = step;
}

// Size: grows by appended numbers, and nobody sees less of it than there was.
static atomic_long size;

static void *read_end(void *self) {
    (void)self;
    int own = open("file", O_RDONLY);
    while (running) {
        long first = size, number = -1;
        struct stat stat;
        NEED(fstat(file, &stat) == 0 && stat.st_size >= first && stat.st_blocks >= 0);
        NEED(lseek(own, 0, SEEK_END) >= first);
        NEED(pread(file, &number, 8, first - 8) == 8 && number == first);
        NEED(lseek(own, first - 8, SEEK_SET) == first - 8);
        NEED(read(own, &number, 8) == 8 && number == first);
        NEED(lseek(own, 0, SEEK_CUR) == first);
    }
    close(own);
    return NULL;
}

static void append_number(long step) {
    (void)step;
    long next = size + 8;
    NEED(pwrite(file, &next, 8, size) == 8);
    size = next;
}

// Truncation: bytes are the file's, or zeros, however its pages are used again.
static void *read_cut(void *self) {
    char bytes[3 * 4096];
    for (long i = (long)self; running; i++) {
        ssize_t got = pread(file, bytes, sizeof bytes, i % PAGES * 4096);
        NEED(got >= 0);
        for (ssize_t at = 0; at < got; at += 64)
            NEED(bytes[at] == 'f' || bytes[at] == 0);
    }
    return NULL;
}

static void cut_and_fill(long step) {
    static char bytes[BYTES];
    memset(bytes, 'f', sizeof bytes);
    NEED(ftruncate(file, step % 3 * 5000) == 0);
    char *other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(other, 'x', BYTES);
    NEED(pwrite(file, bytes, BYTES, 0) == BYTES);
    if (step % 4 == 0)
        for (int i = 0; i < 3; i++) {
            static char seen[BYTES];
            NEED(pread(file, seen, BYTES, 0) == BYTES && memcmp(seen, bytes, BYTES) == 0);
        }
    munmap(other, BYTES);
}

// Attributes: times and modes that were set are seen, links that are gone too.
static atomic_long begun, second;

static void *read_attributes(void *self) {
    (void)self;
    while (running) {
        long first = second;
        struct stat stat;
        struct statx statx_;
        NEED(fstat(file, &stat) == 0 && stat.st_mtime >= first);
        NEED((stat.st_mode & 07777) == (first % 2 ? 0640 : 0600) || begun != first);
        NEED(statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &statx_) == 0 && statx_.stx_mtime.tv_sec >= stat.st_mtime);
        NEED(fstatat(file, "", &stat, AT_EMPTY_PATH) == 0 && stat.st_mtime >= first && stat.st_nlink >= 1);
    }
    return NULL;
}

static void set_attributes(long step) {
    struct timespec times[2] = {{1, 0}, {step, 0}};
    begun = step;
    NEED(fchmod(file, step % 2 ? 0640 : 0600) == 0);
    NEED(futimens(file, times) == 0);
    second = step;
    if (step % 8 == 0) {
        struct stat stat;
        NEED(link("file", "second") == 0 && fstat(file, &stat) == 0 && stat.st_nlink == 2);
        NEED(unlink("second") == 0 && fstat(file, &stat) == 0 && stat.st_nlink == 1);
    }
}

// A position that all share: each number is read once.
enum { NUMBERS = 40000 };
static atomic_long sum, count;

static void *share_position(void *self) {
    long numbers[3];
    ssize_t got;
    do {
        struct iovec parts[2] = {{numbers, 8}, {numbers + 1, 16}};
        got = (long)self % 2 ? readv(file, parts, 2) : read(file, numbers, sizeof numbers);
        NEED(got >= 0 && got % 8 == 0);
        for (ssize_t i = 0; i < got / 8; i++) {
            sum += numbers[i];
            count++;
        }
    } while (got > 0);
    return NULL;
}

static void *seek_shared(void *self) {
    (void)self;
    while (running) {
        off_t at = lseek(file, 0, SEEK_CUR);
        NEED(at >= 0 && at <= NUMBERS * 8 && at % 8 == 0);
    }
    return NULL;
}

// A descriptor that leads to two files in turn, and to none.
enum { SLOT = 100 };

static void *read_slot(void *self) {
    (void)self;
    while (running) {
        char bytes[2] = "";
        ssize_t got = pread(SLOT, bytes, 2, 0);
        NEED(got == 2 ? bytes[0] == bytes[1] && (bytes[0] == 'a' || bytes[0] == 'b') : got == -1 && errno == EBADF);
        struct stat stat;
        NEED(fstat(SLOT, &stat) == 0 ? stat.st_size == 2 : errno == EBADF);
        NEED(lseek(SLOT, 1, SEEK_SET) == 1 || errno == EBADF);
    }
    return NULL;
}

static int ends[2];

static void move_slot(long step) {
    NEED(dup2(ends[step % 2], SLOT) == SLOT);
    if (step % 64 == 0)
        usleep(100);
    if (step % 8 == 0)
        close(SLOT);
}

static int filled(const char *name, const char *bytes) {
    int made = MUST(open(name, O_RDWR | O_CREAT | O_TRUNC, 0600));
    NEED(write(made, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
    return made;
}

int main(void) {
    for (int round = 0; round < 2; round++) {
        file = filled("file", "");
        MUST(ftruncate(file, BYTES));
        written = 0;
        beside("numbers", read_numbers, write_numbers);

        MUST(ftruncate(file, 0));
        size = 0;
        append_number(0);
        beside("sizes", read_end, append_number);

        MUST(ftruncate(file, 0));
        beside("truncation", read_cut, cut_and_fill);

        begun = second = 0;
        set_attributes(1);
        beside("attributes", read_attributes, set_attributes);

        MUST(ftruncate(file, 0));
        MUST(lseek(file, 0, SEEK_SET));
        static long numbers[NUMBERS];
        for (long i = 0; i < NUMBERS; i++)
            numbers[i] = i;
        NEED(pwrite(file, numbers, sizeof numbers, 0) == sizeof numbers);
        pthread_t threads[4];
        sum = count = 0;
        running = 1;
        for (long i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, share_position, (void *)i);
        pthread_create(&threads[3], NULL, seek_shared, NULL);
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 1000; i++)
                if (lseek(file, 0, SEEK_CUR) % 8)
                    _exit(1);
            _exit(0);
        }
        int status = -1;
        NEED(waitpid(child, &status, 0) == child && status == 0);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        running = 0;
        pthread_join(threads[3], NULL);
        printf("shared position: %d failures, %ld numbers, sum %ld\n", failures, (long)count, (long)sum);
        close(file);

        ends[0] = filled("a", "aa");
        ends[1] = filled("b", "bb");
        beside("a moving descriptor", read_slot, move_slot);
        close(SLOT);
        close(ends[0]);
        close(ends[1]);
    }
    return 0;
}

// Page faults of threads and processes beside each other and beside what changes their memory: every byte is what was stored.
// cflags: -pthread
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ptrace.h>

enum { PAGE = 4096, PAGES = 512, THREADS = 4 };

static atomic_long errors;
static atomic_int stop;
static char *shared_area;

static unsigned long next_random(unsigned long *seed) {
    *seed = *seed * 6364136223846793005ul + 1442695040888963407ul;
    return *seed >> 33;
}

static char *fresh(size_t pages) {
    char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) errors++;
    return at;
}

// Each thread stores to its own word of each page, in an order of its own: whose fault comes first is open.
static void *fill(void *number) {
    unsigned long mine = (long)number, step = 2 * mine + 1;
    for (unsigned long i = 0; i < PAGES; i++) {
        volatile unsigned *word = (unsigned *)(shared_area + i * step % PAGES * PAGE) + mine * 16;
        errors += *word != 0;
        *word = (unsigned)(mine * 1000003 + i * step % PAGES);
    }
    return NULL;
}

static void filled_together(int round) {
    pthread_t threads[THREADS];
    shared_area = fresh(PAGES);
    if (round % 4 == 1) madvise(shared_area, PAGES * PAGE, MADV_RANDOM);
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, fill, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned t = 0; t < THREADS; t++)
            errors += ((unsigned *)(shared_area + page * PAGE))[t * 16] != t * 1000003 + page;
    munmap(shared_area, PAGES * PAGE);
}

// A thread of the process whose others fork: its stores go on, and none is lost or seen by a child.
static void *count_up(void *area) {
    unsigned long seed = (unsigned long)area, count[64] = {0};
    volatile unsigned long *words = area;
    while (!stop) {
        unsigned i = next_random(&seed) % 64;
        errors += words[i * 512] != count[i];
        words[i * 512] = ++count[i];
    }
    for (int i = 0; i < 64; i++) errors += words[i * 512] != count[i];
    return NULL;
}

// The child copies what the parent stored, changes it, and has its own.
static int child_work(unsigned *area, unsigned pages, unsigned value, int depth) {
    int wrong = 0;
    for (unsigned i = 0; i < pages; i++) wrong += area[i * 1024] != value + i;
    for (unsigned i = 0; i < pages; i++) area[i * 1024] = value + 7 * i + 1;
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0) {
            for (unsigned i = 0; i < pages; i++) area[i * 1024] -= 6 * i + 1;
            _exit(child_work(area, pages, value, depth - 1) != 0);
        }
        // Beside the grandchild, which shares these pages.
        for (unsigned i = pages; i-- > 0;) area[i * 1024 + 1] = i;
        int status;
        wrong += waitpid(child, &status, 0) != child || status != 0;
    }
    for (unsigned i = 0; i < pages; i++) wrong += area[i * 1024] != value + 7 * i + 1;
    return wrong;
}

static void forks(int rounds) {
    unsigned pages = 400;
    unsigned *area = (unsigned *)fresh(pages);
    for (int round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < pages; i++) area[i * 1024] = round * 100000 + i;
        pid_t children[3];
        for (int c = 0; c < 3; c++) {
            children[c] = fork();
            if (children[c] == 0) _exit(child_work(area, pages, round * 100000, c) != 0);
        }
        for (unsigned i = 0; i < pages; i++) area[i * 1024] += 3;
        for (int c = 0; c < 3; c++) {
            int status;
            errors += waitpid(children[c], &status, 0) != children[c] || status != 0;
        }
        for (unsigned i = 0; i < pages; i++) errors += area[i * 1024] != round * 100000 + i + 3;
    }
    munmap(area, pages * PAGE);
}

// Maps, protects and gives back parts of an area beside the others' faults in it.
static void churn_for(void *number, int rounds) {
    unsigned long seed = (long)number + 77;
    for (int round = 0; round < rounds; round++) {
        size_t pages = 1 + next_random(&seed) % 200;
        char *at = fresh(pages);
        char mark = (char)(1 + next_random(&seed) % 100);
        for (size_t i = 0; i < pages; i++) errors += at[i * PAGE + 5] != 0, at[i * PAGE + 5] = mark;
        size_t from = next_random(&seed) % pages, count = 1 + next_random(&seed) % (pages - from);
        char *part = at + from * PAGE;
        switch (round % 5) {
        case 0:
            mprotect(part, count * PAGE, PROT_NONE);
            mprotect(part, count * PAGE, PROT_READ | PROT_WRITE);
            break;
        case 1:
            madvise(part, count * PAGE, MADV_DONTNEED);
            for (size_t i = 0; i < count; i++) errors += part[i * PAGE + 5] != 0, part[i * PAGE + 5] = mark;
            break;
        case 2:
            errors += mmap(part, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != part;
            for (size_t i = 0; i < count; i++) errors += part[i * PAGE + 5] != 0, part[i * PAGE + 5] = mark;
            break;
        case 3:
            mprotect(part, count * PAGE, PROT_READ);
            for (size_t i = 0; i < count; i++) errors += part[i * PAGE + 5] != mark;
            mprotect(part, count * PAGE, PROT_READ | PROT_WRITE);
            break;
        default: {
            char *moved = mremap(at, pages * PAGE, pages * PAGE + 64 * PAGE, MREMAP_MAYMOVE);
            if (moved == MAP_FAILED) {
                errors++;
                break;
            }
            errors += moved[pages * PAGE + 5] != 0;
            at = moved;
            munmap(at + pages * PAGE, 64 * PAGE);
        }
        }
        for (size_t i = 0; i < pages; i++) errors += at[i * PAGE + 5] != mark;
        munmap(at, pages * PAGE);
    }
}

static void *churn(void *number) {
    churn_for(number, 400);
    return NULL;
}

static void *read_maps(void *x) {
    (void)x;
    static char text[1 << 16];
    while (!stop) {
        int fd = open("/proc/self/maps", O_RDONLY);
        long got = read(fd, text, sizeof text);
        errors += got <= 0;
        close(fd);
        fd = open("/proc/self/statm", O_RDONLY);
        errors += read(fd, text, sizeof text) <= 0;
        close(fd);
    }
    return NULL;
}

// A tracer looks into a child that faults all the time.
static void looked_into(void) {
    volatile unsigned long *area = (unsigned long *)fresh(64);
    pid_t child = fork();
    if (child == 0) {
        for (unsigned long round = 1;; round++) {
            for (int i = 0; i < 64; i++) area[i * 512] = round;
            madvise((void *)area, 64 * PAGE, MADV_DONTNEED);
        }
    }
    for (int round = 0; round < 60; round++) {
        errors += ptrace(PTRACE_SEIZE, child, 0, 0) != 0;
        errors += ptrace(PTRACE_INTERRUPT, child, 0, 0) != 0;
        int status;
        errors += waitpid(child, &status, 0) != child;
        unsigned long first = ptrace(PTRACE_PEEKDATA, child, &area[0], 0);
        for (int i = 1; i < 64; i++) {
            unsigned long word = ptrace(PTRACE_PEEKDATA, child, &area[i * 512], 0);
            // Stored in this round, in the one before, or given back.
            errors += word > first;
        }
        errors += ptrace(PTRACE_POKEDATA, child, &area[64], 4711) != 0;
        errors += ptrace(PTRACE_PEEKDATA, child, &area[64], 0) != 4711;
        errors += ptrace(PTRACE_DETACH, child, 0, 0) != 0;
        unsigned long there[4];
        struct iovec mine = {there, sizeof there}, theirs = {(void *)area, sizeof there};
        errors += process_vm_readv(child, &mine, 1, &theirs, 1, 0) != sizeof there;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap((void *)area, 64 * PAGE);
}

// A thread that comes to an address space of one thread, and leaves it: it looks at what must not change.
static void *visit(void *area) {
    unsigned *words = area;
    for (unsigned i = 0; i < 64; i++) errors += words[i * 1024] != i + 9, words[i * 1024 + 1]++;
    return NULL;
}

// Processes that change their mappings, of one thread each, or of two for moments.
static void alone(int visited) {
    pid_t children[4];
    for (long c = 0; c < 4; c++) {
        children[c] = fork();
        if (children[c] == 0) {
            errors = 0;
            pthread_t thread;
            unsigned *area = (unsigned *)fresh(64);
            for (unsigned i = 0; i < 64; i++) area[i * 1024] = i + 9;
            for (unsigned round = 0; round < (visited ? 20 : 1); round++) {
                if (visited) pthread_create(&thread, NULL, visit, area);
                churn_for((void *)(c + 10 * round), visited ? 20 : 400);
                if (visited) pthread_join(thread, NULL);
                for (unsigned i = 0; visited && i < 64; i++) errors += area[i * 1024 + 1] != round + 1;
            }
            _exit(errors != 0);
        }
    }
    // Beside that, their memory is shown and read.
    for (int round = 0; round < 50; round++) {
        char path[64];
        static char text[1 << 15];
        snprintf(path, sizeof path, "/proc/%d/%s", children[round % 4], round & 4 ? "maps" : "smaps");
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) < 0) errors += errno != ESRCH;
        if (fd >= 0) close(fd);
    }
    for (int c = 0; c < 4; c++) {
        int status;
        errors += waitpid(children[c], &status, 0) != children[c] || status != 0;
    }
}

int main(void) {
    PART("one area, several threads");
    for (int round = 0; round < 12; round++) filled_together(round);
    N(errors);
    PART("copies after fork, beside each other");
    forks(6);
    N(errors);
    PART("stores of threads beside forks");
    pthread_t counters[2], churners[3], reader;
    for (int i = 0; i < 2; i++) pthread_create(&counters[i], NULL, count_up, fresh(64));
    forks(3);
    N(errors);
    PART("maps that change beside faults, and are shown");
    pthread_create(&reader, NULL, read_maps, NULL);
    for (long i = 0; i < 3; i++) pthread_create(&churners[i], NULL, churn, (void *)i);
    forks(1);
    for (int i = 0; i < 3; i++) pthread_join(churners[i], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(counters[i], NULL);
    pthread_join(reader, NULL);
    N(errors);
    PART("maps that change in processes of one thread");
    alone(0);
    N(errors);
    PART("and of two for moments");
    alone(1);
    N(errors);
    PART("under a tracer");
    looked_into();
    N(errors);
    return 0;
}

// Pseudo-random mmap, munmap, mprotect, mremap, madvise and fork in one range of addresses, checked against a model;
// what is allowed is found out by system calls that report bad addresses.
#include "check.h"

#define PAGES 64
enum { NONE = 0, READ = 1, WRITE = 2, MAPPED = 4 };
static unsigned char allowed[PAGES], content[PAGES];
static char *base;
static int probe[2], zero;
static uint64_t state;
static unsigned pick(unsigned limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}
static int prot_of(int bits) { return (bits & READ ? PROT_READ : 0) | (bits & WRITE ? PROT_READ | PROT_WRITE : 0); }

static int check(int step, const char *what) {
    for (int i = 0; i < PAGES; i++) {
        char *page = base + i * 4096, byte = 0;
        int can_read = write(probe[1], page + 17, 1) == 1;
        if (can_read) read(probe[0], &byte, 1);
        int can_write = pread(zero, page + 4000, 1, 0) == 1;
        int should_read = (allowed[i] & MAPPED) && (allowed[i] & (READ | WRITE)), should_write = (allowed[i] & MAPPED) && (allowed[i] & WRITE);
        if (can_read != should_read || can_write != should_write || (can_read && (unsigned char)byte != content[i])) {
            printf("step %d, %s: page %d: readable %d (%d), writable %d (%d), holds %d (%d)\n", step, what, i, can_read, should_read, can_write, should_write, (unsigned char)byte, content[i]);
            return 1;
        }
    }
    return 0;
}

static int run(int seed) {
    state = seed;
    base = mmap(NULL, PAGES * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < PAGES; i++) allowed[i] = MAPPED, content[i] = 0;
    for (int step = 0; step < 300; step++) {
        int first = pick(PAGES), count = 1 + pick(pick(3) ? 4 : PAGES - first);
        if (first + count > PAGES) count = PAGES - first;
        char *at = base + first * 4096;
        size_t length = count * 4096;
        int bits = (int[]){NONE, READ, READ | WRITE, READ | WRITE}[pick(4)], bad = 0, unmapped = 0;
        const char *what = "nothing";
        for (int i = first; i < first + count; i++) unmapped |= !(allowed[i] & MAPPED);
        switch (pick(7)) {
        case 0:
            what = "mmap";
            bad = mmap(at, length, prot_of(bits), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at;
            for (int i = first; i < first + count; i++) allowed[i] = MAPPED | bits, content[i] = 0;
            break;
        case 1:
            what = "munmap";
            bad = munmap(at, length) != 0;
            for (int i = first; i < first + count; i++) allowed[i] = NONE, content[i] = 0;
            break;
        case 2:
            what = "mprotect";
            errno = 0;
            if (unmapped) break;
            bad = mprotect(at, length, prot_of(bits)) != 0;
            for (int i = first; i < first + count; i++) allowed[i] = MAPPED | bits;
            break;
        case 3:
            what = "store";
            for (int i = first; i < first + count; i++)
                if ((allowed[i] & (MAPPED | WRITE)) == (MAPPED | WRITE)) base[i * 4096 + 17] = content[i] = pick(255) + 1;
            break;
        case 4:
            what = "madvise";
            if (unmapped) break;
            bad = madvise(at, length, MADV_DONTNEED) != 0;
            for (int i = first; i < first + count; i++) content[i] = 0;
            break;
        case 5: {
            what = "mremap";
            int target = pick(PAGES);
            if (unmapped || target + count > PAGES || (target < first + count && first < target + count)) break;
            // One mapping at a time: the protection must be the same all over.
            int same = 1;
            for (int i = first; i < first + count; i++) same &= allowed[i] == allowed[first];
            if (!same) break;
            void *moved = MAP_FAILED;
            for (int i = 0; i < count; i++) {
                moved = mremap(at + i * 4096, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, base + (target + i) * 4096);
                bad |= moved == MAP_FAILED;
            }
            for (int i = 0; i < count; i++) {
                allowed[target + i] = allowed[first + i], content[target + i] = content[first + i];
                allowed[first + i] = NONE, content[first + i] = 0;
            }
            break;
        }
        default: {
            what = "fork";
            if (pick(8)) break;
            pid_t child = MUST(fork());
            if (child == 0) {
                int wrong = check(step, "child");
                for (int i = 0; i < PAGES; i++)
                    if ((allowed[i] & (MAPPED | WRITE)) == (MAPPED | WRITE)) base[i * 4096 + 17] = content[i] = 200;
                wrong |= check(step, "child after stores");
                _exit(wrong);
            }
            int status;
            waitpid(child, &status, 0);
            bad = status;
            break;
        }
        }
        if (bad) printf("step %d, %s failed: %s\n", step, what, check_error(errno));
        if (check(step, what)) return 1;
    }
    munmap(base, PAGES * 4096);
    return 0;
}

int main(void) {
    MUST(pipe(probe));
    zero = MUST(open("zero", O_CREAT | O_RDWR, 0644));
    MUST(ftruncate(zero, 4096));
    for (int seed = 1; seed <= 6; seed++) printf("seed %d: %s\n", seed, run(seed * 104729) ? "differs from the model" : "agrees");
    return 0;
}

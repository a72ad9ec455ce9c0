// Pseudo-random reads and writes of one file in every way there is, checked against a model in memory.
#include "check.h"
#include <linux/falloc.h>
#include <sys/sendfile.h>

#define LIMIT 60000
static unsigned char model[LIMIT * 2], buffer[LIMIT * 2], other[LIMIT * 2];
static long size;
static uint64_t state = 99;
static unsigned pick(unsigned limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

static int check(int fd, unsigned char *map, int step, const char *what) {
    struct stat st;
    fstat(fd, &st);
    if (st.st_size != size) {
        printf("step %d, %s: size %ld instead of %ld\n", step, what, (long)st.st_size, size);
        return 1;
    }
    memset(other, 0xee, sizeof other);
    if (pread(fd, other, LIMIT, 0) != size || memcmp(other, model, size)) {
        long at = 0;
        while (at < size && other[at] == model[at]) at++;
        printf("step %d, %s: wrong content at %ld\n", step, what, at);
        return 1;
    }
    if (map && memcmp(map, model, size)) {
        puts("the mapping differs");
        printf("step %d, %s\n", step, what);
        return 1;
    }
    return 0;
}

static int run(int seed, int flags) {
    state = seed;
    size = 0;
    memset(model, 0, sizeof model);
    int fd = MUST(open("f", O_CREAT | O_RDWR | O_TRUNC | flags, 0644)), second = MUST(open("f", O_RDWR));
    int copy = MUST(open("copy", O_CREAT | O_RDWR | O_TRUNC, 0644)), p[2];
    MUST(pipe(p));
    unsigned char *map = mmap(NULL, LIMIT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int step = 0; step < 1500; step++) {
        long at = pick(LIMIT / 2), length = pick(pick(4) ? 300 : LIMIT / 2), result = length;
        const char *what = "nothing";
        for (long i = 0; i < length; i++) buffer[i] = pick(255) + 1;
        switch (pick(11)) {
        case 0: case 1:
            what = "pwrite";
            result = pwrite(pick(2) ? fd : second, buffer, length, at);
            memcpy(model + at, buffer, length);
            if (length && at + length > size) size = at + length;
            break;
        case 2:
            what = "write";
            lseek(second, at, SEEK_SET);
            result = write(second, buffer, length);
            memcpy(model + at, buffer, length);
            if (length && at + length > size) size = at + length;
            break;
        case 3: {
            what = "writev";
            struct iovec parts[3] = {{buffer, length / 3}, {buffer + length / 3, length / 2 - length / 3}, {buffer + length / 2, length - length / 2}};
            result = pwritev(fd, parts, 3, at);
            memcpy(model + at, buffer, length);
            if (length && at + length > size) size = at + length;
            break;
        }
        case 4:
            what = "truncate";
            result = ftruncate(fd, at) ? -1 : length;
            if (at < size) memset(model + at, 0, size - at);
            size = at;
            break;
        case 5:
            what = "store";
            if (at >= size) break;
            if (at + length > size) length = size - at;
            memcpy(map + at, buffer, length);
            memcpy(model + at, buffer, length);
            result = length;
            break;
        case 6:
            what = "punch";
            if (length == 0) break;
            result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length) ? -1 : length;
            if (at < size) memset(model + at, 0, at + length > size ? size - at : length);
            break;
        case 7:
            what = "sendfile";
            if (at >= size) break;
            if (at + length > size) length = size - at;
            off_t from = at;
            ftruncate(copy, 0);
            lseek(copy, 0, SEEK_SET);
            result = sendfile(copy, fd, &from, length);
            if (pread(copy, other, length, 0) != length || memcmp(other, model + at, length)) printf("step %d: sendfile copied something else\n", step);
            break;
        case 8:
            what = "splice";
            if (length > 4000) length = 4000;
            if (length == 0) { result = 0; break; }
            write(p[1], buffer, length);
            loff_t to = at;
            result = splice(p[0], NULL, fd, &to, length, 0);
            memcpy(model + at, buffer, length);
            if (at + length > size) size = at + length;
            break;
        case 9: {
            what = "copy_file_range";
            long target = LIMIT / 2 + pick(1000);
            if (at >= size || at + length > size || at + length > target) { break; }
            off_t in = at, out = target;
            result = copy_file_range(fd, &in, second, &out, length, 0);
            memmove(model + target, model + at, length);
            if (length && target + length > size) size = target + length;
            break;
        }
        default: {
            what = "fork and store";
            if (at >= size || pick(20)) break;
            if (at + length > size) length = size - at;
            pid_t child = MUST(fork());
            if (child == 0) {
                memcpy(map + at, buffer, length);
                _exit(0);
            }
            waitpid(child, NULL, 0);
            memcpy(model + at, buffer, length);
            result = length;
            break;
        }
        }
        if (result != length && strcmp(what, "nothing")) printf("step %d, %s: %ld instead of %ld (%s)\n", step, what, result, length, check_error(errno));
        if (check(fd, step % 7 == 0 ? map : NULL, step, what)) return 1;
    }
    munmap(map, LIMIT);
    close(fd), close(second), close(copy), close(p[0]), close(p[1]);
    return 0;
}

int main(void) {
    for (int seed = 1; seed <= 4; seed++) printf("seed %d: %s\n", seed, run(seed * 7919, 0) ? "differs from the model" : "agrees");
    return 0;
}

// Stores to every page of private mappings of a file, upwards and otherwise, and what is beside them.
#include "check.h"

static char *page_of(int fd, off_t at) {
    static char page[4096];
    memset(page, 0, sizeof page);
    if (pread(fd, page, sizeof page, at) == -1) page[0]++;
    return page;
}

// All bytes are the file's, but those that were stored.
static bool is_copy(const unsigned char *map, size_t len, int fd, off_t from, unsigned char mark, int step) {
    for (size_t at = 0; at < len; at += 4096) {
        unsigned char *page = (unsigned char *)page_of(fd, from + at);
        if (at / 4096 % step == 0) page[at / 4096 % 4096] = mark;
        if (memcmp(map + at, page, 4096) != 0) return false;
    }
    return true;
}

static void walk(unsigned char *map, size_t len, unsigned char mark, int step, bool down) {
    size_t pages = len / 4096;
    for (size_t i = 0; i < pages; i++) {
        size_t page = down ? pages - 1 - i : i;
        if (page % step == 0) map[page * 4096 + page % 4096] = mark;
    }
}

int main(void) {
    // What a Linux program always has, and of some hundred pages.
    int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY);
    struct stat st;
    YES(fd != -1 && fstat(fd, &st) == 0);
    size_t len = (st.st_size + 4095) & ~4095ul;

    PART("upwards, downwards, some, with reads before");
    for (int kind = 0; kind < 5; kind++) {
        unsigned char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (kind == 4) YES(is_copy(map, len, fd, 0, 0x7f, len)); // the file's first byte is that
        int step = kind == 2 ? 3 : kind == 3 ? 40 : 1;
        walk(map, len, 0xa5, step, kind == 1);
        YES(is_copy(map, len, fd, 0, 0xa5, step));
        CHILD("child", {
            walk(map, len, 0x5a, step, false);
            YES(is_copy(map, len, fd, 0, 0x5a, step));
        });
        YES(is_copy(map, len, fd, 0, 0xa5, step));
        T(munmap(map, len));
    }

    PART("parts and permissions");
    unsigned char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 8192);
    walk(map, len / 8192 * 4096, 1, 1, false);
    T(mprotect(map + 4096, 4096, PROT_READ));
    T(mprotect(map + 4096, 4096, PROT_READ | PROT_WRITE));
    YES(is_copy(map, len / 8192 * 4096, fd, 8192, 1, 1));
    CHILD("store beyond the end", map[len - 4096] = 1);
    T(munmap(map, len));

    PART("a file of one's own shows later changes where nothing was stored");
    int own = open("own", O_RDWR | O_CREAT, 0600);
    T(ftruncate(own, 64 * 4096));
    map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, own, 0);
    walk(map, 16 * 4096, 7, 1, false);
    T(pwrite(own, "x", 1, 17 * 4096));
    N(map[17 * 4096]);
    N(map[15 * 4096 + 15]);
    return 0;
}

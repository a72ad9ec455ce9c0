// Mappings for stacks, as C libraries make them, and stores to private mappings of files in no order.
#include "check.h"
#include <sys/mman.h>
#include <fcntl.h>

static unsigned sum(const unsigned char *from, long length) {
    unsigned result = 1;
    for (long i = 0; i < length; i++) result = result * 31 + from[i];
    return result;
}

// Flags of the mapping that holds `address`, from /proc/self/smaps: is `flag` among them?
static int has_flag(const void *address, const char *flag) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    int here = 0, found = -1;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) here = start <= (unsigned long)address && (unsigned long)address < end;
        if (here && !strncmp(line, "VmFlags:", 8)) found = strstr(line, flag) != NULL;
    }
    fclose(maps);
    return found;
}

int main(void) {
    PART("a stack");
    enum { SIZE = 1 << 20, PAGE = 4096 };
    for (int round = 0; round < 3; round++) {
        char *area = mmap(0, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        YES(mprotect(area + PAGE, SIZE - PAGE, PROT_READ | PROT_WRITE) == 0);
        long zeros = 0;
        for (long i = PAGE; i < SIZE; i++) zeros += area[i] == 0;
        N(zeros);
        memset(area + PAGE, 7, SIZE - PAGE);
        N(has_flag(area + SIZE - 1, " nh"));
        CHILD("guard", { *(volatile char *)area = 1; });
        // Closed again, and opened for reading: what was stored is still there.
        mprotect(area, SIZE, PROT_NONE);
        CHILD("closed", { *(volatile char *)(area + SIZE - 1) = 1; });
        mprotect(area + PAGE, SIZE - PAGE, PROT_READ);
        N(sum((unsigned char *)area + PAGE, SIZE - PAGE));
        T(munmap(area, SIZE));
    }
    PART("a file of the host, private, stores in no order");
    int fd = open("/proc/self/exe", O_RDONLY);
    off_t size = lseek(fd, 0, SEEK_END), pages = (size + PAGE - 1) / PAGE;
    unsigned char *file = mmap(0, size, PROT_READ, MAP_PRIVATE, fd, 0);
    for (int read_first = 0; read_first < 2; read_first++) {
        unsigned char *copy = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (read_first) YES(sum(copy, size) == sum(file, size));
        int wrong = 0;
        for (off_t i = 0; i < pages; i++) {
            off_t page = i * 7 % pages;
            copy[page * PAGE] ^= 0xff;
            for (off_t at = page * PAGE; at < size && at < (page + 1) * PAGE; at++)
                wrong += copy[at] != (file[at] ^ (at % PAGE || (pages % 7 == 0) ? 0 : 0xff));
        }
        YES(pages % 7 == 0 || wrong == 0);
        YES(sum(copy, size) != sum(file, size));
        munmap(copy, size);
    }
    PART("what others write shows until a page is copied");
    int own = open("own", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 16; i++) {
        char page[PAGE];
        memset(page, 'a', sizeof page);
        write(own, page, sizeof page);
    }
    char *private = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, own, 0);
    private[5 * PAGE] = 'b';
    pwrite(own, "ccc", 3, 5 * PAGE);
    pwrite(own, "ddd", 3, 6 * PAGE);
    pwrite(own, "eee", 3, 4 * PAGE);
    printf("%.3s %.3s %.3s\n", private + 4 * PAGE, private + 5 * PAGE, private + 6 * PAGE);
    return 0;
}

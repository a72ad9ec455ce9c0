// Reads, writes and positions on every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"

static char buffer[64];
static struct iovec ten = {buffer, 10}, nothing = {buffer, 0}, bad = {BAD, 10}, kernel = {KERNEL_ADDRESS, 10}, negative = {buffer, -1};
static unsigned flag;
#define FAR 0x7ffffffffffffff0

int main(void) {
    objects_start();
    EACH_OK(read(fd, buffer, 10));
    EACH(read(fd, buffer, 0));
    EACH(read(fd, BAD, 0));
    EACH(read(fd, BAD, 10));
    EACH(read(fd, BAD, 200));
    EACH(read(fd, KERNEL_ADDRESS, 10));
    EACH_BUT(GENERATED, read(fd, BAD, -1));
    EACH(read(fd, KERNEL_ADDRESS, 0));
    EACH(readv(fd, &ten, 0));
    EACH(readv(fd, NULL, 0));
    EACH(readv(fd, &nothing, 1));
    EACH(readv(fd, &bad, 1));
    EACH(readv(fd, &kernel, 1));
    EACH(readv(fd, BAD, 1));
    EACH(readv(fd, &ten, -1));
    EACH(readv(fd, &negative, 1));
    PART("write");
    EACH(write(fd, "0123456789", 10));
    EACH(write(fd, "01234567", 8));
    EACH(write(fd, buffer, 0));
    EACH(write(fd, BAD, 0));
    EACH(write(fd, BAD, 8));
    EACH(write(fd, BAD, 10));
    EACH(write(fd, KERNEL_ADDRESS, 8));
    EACH(write(fd, KERNEL_ADDRESS, 0));
    EACH(writev(fd, &ten, 0));
    EACH(writev(fd, &nothing, 1));
    EACH(writev(fd, &bad, 1));
    EACH(writev(fd, &kernel, 1));
    EACH(writev(fd, BAD, 1));
    EACH(writev(fd, &ten, -1));
    EACH(writev(fd, &negative, 1));
    PART("positions");
    EACH_OK(pread(fd, buffer, 10, 0));
    EACH(pread(fd, buffer, 0, 0));
    EACH(pread(fd, BAD, 10, 0));
    EACH(pread(fd, KERNEL_ADDRESS, 10, 0));
    EACH(pread(fd, buffer, 10, -1));
    EACH_BUT(GENERATED, pread(fd, buffer, 10, FAR));
    EACH_BUT(GENERATED, pread(fd, buffer, 32, FAR));
    EACH(pwrite(fd, buffer, 10, 0));
    EACH(pwrite(fd, buffer, 0, 0));
    EACH(pwrite(fd, BAD, 10, 0));
    EACH(pwrite(fd, KERNEL_ADDRESS, 10, 0));
    EACH(pwrite(fd, buffer, 10, -1));
    EACH_BUT(STORED | MEMORY, pwrite(fd, buffer, 10, FAR));
    EACH_BUT(STORED | MEMORY, pwrite(fd, buffer, 32, FAR));
    EACH_OK(preadv(fd, &ten, 1, 0));
    EACH(preadv(fd, &ten, 0, 0));
    EACH(preadv(fd, BAD, 1, 0));
    EACH(preadv(fd, &ten, -1, 0));
    EACH(preadv(fd, &ten, 1, -1));
    EACH(pwritev(fd, &ten, 1, 0));
    EACH(pwritev(fd, &ten, 0, 0));
    EACH(pwritev(fd, BAD, 1, 0));
    EACH(pwritev(fd, &ten, -1, 0));
    EACH(pwritev(fd, &ten, 1, -1));
    PART("flags");
    EACH_OK(preadv2(fd, &ten, 1, 0, 0));
    EACH_OK(preadv2(fd, &ten, 1, -1, 0));
    EACH(preadv2(fd, &ten, 0, 0, 0));
    EACH(preadv2(fd, &ten, 0, -1, 0));
    EACH(preadv2(fd, &bad, 1, -1, 0));
    EACH(preadv2(fd, &ten, 1, -2, 0));
    for (flag = 1; flag <= 0x400; flag <<= 1) {
        // Newer than many kernels: RWF_DONTCACHE, RWF_NOSIGNAL, and what comes next.
        if (flag == 0x80 || flag == 0x100) continue;
        // File systems differ in what they do at once.
        if (flag == RWF_NOWAIT) object_without = STORED | MEMORY;
        printf("flag %#x\n", flag);
        long at_start(int fd) { return preadv2(fd, &ten, 1, 0, flag); }
        long here(int fd) { return preadv2(fd, &ten, 1, -1, flag); }
        long none(int fd) { return preadv2(fd, &ten, 0, -1, flag); }
        long write_start(int fd) { return pwritev2(fd, &ten, 1, 0, flag); }
        long write_here(int fd) { return pwritev2(fd, &ten, 1, -1, flag); }
        long write_none(int fd) { return pwritev2(fd, &ten, 0, -1, flag); }
        object_only_ok = true;
        on_each("preadv2 at 0", at_start);
        on_each("preadv2 at -1", here);
        on_each("preadv2 of nothing", none);
        on_each("pwritev2 at 0", write_start);
        on_each("pwritev2 at -1", write_here);
        on_each("pwritev2 of nothing", write_none);
        object_only_ok = false;
        object_without = 0;
    }
    EACH(pwritev2(fd, &ten, 1, 0, 0));
    EACH(pwritev2(fd, &ten, 1, -1, 0));
    EACH(pwritev2(fd, &ten, 0, 0, 0));
    EACH(pwritev2(fd, &ten, 0, -1, 0));
    EACH(pwritev2(fd, &bad, 1, -1, 0));
    EACH(pwritev2(fd, &ten, 1, -2, 0));
    PART("lseek");
    EACH(lseek(fd, 0, SEEK_SET));
    EACH(lseek(fd, 5, SEEK_SET));
    EACH(lseek(fd, -1, SEEK_SET));
    EACH(lseek(fd, 0, SEEK_CUR));
    EACH(lseek(fd, 5, SEEK_CUR));
    EACH(lseek(fd, -1, SEEK_CUR));
    EACH_BUT(GENERATED | DIRECTORY, lseek(fd, 0, SEEK_END));
    EACH_BUT(DIRECTORY, lseek(fd, -100, SEEK_END));
    EACH_BUT(DIRECTORY, lseek(fd, 0, SEEK_DATA));
    EACH_BUT(DIRECTORY, lseek(fd, 0, SEEK_HOLE));
    EACH_BUT(DIRECTORY, lseek(fd, -1, SEEK_DATA));
    EACH_BUT(DIRECTORY, lseek(fd, 100, SEEK_HOLE));
    EACH(lseek(fd, 0, 5));
    EACH(lseek(fd, 0, -1));
    return 0;
}

// splice and its relatives, sendfile and copy_file_range, from and to every kind of open file.
// cflags: -Wno-stringop-overflow -Wno-stringop-overread
#include "objects.h"
#include <sys/sendfile.h>

static char buffer[64];
static struct iovec ten = {buffer, 10}, nothing = {buffer, 0}, bad = {BAD, 10};

// An end of a pipe that has bytes, and room.
static int filled(int end) {
    int ends[2];
    MUST(pipe2(ends, O_NONBLOCK));
    write(ends[1], "0123456789", 10);
    return ends[end];
}

static int empty(int end) {
    int ends[2];
    MUST(pipe2(ends, O_NONBLOCK));
    return ends[end];
}

static int target(void) { return MUST(open("target", O_CREAT | O_RDWR | O_TRUNC, 0644)); }

static int source(void) {
    put_file("source", "0123456789");
    return MUST(open("source", O_RDWR));
}

static off_t at, other, before = -1, far = 0x7ffffffffffffff8;

int main(void) {
    objects_start();
    PART("splice from it");
    EACH_OK(splice(fd, NULL, empty(1), NULL, 10, 0));
    EACH_OK((at = 0, splice(fd, &at, empty(1), NULL, 10, 0)));
    EACH(splice(fd, &before, empty(1), NULL, 10, 0));
    EACH(splice(fd, BAD, empty(1), NULL, 10, 0));
    EACH_BUT(GENERATED, splice(fd, &far, empty(1), NULL, 10, 0));
    EACH(splice(fd, NULL, empty(0), NULL, 10, 0));
    EACH(splice(fd, NULL, empty(1), NULL, 0, 0));
    EACH(splice(fd, NULL, empty(1), NULL, 10, 0x100));
    EACH(splice(fd, NULL, empty(1), BAD, 10, 0));
    EACH(splice(fd, NULL, target(), NULL, 10, 0));
    EACH(splice(fd, NULL, fd, NULL, 10, 0));
    EACH(splice(fd, NULL, 999, NULL, 10, 0));
    PART("splice to it");
    EACH(splice(filled(0), NULL, fd, NULL, 8, 0));
    EACH((at = 0, splice(filled(0), NULL, fd, &at, 8, 0)));
    EACH(splice(filled(0), NULL, fd, &before, 8, 0));
    EACH(splice(filled(0), NULL, fd, BAD, 8, 0));
    EACH_BUT(STORED | MEMORY, splice(filled(0), NULL, fd, &far, 10, 0));
    EACH(splice(filled(1), NULL, fd, NULL, 8, 0));
    EACH(splice(empty(0), NULL, fd, NULL, 8, 0));
    EACH(splice(filled(0), BAD, fd, NULL, 8, 0));
    PART("tee, vmsplice");
    EACH(tee(fd, empty(1), 10, 0));
    EACH(tee(filled(0), fd, 10, 0));
    EACH(tee(fd, fd, 10, 0));
    EACH(tee(fd, empty(1), 0, 0));
    EACH(tee(fd, empty(1), 10, 0x100));
    EACH(vmsplice(fd, &ten, 1, 0));
    EACH(vmsplice(fd, &ten, 0, 0));
    EACH(vmsplice(fd, &nothing, 1, 0));
    EACH(vmsplice(fd, &bad, 1, 0));
    EACH(vmsplice(fd, BAD, 1, 0));
    EACH(vmsplice(fd, BAD, 0, 0));
    EACH(vmsplice(fd, &ten, -1, 0));
    EACH(vmsplice(fd, &ten, 1, 0x100));
    PART("sendfile from it");
    EACH_OK(sendfile(target(), fd, NULL, 10));
    EACH_OK((at = 0, sendfile(target(), fd, &at, 10)));
    EACH(sendfile(target(), fd, &before, 10));
    EACH(sendfile(target(), fd, BAD, 10));
    EACH_BUT(GENERATED, sendfile(target(), fd, &far, 10));
    EACH(sendfile(target(), fd, NULL, 0));
    EACH(sendfile(target(), fd, NULL, -1));
    EACH_OK(sendfile(empty(1), fd, NULL, 10));
    EACH_OK((at = 0, sendfile(empty(1), fd, &at, 10)));
    EACH(sendfile(999, fd, NULL, 10));
    EACH(sendfile(fd, fd, NULL, 0));
    PART("sendfile to it");
    EACH(sendfile(fd, source(), NULL, 8));
    EACH((at = 0, sendfile(fd, source(), &at, 8)));
    EACH(sendfile(fd, source(), NULL, 0));
    EACH(sendfile(fd, empty(0), NULL, 8));
    EACH(sendfile(fd, open("/dev/zero", O_RDONLY), NULL, 8));
    EACH(sendfile(fd, open("/dev/null", O_RDONLY), NULL, 8));
    PART("copy_file_range");
    EACH_BUT(GENERATED | PROCESS, copy_file_range(fd, NULL, target(), NULL, 8, 0));
    EACH_BUT(PROCESS, (at = 0, copy_file_range(fd, &at, target(), NULL, 0, 0)));
    EACH_BUT(PROCESS, copy_file_range(fd, &before, target(), NULL, 8, 0));
    EACH_BUT(PROCESS, copy_file_range(fd, BAD, target(), NULL, 8, 0));
    EACH_BUT(PROCESS, copy_file_range(fd, NULL, target(), NULL, 8, 1));
    EACH_BUT(PROCESS, copy_file_range(fd, NULL, target(), NULL, 0, 0));
    EACH_BUT(GENERATED | PROCESS, copy_file_range(source(), NULL, fd, NULL, 8, 0));
    EACH_BUT(GENERATED | PROCESS, (at = 0, copy_file_range(source(), NULL, fd, &at, 8, 0)));
    EACH_BUT(PROCESS, copy_file_range(source(), NULL, fd, BAD, 8, 0));
    EACH_BUT(PROCESS, copy_file_range(source(), NULL, fd, &before, 8, 0));
    EACH_BUT(PROCESS, (at = 0, other = 20, copy_file_range(fd, &at, fd, &other, 8, 0)));
    EACH_BUT(PROCESS, (at = 0, other = 2, copy_file_range(fd, &at, fd, &other, 8, 0)));
    return 0;
}

// Many ranges that several open file descriptions lock for reading: each range is free when the last description is
// closed, or its process ends, and no request is lost on the way.
#include "check.h"

enum { FILES = 24, RANGES = 150 };

static int take(int fd, short type, int range)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = range * 2, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &lock);
}

// Locks all ranges by each of the descriptions.
static void lock_all(int *fds)
{
    int failed = 0;
    for (int file = 0; file < FILES; file++) {
        fds[file] = open("locked", O_RDWR | O_CREAT, 0644);
        for (int range = 0; range < RANGES; range++)
            failed += take(fds[file], F_RDLCK, range) != 0;
    }
    N(failed);
}

// How many of the ranges another description can lock for writing.
static int free_ranges(void)
{
    int fd = open("locked", O_RDWR), count = 0;
    for (int range = 0; range < RANGES; range++)
        count += take(fd, F_WRLCK, range) == 0;
    close(fd);
    return count;
}

int main(void)
{
    int fds[FILES];

    PART("closed one by one");
    lock_all(fds);
    N(free_ranges());
    for (int file = 0; file < FILES - 1; file++)
        close(fds[file]);
    N(free_ranges());
    close(fds[FILES - 1]);
    N(free_ranges());

    PART("closed by the end of the process");
    CHILD("child", (lock_all(fds), N(free_ranges())));
    N(free_ranges());

    PART("given up range by range");
    lock_all(fds);
    for (int file = 0; file < FILES; file++)
        for (int range = 0; range < RANGES; range++)
            take(fds[file], F_UNLCK, range);
    N(free_ranges());

    T(unlink("locked"));
    return 0;
}

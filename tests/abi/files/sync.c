// Advice and synchronisation: what is accepted of which descriptor.
#include "check.h"

int main(void) {
    put_file("f", "0123456789");
    int fd = MUST(open("f", O_RDWR)), dir = MUST(open(".", O_RDONLY)), pipes[2];
    MUST(pipe(pipes));
    T(fsync(fd));
    T(fdatasync(fd));
    T(fsync(dir));
    T(fsync(pipes[0]));
    T(fsync(99));
    T(syncfs(fd));
    T(syncfs(99));
    sync();
    T(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
    T(sync_file_range(fd, -1, 0, 0));
    T(sync_file_range(fd, 0, 0, 0x100));
    T(sync_file_range(pipes[0], 0, 0, 0));
    N(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
    N(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    N(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL) == EINVAL);
    N(posix_fadvise(fd, 0, 0, 99) == EINVAL);
    N(posix_fadvise(pipes[0], 0, 0, 0) == ESPIPE);
    N(posix_fadvise(99, 0, 0, 0) == EBADF);
    T(readahead(fd, 0, 100) == 0 || errno == EINVAL);
    T(readahead(99, 0, 100));
    return 0;
}

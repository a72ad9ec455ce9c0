// sendfile and copy_file_range.
#include "check.h"
#include <sys/sendfile.h>

int main(void) {
    char data[20000], buffer[20000];
    for (int i = 0; i < 20000; i++) data[i] = i * 13 + i / 256;
    int in = MUST(open("in", O_CREAT | O_RDWR, 0644)), out = MUST(open("out", O_CREAT | O_RDWR, 0644));
    MUST(write(in, data, 20000));
    lseek(in, 0, SEEK_SET);
    PART("sendfile");
    T(sendfile(out, in, NULL, 5000));
    T(lseek(in, 0, SEEK_CUR));
    T(lseek(out, 0, SEEK_CUR));
    off_t at = 5000;
    T(sendfile(out, in, &at, 100000));
    N(at);
    T(lseek(in, 0, SEEK_CUR));
    T(sendfile(out, in, &at, 10));
    T(pread(out, buffer, 20000, 0));
    YES(memcmp(data, buffer, 20000) == 0);
    int pipes[2];
    MUST(pipe(pipes));
    at = 3;
    T(sendfile(pipes[1], in, &at, 1000));
    T(read(pipes[0], buffer, 20000));
    YES(memcmp(data + 3, buffer, 1000) == 0);
    at = -1;
    T(sendfile(out, in, &at, 10));
    T(sendfile(99, in, NULL, 10));
    T(sendfile(out, 99, NULL, 10));
    T(sendfile(out, pipes[0], &at, 10));
    T(syscall(SYS_sendfile, out, in, BAD, 10));
    int read_only = MUST(open("in", O_RDONLY)), write_only = MUST(open("in", O_WRONLY));
    at = 0;
    T(sendfile(read_only, in, &at, 10));
    T(sendfile(out, write_only, &at, 10));
    T(sendfile(out, in, &at, 0));
    int append = MUST(open("out", O_WRONLY | O_APPEND));
    T(sendfile(append, in, &at, 10));
    PART("copy_file_range");
    int copy = MUST(open("copy", O_CREAT | O_RDWR, 0644));
    off_t from = 100, to = 0;
    T(copy_file_range(in, &from, copy, &to, 10000, 0));
    printf("%ld %ld\n", (long)from, (long)to);
    T(pread(copy, buffer, 20000, 0));
    YES(memcmp(data + 100, buffer, 10000) == 0);
    T(lseek(copy, 0, SEEK_CUR));
    lseek(in, 19990, SEEK_SET);
    T(copy_file_range(in, NULL, copy, NULL, 100, 0));
    T(lseek(copy, 0, SEEK_CUR));
    T(copy_file_range(in, NULL, copy, NULL, 100, 0));
    from = 0, to = 50;
    T(copy_file_range(copy, &from, copy, &to, 20, 0));
    from = 0, to = 10;
    T(copy_file_range(copy, &from, copy, &to, 20, 0));
    T(copy_file_range(in, NULL, copy, NULL, 100, 1));
    T(copy_file_range(99, NULL, copy, NULL, 100, 0));
    T(copy_file_range(in, NULL, read_only, NULL, 100, 0));
    T(copy_file_range(in, NULL, append, NULL, 100, 0));
    T(copy_file_range(pipes[0], NULL, copy, NULL, 100, 0));
    int dir = MUST(open(".", O_RDONLY));
    T(copy_file_range(dir, NULL, copy, NULL, 100, 0));
    from = -1;
    T(copy_file_range(in, &from, copy, NULL, 100, 0));
    return 0;
}

// splice, tee and vmsplice.
#include "check.h"

int main(void) {
    char buffer[100] = {0};
    put_file("f", "0123456789abcdef");
    int fd = MUST(open("f", O_RDWR)), a[2], b[2];
    MUST(pipe(a));
    MUST(pipe(b));
    loff_t at = 4;
    T(splice(fd, &at, a[1], NULL, 6, 0));
    N(at);
    T(tee(a[0], b[1], 100, 0));
    T(read(b[0], buffer, 100));
    puts(buffer);
    int out = MUST(open("out", O_CREAT | O_RDWR, 0644));
    T(splice(a[0], NULL, out, NULL, 100, 0));
    show_file("out");
    T(lseek(out, 0, SEEK_CUR));
    T(write(a[1], "pipe", 4));
    T(splice(a[0], NULL, b[1], NULL, 2, 0));
    memset(buffer, 0, sizeof buffer);
    T(read(b[0], buffer, 100));
    puts(buffer);
    struct iovec parts[2] = {{"vm", 2}, {"splice", 6}};
    T(vmsplice(b[1], parts, 2, 0));
    memset(buffer, 0, sizeof buffer);
    T(read(b[0], buffer, 100));
    puts(buffer);
    PART("errors");
    T(splice(fd, NULL, out, NULL, 10, 0));
    T(splice(a[0], &at, out, NULL, 10, 0));
    at = 0;
    T(splice(99, NULL, a[1], NULL, 10, 0));
    T(splice(fd, NULL, 99, NULL, 10, 0));
    T(splice(fd, NULL, a[1], NULL, 10, 0x100));
    T(splice(fd, NULL, a[1], NULL, 0, 0));
    T(tee(fd, a[1], 10, 0));
    T(tee(a[0], a[1], 10, 0));
    T(splice(b[0], NULL, out, NULL, 10, SPLICE_F_NONBLOCK));
    int append = MUST(open("out", O_WRONLY | O_APPEND));
    T(splice(a[0], NULL, append, NULL, 2, 0));
    T(lseek(fd, 0, SEEK_END));
    T(splice(fd, NULL, b[1], NULL, 10, 0));
    PART("devices");
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"};
    T(write(b[1], "0123456789", 10));
    for (int i = 0; i < 4; i++) {
        int device = MUST(open(devices[i], O_RDWR));
        at = 5;
        puts(devices[i]);
        T(splice(b[0], NULL, device, NULL, 1, SPLICE_F_MOVE));
        T(splice(b[0], NULL, device, &at, 1, 0));
        T(splice(device, NULL, b[1], NULL, 3, 0));
        close(device);
    }
    close(b[1]);
    T(splice(b[0], NULL, out, NULL, 10, 0));
    return 0;
}

// Named pipes and mknod.
#include "check.h"

int main(void) {
    char buffer[16] = {0};
    T(mkfifo("p", 0644));
    T(mkfifo("p", 0644));
    T(mkfifo("no/p", 0644));
    T(mknod("regular", S_IFREG | 0600, 0));
    T(mknod("typeless", 0600, 0));
    T(mknod("dir", S_IFDIR | 0600, 0));
    T(mknod("link", S_IFLNK | 0600, 0));
    T(mknod("sock", S_IFSOCK | 0600, 0));
    T(open("sock", O_RDONLY));
    struct stat st;
    T(stat("typeless", &st));
    YES(S_ISREG(st.st_mode));
    T(open("p", O_WRONLY | O_NONBLOCK));
    int in = MUST(open("p", O_RDONLY | O_NONBLOCK));
    T(read(in, buffer, 4));
    int out = MUST(open("p", O_WRONLY));
    T(read(in, buffer, 4));
    T(write(out, "data", 4));
    T(read(in, buffer, 16));
    puts(buffer);
    T(lseek(in, 0, SEEK_SET));
    close(out);
    T(read(in, buffer, 4));
    close(in);
    PART("opening waits for the other side");
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(50);
        int fd = open("p", O_WRONLY);
        write(fd, "from child", 10);
        _exit(0);
    }
    in = MUST(open("p", O_RDONLY));
    memset(buffer, 0, sizeof buffer);
    T(read(in, buffer, 16));
    puts(buffer);
    T(read(in, buffer, 16));
    reap("child", child);
    close(in);
    PART("read and write");
    int both = OK(open("p", O_RDWR));
    T(write(both, "xy", 2));
    T(read(both, buffer, 16));
    struct pollfd poller = {both, POLLIN | POLLOUT, 0};
    T(poll(&poller, 1, 0));
    N(poller.revents);
    T(unlink("p"));
    T(write(both, "z", 1));
    return 0;
}

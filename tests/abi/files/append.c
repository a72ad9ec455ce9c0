// O_APPEND: where data goes and what the offset becomes.
#include "check.h"

int main(void) {
    char buffer[64] = {0};
    put_file("f", "start");
    int fd = MUST(open("f", O_RDWR | O_APPEND)), plain = MUST(open("f", O_RDWR));
    T(lseek(fd, 0, SEEK_CUR));
    T(write(fd, "+one", 4));
    T(lseek(fd, 0, SEEK_CUR));
    T(lseek(fd, 0, SEEK_SET));
    T(read(fd, buffer, 3));
    T(write(fd, "+two", 4));
    T(lseek(fd, 0, SEEK_CUR));
    T(pwrite(fd, "+three", 6, 0));
    T(pwrite(plain, "S", 1, 0));
    show_file("f");
    T(fcntl(plain, F_SETFL, O_APPEND));
    T(write(plain, "!", 1));
    T(fcntl(plain, F_SETFL, 0));
    lseek(plain, 1, SEEK_SET);
    T(write(plain, "T", 1));
    show_file("f");
    PART("two writers");
    put_file("g", "");
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = MUST(fork());
        if (children[i] == 0) {
            int mine = open("g", O_WRONLY | O_APPEND);
            for (int j = 0; j < 100; j++) write(mine, "0123456789", 10);
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) waitpid(children[i], NULL, 0);
    struct stat st;
    stat("g", &st);
    N(st.st_size);
    return 0;
}

// Maps two pages of each of the files 0, 1, ... in a directory, waits for a line, and tells whose second page is lost.
#include "guest.h"
#include <setjmp.h>

static sigjmp_buf back;

static void caught(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    static volatile char *at[1000];
    int files = atoi(argv[argc - 2]), lost = 0;
    signal(SIGBUS, caught);
    for (int i = 0; i < files; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%d", argv[argc - 1], i);
        int fd = open(path, O_RDWR);
        at[i] = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || at[i] == MAP_FAILED || at[i][4096] != 'a') return 98;
        at[i][0] = 'b';
        close(fd);
    }
    printf("ready\n");
    fflush(stdout);
    getchar();
    for (int i = 0; i < files; i++) {
        if (!sigsetjmp(back, 1)) {
            if (at[i][4096] != 'a') return 97;
        } else {
            if (i % 3) return 96;
            lost++;
        }
        if (at[i][0] != 'b') return 95;
    }
    printf("%d lost\n", lost);
    return 0;
}

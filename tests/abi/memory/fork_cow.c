// Memory across fork: copies on both sides, sharing where it was asked for, chains of forks.
#include "check.h"

#define PAGES 300

int main(void) {
    char *private = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *shared = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PAGES; i++) private[i * 4096] = i;
    static int global = 1;
    int local = 2;
    int *heap = malloc(sizeof *heap);
    *heap = 3;
    pid_t child = MUST(fork());
    if (child == 0) {
        int same = 0;
        for (int i = 0; i < PAGES; i++) same += private[i * 4096] == (char)i;
        shared[0] = same;
        for (int i = 0; i < PAGES; i++) private[i * 4096] = i + 1;
        for (int i = 0; i < PAGES; i++) shared[i * 1024 + 1] = i;
        global = local = *heap = 99;
        _exit(0);
    }
    reap("child", child);
    int same = 0, seen = 0;
    for (int i = 0; i < PAGES; i++) same += private[i * 4096] == (char)i;
    for (int i = 0; i < PAGES; i++) seen += shared[i * 1024 + 1] == i;
    printf("%d %d %d, %d %d %d\n", shared[0], same, seen, global, local, *heap);
    PART("the parent writes first");
    int pipes[2];
    MUST(pipe(pipes));
    child = MUST(fork());
    if (child == 0) {
        char byte;
        close(pipes[1]);
        read(pipes[0], &byte, 1);
        int old = 0;
        for (int i = 0; i < PAGES; i++) old += private[i * 4096] == (char)i;
        _exit(old == PAGES ? 0 : 1);
    }
    close(pipes[0]);
    for (int i = 0; i < PAGES; i++) private[i * 4096] = 77;
    write(pipes[1], "x", 1);
    reap("child", child);
    close(pipes[1]);
    PART("generations");
    *heap = 0;
    for (int depth = 0; depth < 8; depth++) {
        child = MUST(fork());
        if (child) {
            int status;
            waitpid(child, &status, 0);
            int expected = depth + 1 < 8 ? 8 : 8;
            if (*heap == depth && shared[0] == expected) {}
            if (depth == 0) printf("deepest %d, own %d\n", shared[0], *heap);
            if (depth) _exit(0);
            break;
        }
        *heap += 1;
        shared[0] = *heap;
        private[depth * 4096] = *heap;
        if (depth == 7) _exit(0);
    }
    PART("many children in a row");
    int good = 0;
    for (int i = 0; i < 100; i++) {
        child = MUST(fork());
        if (child == 0) {
            private[i * 4096] = i;
            *heap = i;
            _exit(*heap & 0x7f);
        }
        int status;
        waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == (i & 0x7f) && *heap == 0 && private[i * 4096] == 77;
        if (i == 0) good += 0;
    }
    N(good);
    PART("a system call writes to a copied page");
    char *page = private + 4096 * 10;
    strcpy(page, "parent");
    int fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
    write(fd, "child!", 6);
    child = MUST(fork());
    if (child == 0) {
        pread(fd, page, 6, 0);
        puts(page);
        _exit(0);
    }
    reap("child", child);
    puts(page);
    child = MUST(fork());
    if (child == 0) {
        sleep_ms(50);
        puts(page);
        _exit(0);
    }
    pread(fd, page, 6, 0);
    reap("child", child);
    puts(page);
    return 0;
}

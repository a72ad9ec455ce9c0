// Mappings of files: private and shared, their coherence with read and write, and the end of the file.
#include "check.h"
#include <setjmp.h>

static sigjmp_buf back;
static void on_bus(int number) { siglongjmp(back, number); }

int main(void) {
    char buffer[64] = {0}, text[8192];
    for (int i = 0; i < 8192; i++) text[i] = 'a' + i % 26;
    int fd = MUST(open("f", O_CREAT | O_RDWR, 0644));
    MUST(write(fd, text, 6000));
    PART("private");
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    YES(memcmp(p, text, 6000) == 0);
    int zeros = 0;
    for (int i = 6000; i < 8192; i++) zeros += p[i] == 0;
    N(zeros);
    p[10] = '!';
    T(pread(fd, buffer, 1, 10));
    printf("%c\n", buffer[0]);
    T(pwrite(fd, "?", 1, 5000));
    printf("%c\n", p[5000]);
    T(pwrite(fd, "?", 1, 11));
    printf("%c%c\n", p[10], p[11]);
    PART("shared");
    char *s = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *t = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    s[0] = 'S';
    s[4096] = 'T';
    T(pread(fd, buffer, 1, 0));
    printf("%c %c\n", buffer[0], t[0]);
    T(pwrite(fd, "W", 1, 1));
    printf("%c\n", s[1]);
    s[7000] = 'x';
    struct stat st;
    fstat(fd, &st);
    N(st.st_size);
    T(msync(s, 8192, MS_SYNC));
    CHILD("child", { s[2] = 'C'; p[2] = 'C'; });
    printf("%c %c\n", s[2], p[2]);
    PART("the descriptor may be closed and the file removed");
    close(fd);
    unlink("f");
    s[3] = 'D';
    printf("%.6s\n", s);
    PART("beyond the end");
    struct sigaction action = {.sa_handler = on_bus, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
    fd = MUST(open("g", O_CREAT | O_RDWR, 0644));
    MUST(write(fd, text, 100));
    char *g = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    N(g[99] + g[100]);
    int number = sigsetjmp(back, 1);
    if (number == 0) {
        volatile char c = g[4096];
        printf("no signal %d\n", c);
    } else printf("SIG%s\n", signal_name(number));
    T(ftruncate(fd, 8192));
    N(g[4096]);
    g[4096] = 5;
    T(ftruncate(fd, 50));
    N(g[60]);
    number = sigsetjmp(back, 1);
    if (number == 0) {
        g[4096] = 1;
        puts("no signal");
    } else printf("SIG%s\n", signal_name(number));
    number = sigsetjmp(back, 1);
    T(write(1, g + 8192, 10));
    T(ftruncate(fd, 0));
    number = sigsetjmp(back, 1);
    if (number == 0) {
        volatile char c = g[0];
        printf("no signal %d\n", c);
    } else printf("SIG%s\n", signal_name(number));
    PART("offsets");
    fd = MUST(open("h", O_CREAT | O_RDWR, 0644));
    for (int i = 0; i < 64; i++) {
        memset(text, i, 4096);
        MUST(write(fd, text, 4096));
    }
    char *h = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 40 * 4096);
    printf("%d %d\n", h[0], h[4096]);
    PART("write from and read into a mapping of the same file");
    char *all = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T(pwrite(fd, all + 10 * 4096, 8192, 0));
    printf("%d %d\n", all[0], all[4096]);
    T(pread(fd, all + 20 * 4096, 4096, 63 * 4096));
    T(pread(fd, buffer, 1, 20 * 4096));
    N(buffer[0]);
    return 0;
}

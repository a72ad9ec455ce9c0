// PR_SET_MM: where /proc finds the arguments; PR_GET_AUXV.
#include "check.h"
#include <sys/prctl.h>

#define PR_GET_AUXV 0x41555856

struct map {
    uint64_t start_code, end_code, start_data, end_data, start_brk, brk, start_stack, arg_start, arg_end, env_start, env_end;
    uint64_t *auxv;
    uint32_t auxv_size, exe_fd;
};

// Numbers of fields of /proc/self/stat, from 1.
static const int fields[] = {26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51};

static struct map now(void) {
    struct map map = {.exe_fd = -1};
    uint64_t *words = &map.start_code;
    char text[2048];
    int fd = MUST(open("/proc/self/stat", O_RDONLY));
    text[MUST(read(fd, text, sizeof text - 1))] = 0;
    close(fd);
    char *at = strrchr(text, ')') + 2;
    for (int field = 3; at && *at; field++) {
        for (size_t i = 0; i < COUNT(fields); i++)
            if (fields[i] == field) words[i] = strtoull(at, NULL, 10);
        at = strchr(at, ' ');
        if (at) at++;
    }
    map.brk = (uint64_t)sbrk(0);
    return map;
}

static void show_title(const char *what) {
    char text[64] = {0};
    int fd = MUST(open("/proc/self/cmdline", O_RDONLY));
    ssize_t n = MUST(read(fd, text, sizeof text - 1));
    close(fd);
    printf("%s: %s\n", what, n < 40 ? text : "long");
}

#define SET(map) prctl(PR_SET_MM, PR_SET_MM_MAP, &(map), sizeof(map), 0)

int main(void) {
    PART("auxiliary vector");
    uint64_t words[100], file[100];
    memset(words, 0x55, sizeof words);
    T(prctl(PR_GET_AUXV, words, sizeof words, 0, 0));
    int fd = MUST(open("/proc/self/auxv", O_RDONLY));
    ssize_t n = MUST(read(fd, file, sizeof file));
    YES(n > 16 && memcmp(words, file, n) == 0);
    memset(words, 0x55, sizeof words);
    T(prctl(PR_GET_AUXV, words, 8, 0, 0));
    YES(words[0] == file[0] && words[1] == 0x5555555555555555);
    T(prctl(PR_GET_AUXV, words, 0, 0, 0));
    T(prctl(PR_GET_AUXV, words, 8, 1, 0));
    T(prctl(PR_GET_AUXV, words, 8, 0, 1));
    T(prctl(PR_GET_AUXV, BAD, 8, 0, 0));

    PART("title");
    unsigned size = 0;
    T(prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0));
    N(size);
    T(prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, BAD, 0, 0));
    char *title;
    title = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(title, "a new title");
    struct map map = now();
    T(SET(map));
    map.arg_start = (uint64_t)title;
    map.arg_end = map.arg_start + strlen(title) + 1;
    T(SET(map));
    show_title("title");
    strcpy(title, "changed");
    show_title("title");
    struct map after = now();
    YES(after.arg_start == map.arg_start && after.arg_end == map.arg_end && after.start_code == map.start_code);
    CHILD("a child", show_title("child's"););

    PART("refused");
    struct map bad = map;
    bad.arg_end = bad.arg_start - 1;
    T(SET(bad));
    bad = map;
    bad.start_code = bad.end_code;
    T(SET(bad));
    bad = map;
    bad.env_end = 0x7ffffffff000;
    T(SET(bad));
    bad = map;
    bad.start_stack = 4096;
    T(SET(bad));
    T(prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map - 8, 0));
    T(prctl(PR_SET_MM, PR_SET_MM_MAP, BAD, sizeof map, 0));
    T(prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 1));
    T(prctl(PR_SET_MM, PR_SET_MM_ARG_START, title, 1, 0));
    show_title("title");

    PART("without privileges");
    if (geteuid() == 0) MUST(setresuid(65534, 65534, 65534));
    T(prctl(PR_SET_MM, PR_SET_MM_ARG_START, title, 0, 0));
    T(prctl(PR_SET_MM, 99, title, 0, 0));
    strcpy(title, "last");
    map.arg_end = map.arg_start + 5;
    T(SET(map));
    show_title("title");
    return 0;
}

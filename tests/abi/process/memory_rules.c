// Rules for memory that are handed down: PR_SET_MDWE and PR_SET_THP_DISABLE of prctl(2).
#include "check.h"
#include <sys/prctl.h>

enum { SET_THP_DISABLE = 41, GET_THP_DISABLE, SET_MDWE = 65, GET_MDWE };
enum { REFUSE = 1, NO_INHERIT = 2 };

static void status(const char *name) {
    char line[200];
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) fputs(line, stdout);
    fclose(file);
}

static void show(void) {
    printf("huge pages %d, execution %d\n", prctl(GET_THP_DISABLE, 0, 0, 0, 0), prctl(GET_MDWE, 0, 0, 0, 0));
    status("THP_enabled");
}

static void again(void) {
    char *arguments[] = {"memory_rules", "show", NULL};
    MUST(execv("/proc/self/exe", arguments));
}

static void *map(size_t len, int prot) { return mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

static void refused(void) {
    const int x = PROT_READ | PROT_EXEC, w = PROT_READ | PROT_WRITE;
    char *before = MUST(map(8192, x)), *both = MUST(map(4096, w | x)), *data = MUST(map(8192, w));
    T(prctl(SET_MDWE, REFUSE, 0, 0, 0));
    OK(map(4096, w | x));
    OK(map(4096, PROT_WRITE | PROT_EXEC));
    T(mprotect(data, 4096, x));
    T(mprotect(data, 4096, w | x));
    T(mprotect(data, 4096, PROT_READ));
    T(mprotect(data, 4096, x));
    T(mprotect(data, 8192, PROT_NONE));
    T(mprotect(before, 4096, w | x));
    T(mprotect(before, 4096, PROT_EXEC));
    T(mprotect(before, 4096, PROT_READ));
    T(mprotect(before, 8192, x));
    T(mprotect(before + 4096, 4096, x));
    T(mprotect(both, 4096, w | x));
    T(mprotect(both, 4096, x));
    T(mprotect(both, 4096, w));
    OK(map(4096, x));
    int fd = MUST(open("/proc/self/exe", O_RDONLY));
    OK(mmap(NULL, 4096, w | x, MAP_PRIVATE, fd, 0));
    OK(mmap(NULL, 4096, x, MAP_PRIVATE, fd, 0));
    OK(mmap(data, 4096, w | x, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    T(mprotect(data, 8192, w));
    data[0] = 1;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        show();
        return 0;
    }
    show();
    PART("arguments");
    T(prctl(SET_THP_DISABLE, 1, 1, 0, 0));
    T(prctl(SET_THP_DISABLE, 0, 2, 0, 0));
    T(prctl(SET_THP_DISABLE, 1, 0, 1, 0));
    T(prctl(SET_THP_DISABLE, 1, 0, 0, 1));
    T(prctl(GET_THP_DISABLE, 1, 0, 0, 0));
    T(prctl(GET_THP_DISABLE, 0, 0, 0, 1));
    T(prctl(SET_MDWE, NO_INHERIT, 0, 0, 0));
    T(prctl(SET_MDWE, 4, 0, 0, 0));
    T(prctl(SET_MDWE, REFUSE, 1, 0, 0));
    T(prctl(SET_MDWE, REFUSE, 0, 0, 1));
    T(prctl(GET_MDWE, 1, 0, 0, 0));
    T(prctl(SET_MDWE, 0, 0, 0, 0));
    show();

    PART("huge pages");
    CHILD("off", {
        T(prctl(SET_THP_DISABLE, 5, 0, 0, 0));
        show();
        char *room = map(8 << 20, PROT_READ | PROT_WRITE);
        memset(room, 1, 8 << 20);
        YES(room[5 << 20] == 1);
        CHILD("child", show());
        CHILD("other program", again());
        T(prctl(SET_THP_DISABLE, 0, 0, 0, 0));
        show();
    });
    show();

    PART("execution");
    CHILD("refused", refused());
    CHILD("handed down", {
        T(prctl(SET_MDWE, REFUSE, 0, 0, 0));
        T(prctl(SET_MDWE, REFUSE, 0, 0, 0));
        T(prctl(SET_MDWE, 0, 0, 0, 0));
        CHILD("child", {
            show();
            OK(map(4096, PROT_WRITE | PROT_EXEC));
        });
        CHILD("other program", again());
    });
    show();
    return 0;
}

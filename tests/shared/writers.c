// Processes that write the same file at the same time: `writers HOW PROCESSES LINES [FILE]`. Each writes lines of 64 bytes,
// which tell who wrote them and that they are whole. Ends with 1 if it notices something wrong itself.
#include "check.h"

static int processes, lines;

static void line(char *text, int process, int number) {
    snprintf(text, 65, "%02d %06d %053d", process, number, 0);
    text[63] = '\n';
}

static int is_line(const char *text) { return text[2] == ' ' && text[9] == ' ' && text[63] == '\n'; }

static void on_alarm(int signal) { (void)signal; }

// Finds the end under a lock and writes there, through a new description each time.
static int locked(const char *file, int process) {
    char text[65], seen[64];
    for (int i = 0; i < lines; i++) {
        int fd = MUST(open(file, O_RDWR | O_CREAT, 0644));
        struct flock lock = {.l_type = F_WRLCK};
        MUST(fcntl(fd, F_SETLKW, &lock));
        long end = MUST(lseek(fd, 0, SEEK_END));
        struct stat stat;
        MUST(fstat(fd, &stat));
        if (end % 64 || stat.st_size != end) return 1;
        if (end > 0 && (pread(fd, seen, 64, end - 64) != 64 || !is_line(seen))) return 1;
        line(text, process, i);
        if (write(fd, text, 64) != 64) return 1;
        MUST(close(fd));
    }
    return 0;
}

static int appended(const char *file, int process) {
    char text[65];
    int fd = MUST(open(file, O_RDWR | O_APPEND | O_CREAT, 0644));
    for (int i = 0; i < lines; i++) {
        line(text, process, i);
        if (write(fd, text, 64) != 64) return 1;
        // The position is behind the line, wherever others had the end meanwhile.
        char seen[64];
        if (i % 32 == 31 && (pread(fd, seen, 64, MUST(lseek(fd, 0, SEEK_CUR)) - 64) != 64 || memcmp(seen, text, 64)))
            return 1;
    }
    return 0;
}

// One description, which all processes have inherited, without O_APPEND.
static int inherited(int fd, int process) {
    char text[65];
    for (int i = 0; i < lines; i++) {
        line(text, process, i);
        if (write(fd, text, 64) != 64) return 1;
        if (i % 8 == 0 && lseek(fd, 0, SEEK_CUR) % 64) return 1;
    }
    return 0;
}

// The first line is written again and again at its place while all others go on at the end.
static int to_output(int process) {
    char text[65];
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, NULL));
    struct itimerval timer = {{0, 700 + 100 * process}, {0, 700}};
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    for (int i = 0; i < lines; i++) {
        line(text, process, i);
        if (write(1, text, 64) != 64) return 1;
        line(text, 99, 0);
        if (i % 4 == 0 && pwrite(1, text, 64, 0) != 64) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 99;
    const char *how = argv[1], *file = argc > 4 ? argv[4] : NULL;
    processes = atoi(argv[2]), lines = atoi(argv[3]);
    int is_output = !strcmp(how, "output");
    if (is_output) {
        char text[65];
        line(text, 99, 0);
        if (write(1, text, 64) != 64) return 1;
    }
    int is_inherited = !strcmp(how, "inherited");
    int fd = is_inherited ? MUST(open(file, O_RDWR | O_CREAT, 0644)) : -1;
    for (int process = 0; process < processes; process++)
        if (!MUST(fork()))
            _exit(is_output               ? to_output(process)
                  : is_inherited          ? inherited(fd, process)
                  : !strcmp(how, "locked") ? locked(file, process)
                                          : appended(file, process));
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status != 0;
    return bad;
}

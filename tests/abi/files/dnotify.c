// Signals about changes in a directory: fcntl(2) F_NOTIFY.
#include "check.h"

static int volatile count, descriptor, band, code;

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    count++;
    descriptor = info->si_fd, band = info->si_band, code = info->si_code;
}

// How many signals have come since the last call.
static void show(const char *what) {
    printf("%s: %d\n", what, count);
    count = 0;
}

int main(void) {
    char text[8];
    MUST(mkdir("d", 0700));
    MUST(mkdir("d/sub", 0700));
    put_file("d/file", "text");
    int dir = MUST(open("d", O_RDONLY | O_DIRECTORY)), file = MUST(open("d/file", O_RDWR));
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);

    PART("arguments");
    T(fcntl(file, F_NOTIFY, DN_CREATE));
    T(fcntl(file, F_NOTIFY, 0));
    T(fcntl(dir, F_NOTIFY, 0));
    T(fcntl(dir, F_NOTIFY, DN_MULTISHOT));
    T(fcntl(999, F_NOTIFY, DN_CREATE));
    T(fcntl(dir, F_GETOWN));

    PART("once");
    T(fcntl(dir, F_NOTIFY, DN_CREATE));
    YES(fcntl(dir, F_GETOWN) == getpid());
    put_file("d/one", "1");
    show("created");
    N(code == SI_KERNEL);
    put_file("d/two", "2");
    show("another");

    PART("each time");
    T(fcntl(dir, F_SETSIG, SIGRTMIN));
    T(fcntl(dir, F_NOTIFY, DN_CREATE | DN_DELETE | DN_MULTISHOT));
    put_file("d/three", "3");
    show("created");
    printf("descriptor %d, band %#x, code %d\n", descriptor == dir, band, code);
    MUST(unlink("d/three"));
    show("removed");
    MUST(mkdir("d/more", 0700));
    show("directory");
    MUST(rename("d/more", "more"));
    show("moved out");
    MUST(rename("more", "d/more"));
    show("moved in");
    put_file("d/sub/deep", "x");
    show("below");
    MUST(write(file, "x", 1));
    show("written");
    T(fcntl(dir, F_NOTIFY, DN_MODIFY | DN_ATTRIB | DN_ACCESS | DN_MULTISHOT));
    MUST(write(file, "x", 1));
    show("written");
    MUST(pread(file, text, 2, 0));
    show("read");
    MUST(fchmod(file, 0600));
    show("mode");
    put_file("d/four", "");
    show("created");

    PART("no more");
    T(fcntl(dir, F_NOTIFY, 0));
    MUST(unlink("d/four"));
    show("removed");
    T(fcntl(dir, F_NOTIFY, DN_DELETE | DN_MULTISHOT));
    int same = MUST(dup(dir));
    close(same);
    MUST(unlink("d/two"));
    show("a copy closed");
    T(fcntl(dir, F_NOTIFY, DN_DELETE | DN_MULTISHOT));
    close(dir);
    MUST(unlink("d/one"));
    show("closed");

    PART("several descriptors");
    int several[4];
    sigset_t waited;
    sigemptyset(&waited);
    sigaddset(&waited, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &waited, NULL);
    for (int i = 0; i < 4; i++) {
        several[i] = MUST(open("d", O_RDONLY | O_DIRECTORY));
        MUST(fcntl(several[i], F_SETSIG, SIGRTMIN));
        MUST(fcntl(several[i], F_NOTIFY, i == 3 ? DN_DELETE : i == 1 ? DN_CREATE : DN_CREATE | DN_MULTISHOT));
    }
    MUST(fcntl(several[0], F_NOTIFY, DN_DELETE));
    for (int round = 0; round < 6; round++) {
        if (round == 3) close(several[2]);
        if (round % 2) MUST(unlink("d/new"));
        else put_file("d/new", "");
        siginfo_t info;
        struct timespec now = {0, 0};
        printf("round %d:", round);
        while (sigtimedwait(&waited, &info, &now) == SIGRTMIN)
            for (int i = 0; i < 4; i++)
                if (info.si_fd == several[i]) printf(" %d", i);
        printf("\n");
    }
    return 0;
}

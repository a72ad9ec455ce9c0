// A file that is open for writing can't be executed, and one that is executed can't be opened for writing.
#include "check.h"

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        // Memory whose release takes a while.
        memset(malloc(8 << 20), 1, 8 << 20);
        pause();
        return 0;
    }
    char path[PATH_MAX] = {0};
    put_file("script", "#!/bin/true\n");
    MUST(chmod("script", 0755));
    int writer = MUST(open("script", O_WRONLY | O_APPEND));
    CHILD("being written", {
        execl("./script", "script", NULL);
        puts(check_error(errno));
    });
    int again = MUST(dup(writer));
    close(writer);
    CHILD("a copy of the descriptor is open", {
        execl("./script", "script", NULL);
        puts(check_error(errno));
    });
    int mapped = MUST(open("script", O_RDWR));
    char *shared = mmap(NULL, 1, PROT_READ, MAP_SHARED, mapped, 0);
    close(again);
    close(mapped);
    CHILD("mapped by a writer", {
        execl("./script", "script", NULL);
        puts(check_error(errno));
    });
    munmap(shared, 1);
    CHILD("closed", execl("./script", "script", NULL));
    PART("a program that runs");
    MUST(readlink("/proc/self/exe", path, PATH_MAX - 1));
    char command[PATH_MAX + 32];
    snprintf(command, sizeof command, "cp %s copy", path);
    MUST(system(command));
    pid_t child = MUST(fork());
    if (child == 0) {
        execl("./copy", "copy", "wait", NULL);
        _exit(1);
    }
    sleep_ms(50);
    T(open("copy", O_WRONLY));
    T(open("copy", O_RDWR | O_CREAT, 0600));
    T(open("copy", O_RDONLY | O_TRUNC));
    T(truncate("copy", 0));
    OK(open("copy", O_RDONLY));
    T(chmod("copy", 0700));
    T(link("copy", "other"));
    T(open("other", O_WRONLY));
    T(unlink("copy"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    OK(open("other", O_WRONLY));
    PART("a program that ended");
    int busy = 0;
    for (int i = 0; i < 50; i++) {
        child = MUST(fork());
        if (child == 0) {
            execl("./other", "other", "wait", NULL);
            _exit(1);
        }
        sleep_ms(2 + i % 8);
        kill(child, SIGKILL);
        // Does not sleep, so it sees the end at once.
        while (waitpid(child, NULL, WNOHANG) == 0) continue;
        writer = open("other", O_WRONLY);
        busy += writer < 0;
        close(writer);
    }
    N(busy);
    PART("an interpreter");
    writer = MUST(open("other", O_WRONLY));
    put_file("by_other", "#!./other\n");
    MUST(chmod("by_other", 0755));
    CHILD("being written", {
        execl("./by_other", "by_other", NULL);
        puts(check_error(errno));
    });
    return 0;
}

// A file that is open for writing can't be executed, and one that is executed can't be opened for writing.
#include "check.h"

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
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
    close(writer);
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
    T(truncate("copy", 0));
    OK(open("copy", O_RDONLY));
    T(unlink("copy"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

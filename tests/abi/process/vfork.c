// vfork: the child runs first, in its parent's memory.
#include "check.h"
#include <spawn.h>

static volatile int value;

int main(void) {
    int status;
    value = 1;
    pid_t child = vfork();
    if (child == 0) {
        value = 2;
        _exit(5);
    }
    N(value);
    YES(waitpid(child, &status, 0) == child);
    show_status("child", status);
    child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "echo from the shell; exit 6", NULL);
        _exit(127);
    }
    YES(waitpid(child, &status, 0) == child);
    show_status("child", status);
    child = vfork();
    if (child == 0) {
        execl("/nothing", "nothing", NULL);
        value = errno;
        _exit(127);
    }
    puts(check_error(value));
    reap("child", child);
    PART("descriptors and signals are the child's own");
    int fd = MUST(open("/dev/null", O_RDONLY));
    child = vfork();
    if (child == 0) {
        close(fd);
        _exit(0);
    }
    reap("child", child);
    T(read(fd, &(char){0}, 1));
    PART("posix_spawn");
    char *arguments[] = {"sh", "-c", "echo $X; exit 3", NULL}, *environment[] = {"X=spawned", NULL};
    int failed = posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environment);
    reap("child", child);
    N(failed);
    N(posix_spawn(&child, "/nothing", NULL, NULL, arguments, environment) == ENOENT);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "out", O_CREAT | O_WRONLY, 0644);
    N(posix_spawnp(&child, "sh", &actions, NULL, arguments, environment));
    reap("child", child);
    show_file("out");
    PART("system and popen");
    fflush(stdout);
    status = system("echo in system; kill -9 $$");
    show_status("system", status);
    FILE *pipe = popen("echo one; echo two", "r");
    char line[16];
    while (fgets(line, sizeof line, pipe)) fputs(line, stdout);
    show_status("popen", pclose(pipe));
    return 0;
}

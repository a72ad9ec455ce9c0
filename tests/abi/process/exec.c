// execve: arguments, environment, what survives, scripts, and its errors.
#include "check.h"
#include <sys/prctl.h>

extern char **environ;
static char self[PATH_MAX];

static void run(const char *what, const char *path, char **arguments, char **environment) {
    pid_t child = MUST(fork());
    if (child == 0) {
        execve(path, arguments, environment);
        printf("%s: %s\n", what, check_error(errno));
        _exit(126);
    }
    reap(what, child);
}

int main(int argc, char **argv) {
    if (argc == 0 || (argv[0] && argv[0][0] == '+') || (argc > 1 && argv[1][0] == '+')) {
        printf("argc %d\n", argc);
        for (int i = 0; i < argc; i++) {
            // The program's own path differs between the host and a pod.
            if (argv[i][0] == '/' && strstr(argv[i], "/process/exec")) printf(" argument: this program\n");
            else printf(" argument %zu \"%.40s\"\n", strlen(argv[i]), argv[i]);
        }
        for (char **e = environ; *e; e++) printf(" environment \"%.40s\"\n", *e);
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        sigset_t blocked, pending;
        sigprocmask(SIG_BLOCK, NULL, &blocked);
        sigpending(&pending);
        printf(" SIGUSR1 %s", action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "default" : "?");
        sigaction(SIGUSR2, NULL, &action);
        printf(" SIGUSR2 %s", action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "default" : "?");
        printf(" blocked %d pending %d\n", sigismember(&blocked, SIGTERM), sigismember(&pending, SIGTERM));
        char name[16];
        prctl(PR_GET_NAME, name);
        printf(" name %s, descriptor 50: %s, 51: %s\n", name, fcntl(50, F_GETFD) < 0 ? "closed" : "open", fcntl(51, F_GETFD) < 0 ? "closed" : "open");
        return 17;
    }
    readlink("/proc/self/exe", self, PATH_MAX - 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    char *none[] = {NULL}, *plus[] = {"+", "b", "", "with space", NULL}, *env[] = {"A=1", "B=", "odd", NULL};
    run("plain", self, plus, env);
    run("no environment", self, plus, NULL);
    char *huge = malloc(100001);
    memset(huge, 'h', 100000);
    huge[100000] = 0;
    run("a long argument", self, (char *[]){"+", huge, NULL}, none);
    char *longest = malloc(131073);
    memset(longest, 'l', 131072);
    longest[131072] = 0;
    run("too long an argument", self, (char *[]){"+", longest, NULL}, none);
    longest[131071] = 0;
    run("just short enough", self, (char *[]){"+", longest, NULL}, none);
    PART("what survives");
    int fd = MUST(open("/dev/null", O_RDONLY));
    dup2(fd, 50);
    dup3(fd, 51, O_CLOEXEC);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, (void (*)(int))main);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pid_t child = MUST(fork());
    if (child == 0) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGTERM);
        execve(self, plus, none);
    }
    reap("signals", child);
    PART("scripts");
    char text[PATH_MAX + 64];
    sprintf(text, "#!%s +opt  with two \nbody\n", self);
    put_file("script", text);
    chmod("script", 0755);
    run("script", "./script", (char *[]){"zero", "one", NULL}, none);
    put_file("script2", "#! ./script\n");
    chmod("script2", 0755);
    run("script of a script", "./script2", (char *[]){"zero", "one", NULL}, none);
    put_file("loop", "#!./loop\n");
    chmod("loop", 0755);
    run("loop", "./loop", plus, none);
    put_file("no-interpreter", "#!/nothing/here\n");
    chmod("no-interpreter", 0755);
    run("no interpreter", "./no-interpreter", plus, none);
    put_file("empty-line", "#!\n");
    chmod("empty-line", 0755);
    run("empty line", "./empty-line", plus, none);
    put_file("text", "echo a plain text\n");
    chmod("text", 0755);
    run("text", "./text", plus, none);
    fflush(stdout);
    child = MUST(fork());
    if (child == 0) {
        execlp("./text", "text", NULL);
        _exit(1);
    }
    reap("text by execlp", child);
    PART("errors");
    run("missing", "./nothing", plus, none);
    run("empty path", "", plus, none);
    run("directory", "/", plus, none);
    put_file("not-executable", "x");
    run("not executable", "./not-executable", plus, none);
    run("below a file", "./text/x", plus, none);
    put_file("empty", "");
    chmod("empty", 0755);
    run("empty file", "./empty", plus, none);
    put_file("short", "\x7f" "ELF");
    chmod("short", 0755);
    run("cut ELF", "./short", plus, none);
    run("device", "/dev/null", plus, none);
    MUST(symlink("lloop", "lloop"));
    run("link loop", "lloop", plus, none);
    PART("by descriptor");
    fflush(stdout);
    child = MUST(fork());
    if (child == 0) {
        int mine = open(self, O_RDONLY | O_CLOEXEC);
        fexecve(mine, plus, none);
        _exit(1);
    }
    reap("fexecve", child);
    child = MUST(fork());
    if (child == 0) {
        int mine = open("script", O_RDONLY | O_CLOEXEC);
        fexecve(mine, plus, none);
        puts(check_error(errno));
        _exit(1);
    }
    reap("fexecve of a script, closed on exec", child);
    T(syscall(SYS_execveat, AT_FDCWD, "nothing", plus, none, 0x1));
    T(syscall(SYS_execveat, 99, "nothing", plus, none, 0));
    T(syscall(SYS_execveat, AT_FDCWD, "lloop", plus, none, AT_SYMLINK_NOFOLLOW));
    return 0;
}

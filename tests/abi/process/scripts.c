// Scripts and their interpreters, programs by descriptor: AT_EXECFN, the thread's name, depth, close-on-exec, errors in
// their order; AT_EXECVE_CHECK of execveat(2).
#include "check.h"
#include <sys/auxv.h>
#include <sys/prctl.h>

#define CHECK 0x10000

// By way of syscall(2), as compilers know what execve(2) reads.
#define EXECVE(...) syscall(SYS_execve, __VA_ARGS__)

static const char *last(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// What the program sees that is run in the end. Numbers of descriptors are left out.
static int shown(int argc, char **argv) {
    const char *given = (const char *)getauxval(AT_EXECFN);
    char name[17] = {0};
    prctl(PR_GET_NAME, name);
    printf("arguments:");
    for (int i = 0; i < argc; i++) printf(" [%s]", strncmp(argv[i], "/dev/fd/", 8) ? last(argv[i]) : "/dev/fd");
    bool number = name[0] >= '0' && name[0] <= '9';
    printf(", given %s, name %s\n",
           strncmp(given, "/dev/fd/", 8) ? given
           : strchr(given + 8, '/')      ? strchr(given + 8, '/')
                                         : "/dev/fd",
           number ? "a number" : name);
    return 0;
}

static void put(const char *name, const char *text, size_t size) {
    int fd = MUST(open(name, O_CREAT | O_WRONLY | O_TRUNC, 0755));
    MUST(write(fd, text, size));
    close(fd);
}

static void script(const char *name, const char *text) { put(name, text, strlen(text)); }

static char *arguments[] = {"zeroth", "one", NULL};
static char *environment[] = {"SHOW=1", NULL};

static void run(const char *what, const char *path) { CHILD(what, execve(path, arguments, environment); printf("%s\n", check_error(errno))); }

static void run_at(const char *what, int fd, const char *path, int flags) {
    CHILD(what, long result = syscall(SYS_execveat, fd, path, arguments, environment, flags); printf("%s\n", result ? check_error(errno) : "checked"));
}

static void copy(const char *from, int to) {
    static char bytes[65536];
    int fd = MUST(open(from, O_RDONLY));
    for (ssize_t n; (n = MUST(read(fd, bytes, sizeof bytes))) > 0;) MUST(write(to, bytes, n));
    close(fd);
}

int main(int argc, char **argv) {
    if (getenv("SHOW")) return shown(argc, argv);
    int program = MUST(open("program", O_CREAT | O_WRONLY, 0755));
    copy("/proc/self/exe", program);
    close(program);
    // If a call below runs this program by mistake, it ends at once.
    setenv("SHOW", "1", 1);

    PART("scripts");
    script("plain", "#!./program\n");
    run("plain", "./plain");
    script("argument", "#! ./program  a  b \n");
    run("argument", "./argument");
    script("no_newline", "#!./program");
    run("no newline", "./no_newline");
    script("empty", "#!\n");
    run("empty", "./empty");
    script("blank", "#!   \n");
    run("blank", "./blank");
    script("missing", "#!./nothing\n");
    run("missing interpreter", "./missing");
    script("directory", "#!.\n");
    run("directory as interpreter", "./directory");
    script("nested", "#!./plain x\n");
    run("nested", "./nested");
    script("tabs", "#!./program\ta\tb\t\n");
    run("tabs", "./tabs");
    put("zero", "#!./program\0tail\n", 17);
    run("zero byte", "./zero");
    script("refused", "#!./unexecutable\n");
    script("unexecutable", "#!./program\n");
    chmod("unexecutable", 0644);
    run("interpreter without permission", "./refused");
    symlink("plain", "link");
    run("link", "./link");
    script("s1", "#!./s2\n");
    script("s2", "#!./s3\n");
    script("s3", "#!./s4\n");
    script("s4", "#!./s5\n");
    script("s5", "#!./program\n");
    script("s0", "#!./s1\n");
    run("five deep", "./s1");
    run("six deep", "./s0");
    script("loop", "#!./loop\n");
    run("its own interpreter", "./loop");
    char text[400] = "#!./program ";
    memset(text + 12, 'x', 300);
    script("long", text);
    run("long argument", "./long");
    memset(text + 2, 'y', 300);
    script("long_name", text);
    run("long name", "./long_name");

    PART("other files");
    script("text", "text\n");
    run("text", "./text");
    script("nothing", "");
    unlink("nothing");
    script("zero_size", "");
    run("no content", "./zero_size");
    script("short", "\177ELF");
    run("short", "./short");
    run("without permission", "./unexecutable");
    run("directory", ".");
    run("device", "/dev/null");
    run("empty name", "");
    run("slash", "./plain/");

    PART("by descriptor");
    int here = MUST(open(".", O_RDONLY | O_DIRECTORY));
    int path = MUST(open("program", O_PATH));
    int closing = MUST(open("program", O_PATH | O_CLOEXEC));
    int text_fd = MUST(open("plain", O_RDONLY));
    int text_closing = MUST(open("plain", O_RDONLY | O_CLOEXEC));
    run_at("directory and name", here, "program", 0);
    run_at("descriptor", path, "", AT_EMPTY_PATH);
    run_at("descriptor that closes", closing, "", AT_EMPTY_PATH);
    run_at("script", text_fd, "", AT_EMPTY_PATH);
    run_at("script that closes", text_closing, "", AT_EMPTY_PATH);
    run_at("script by name", here, "plain", 0);
    run_at("link not followed", here, "link", AT_SYMLINK_NOFOLLOW);
    run_at("no flag", path, "", 0);
    run_at("bad flag", here, "program", 1);
    run_at("bad descriptor", 99, "", AT_EMPTY_PATH);
    run_at("name in no directory", path, "program", 0);
    run_at("directory itself", here, "", AT_EMPTY_PATH);
    int memory = MUST(syscall(SYS_memfd_create, "memory", 0));
    copy("program", memory);
    run_at("in memory", memory, "", AT_EMPTY_PATH);
    memory = MUST(syscall(SYS_memfd_create, "script", 0));
    MUST(write(memory, "#!./program\n", 12));
    run_at("script in memory", memory, "", AT_EMPTY_PATH);

    PART("only checked");
    run_at("program", here, "program", CHECK);
    run_at("script", here, "plain", CHECK);
    run_at("no program", here, "text", CHECK);
    run_at("without permission", here, "unexecutable", CHECK);
    run_at("descriptor", path, "", AT_EMPTY_PATH | CHECK);
    run_at("directory", here, ".", CHECK);
    run_at("no such file", here, "nobody", CHECK);
    run_at("interpreter is missing", here, "missing", CHECK);
    run_at("device", AT_FDCWD, "/dev/null", CHECK);
    T(syscall(SYS_execveat, here, "program", BAD, NULL, CHECK));
    T(syscall(SYS_execveat, here, "program", NULL, BAD, CHECK));
    T(syscall(SYS_execveat, here, "program", NULL, NULL, CHECK));
    T(syscall(SYS_execveat, here, "", NULL, NULL, CHECK));
    int writer = MUST(open("program", O_WRONLY));
    run_at("open for writing", here, "program", CHECK);
    run("program that is written", "./program");
    run("script whose interpreter is written", "./plain");
    close(writer);

    PART("arguments");
    CHILD("none", execve("./program", NULL, environment); puts(check_error(errno)));
    CHILD("empty", execve("./program", (char *[]){NULL}, environment); puts(check_error(errno)));
    CHILD("empty, script", execve("./plain", (char *[]){NULL}, environment); puts(check_error(errno)));
    T(EXECVE("./nobody", BAD, BAD));
    T(EXECVE("./unexecutable", BAD, BAD));
    T(EXECVE("./text", BAD, BAD));
    T(EXECVE("./program", (char *[]){BAD, NULL}, NULL));
    T(EXECVE("./program", NULL, BAD));
    return 0;
}

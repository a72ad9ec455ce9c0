// mkdir, rmdir, chdir, getcwd and listing.
#include "check.h"
#include <dirent.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

static void list(const char *name) {
    DIR *dir = opendir(name);
    if (!dir) {
        printf("%s: %s\n", name, check_error(errno));
        return;
    }
    char *names[64];
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)) && count < 64)
        asprintf(&names[count++], "%s(%d)", entry->d_name, entry->d_type);
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    printf("%s:", name);
    for (int i = 0; i < count; i++) printf(" %s", names[i]);
    puts("");
}

int main(void) {
    char start[PATH_MAX], buffer[PATH_MAX];
    MUST(getcwd(start, sizeof start) ? 0 : -1);
    umask(022);
    T(mkdir("a", 0777));
    T(mkdir("a", 0777));
    T(mkdir("a/b", 0700));
    T(mkdir("a/b/", 0700));
    T(mkdir("a/c/", 0700));
    T(mkdir("a/./d", 0700));
    T(mkdir("x/y", 0700));
    T(mkdir("", 0700));
    T(mkdir(".", 0700));
    T(mkdir("..", 0700));
    T(mkdir("/", 0700));
    T(mkdir("a/b/..", 0700));
    put_file("f", "x");
    T(mkdir("f", 0700));
    T(mkdir("f/g", 0700));
    T(mkdirat(99, "g", 0700));
    T(syscall(SYS_mkdir, BAD, 0700));
    MUST(symlink("a", "la"));
    MUST(symlink("nowhere", "dangling"));
    T(mkdir("dangling", 0700));
    T(mkdir("la/e", 0700));
    struct stat st;
    T(mkdir("sticky", 07777));
    stat("sticky", &st);
    printf("%o\n", st.st_mode);
    list(".");
    list("a");
    list("la");
    list("f");
    list("nothing");
    PART("rmdir");
    T(rmdir("a"));
    T(rmdir("a/b"));
    T(rmdir("a/c/"));
    T(rmdir("a/d/."));
    T(rmdir("a/d/.."));
    T(rmdir("."));
    T(rmdir(".."));
    T(rmdir("/"));
    T(rmdir("f"));
    T(rmdir("la"));
    T(rmdir("la/"));
    T(rmdir("nothing"));
    T(rmdir(""));
    T(unlink("a"));
    T(unlink("a/d"));
    T(unlinkat(AT_FDCWD, "a/d", AT_REMOVEDIR));
    T(unlinkat(AT_FDCWD, "f", AT_REMOVEDIR));
    T(unlinkat(AT_FDCWD, "f", 0x1));
    list("a");
    PART("chdir");
    T(chdir("f"));
    T(chdir("nothing"));
    T(chdir(""));
    T(syscall(SYS_chdir, BAD));
    T(chdir("la/e"));
    getcwd(buffer, sizeof buffer);
    YES(strncmp(buffer, start, strlen(start)) == 0);
    puts(buffer + strlen(start));
    T(chdir("../.."));
    getcwd(buffer, sizeof buffer);
    YES(strcmp(buffer, start) == 0);
    N(syscall(SYS_getcwd, buffer, sizeof buffer) == (long)strlen(start) + 1);
    T(syscall(SYS_getcwd, buffer, 1));
    T(syscall(SYS_getcwd, buffer, 0));
    T(syscall(SYS_getcwd, BAD, 4096));
    T(chdir("/"));
    T(syscall(SYS_getcwd, buffer, 2));
    T(chdir(".."));
    getcwd(buffer, sizeof buffer);
    puts(buffer);
    T(fchdir(99));
    MUST(chdir(start));
    PART("a removed working directory");
    MUST(mkdir("gone", 0755));
    MUST(chdir("gone"));
    T(rmdir("../gone"));
    T(open("new", O_CREAT | O_WRONLY, 0644));
    T(mkdir("new", 0755));
    T(syscall(SYS_getcwd, buffer, sizeof buffer));
    T(stat(".", &st));
    N(st.st_nlink);
    list(".");
    T(chdir(".."));
    getcwd(buffer, sizeof buffer);
    YES(strcmp(buffer, start) == 0);
    return 0;
}

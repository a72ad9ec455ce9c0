// How paths are walked: slashes, dots, links in the middle, the ends of names.
#include "check.h"

int main(void) {
    struct stat st;
    char name[NAME_MAX + 2];
    MUST(mkdir("a", 0755));
    MUST(mkdir("a/b", 0755));
    put_file("a/b/f", "f");
    MUST(symlink("b", "a/lb"));
    MUST(symlink("b/", "a/lbs"));
    MUST(symlink("b/f", "a/lf"));
    MUST(symlink("b/f/", "a/lfs"));
    MUST(symlink("./../a/./b/../lb", "a/twisted"));
    char *cwd = getcwd(NULL, 0), *absolute;
    asprintf(&absolute, "%s/a/b", cwd);
    MUST(symlink(absolute, "abs"));
    T(stat("a//b///f", &st));
    T(stat("./a/./b/./f", &st));
    T(stat("a/b/../b/../../a/b/f", &st));
    T(stat("a/b/f/", &st));
    T(stat("a/b/f/.", &st));
    T(stat("a/b/f/..", &st));
    T(stat("a/lb/f", &st));
    T(stat("a/lbs/f", &st));
    T(stat("a/lf", &st));
    T(stat("a/lf/", &st));
    T(stat("a/lfs", &st));
    T(lstat("a/lb", &st));
    YES(S_ISLNK(st.st_mode));
    T(lstat("a/lb/", &st));
    YES(S_ISDIR(st.st_mode));
    T(lstat("a/lb/.", &st));
    YES(S_ISDIR(st.st_mode));
    T(stat("a/twisted/f", &st));
    T(stat("abs/f", &st));
    T(stat("abs/../lb/f", &st));
    T(stat("a/lb/../lf", &st));
    T(stat("/", &st));
    T(stat("//", &st));
    T(stat("/..", &st));
    T(stat("/../../tmp", &st));
    T(stat("a/b/nothing/..", &st));
    T(stat("a/missing/../b", &st));
    T(mkdir("a/b/new/.", 0755));
    T(rmdir("a/b/."));
    T(unlink("a/lbs/"));
    T(unlink("a/lb/f/"));
    T(mknod("a/node/", S_IFREG | 0644, 0));
    PART("long names");
    memset(name, 'n', sizeof name);
    name[NAME_MAX] = 0;
    OK(open(name, O_CREAT | O_WRONLY, 0644));
    T(stat(name, &st));
    T(rename(name, "short"));
    T(rename("short", name));
    T(unlink(name));
    name[NAME_MAX] = 'n';
    name[NAME_MAX + 1] = 0;
    T(stat(name, &st));
    T(mkdir(name, 0755));
    T(symlink("x", name));
    T(unlink(name));
    PART("unusual names");
    T(mkdir("sp ace", 0755));
    T(mkdir("new\nline", 0755));
    T(mkdir("\xff\xfe", 0755));
    T(mkdir("...", 0755));
    T(rmdir("..."));
    T(stat("\xff\xfe/../new\nline", &st));
    PART("depth");
    int depth = 0;
    while (depth < 300 && mkdir("deeper", 0755) == 0 && chdir("deeper") == 0) depth++;
    N(depth);
    char *deep = getcwd(NULL, 0);
    N(strlen(deep) - strlen(cwd));
    T(chdir(deep));
    while (depth-- > 0) {
        MUST(chdir(".."));
        MUST(rmdir("deeper"));
    }
    YES(strcmp(getcwd(NULL, 0), cwd) == 0);

    PART("a long way down");
    char long_name[251] = "", place[8192];
    memset(long_name, 'n', 250);
    for (int i = 0; i < 20; i++) {
        MUST(mkdir(long_name, 0755));
        MUST(chdir(long_name));
    }
    T(syscall(SYS_getcwd, place, sizeof place));
    T(syscall(SYS_getcwd, place, 10));
    for (int i = 0; i < 20; i++) {
        MUST(chdir(".."));
        MUST(rmdir(long_name));
    }
    return 0;
}

// Thousands of pseudo-random operations on a small tree of names: each result must be the same.
#include "check.h"
#include <dirent.h>
#include <linux/fs.h>

static uint64_t state = 12345;
static unsigned pick(unsigned limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

// A path of one to four components out of few names, sometimes odd.
static const char *path(char *buffer) {
    static const char *names[] = {"a", "b", "c", "d", ".", "..", "a", "b"};
    *buffer = 0;
    int depth = 1 + pick(3);
    // Never climb out of the start: at most as many ".." as names before them.
    int level = 0;
    for (int i = 0; i < depth; i++) {
        unsigned choice = pick(COUNT(names));
        if (choice == 5 && level == 0) choice = 0;
        level += choice == 5 ? -1 : choice == 4 ? 0 : 1;
        if (i) strcat(buffer, "/");
        strcat(buffer, names[choice]);
    }
    if (pick(20) == 0) strcat(buffer, "/");
    return buffer;
}

static void tree(const char *name, int depth) {
    struct stat st;
    if (lstat(name, &st)) return;
    char target[256] = {0};
    if (S_ISLNK(st.st_mode)) readlink(name, target, 255);
    printf("%*s%s %o links %d size %lld %s\n", depth, "", name, st.st_mode, S_ISDIR(st.st_mode) ? (int)st.st_nlink : (int)st.st_nlink,
           S_ISDIR(st.st_mode) ? 0LL : (long long)st.st_size, target);
    if (!S_ISDIR(st.st_mode)) return;
    struct dirent **list;
    int count = scandir(name, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (list[i]->d_name[0] == '.') continue;
        char inner[PATH_MAX];
        snprintf(inner, sizeof inner, "%s/%s", name, list[i]->d_name);
        tree(inner, depth + 1);
    }
}

int main(void) {
    umask(022);
    MUST(mkdir("top", 0755));
    MUST(chdir("top"));
    char p[256], q[256];
    for (int i = 0; i < 6000; i++) {
        long result;
        const char *what;
        struct stat st;
        int fd;
        errno = 0;
        path(p);
        path(q);
        switch (pick(17)) {
        case 0: case 1: what = "mkdir"; result = mkdir(p, 0755); break;
        case 2: what = "rmdir"; result = rmdir(p); break;
        case 3: what = "unlink"; result = unlink(p); break;
        case 4: case 5: what = "rename"; result = rename(p, q); break;
        case 6: what = "link"; result = link(p, q); break;
        case 7: what = "symlink"; result = symlink(p, q); break;
        case 8: what = "exchange"; result = syscall(SYS_renameat2, AT_FDCWD, p, AT_FDCWD, q, RENAME_EXCHANGE); break;
        case 9: what = "noreplace"; result = syscall(SYS_renameat2, AT_FDCWD, p, AT_FDCWD, q, RENAME_NOREPLACE); break;
        case 10: case 11:
            what = "create";
            result = fd = open(p, O_CREAT | O_WRONLY | (pick(3) ? 0 : O_EXCL), 0644);
            if (fd >= 0) {
                result = write(fd, q, strlen(q));
                close(fd);
            }
            break;
        case 12:
            what = "read";
            result = fd = open(p, O_RDONLY | (pick(4) ? 0 : O_NOFOLLOW) | (pick(4) ? 0 : O_DIRECTORY));
            if (fd >= 0) {
                char buffer[256];
                result = read(fd, buffer, 256);
                close(fd);
            }
            break;
        case 13: what = "stat"; result = stat(p, &st); if (!result) result = st.st_mode; break;
        case 14: what = "lstat"; result = lstat(p, &st); if (!result) result = st.st_mode; break;
        case 15: what = "readlink"; result = readlink(p, q, sizeof q); break;
        default: what = "truncate"; result = truncate(p, pick(100)); break;
        }
        printf("%d %s %s %s: %s %ld\n", i, what, p, what[0] == 'r' && what[1] == 'e' && what[2] == 'n' ? q : "", result < 0 ? check_error(errno) : "ok", result < 0 ? 0 : result);
        if (i % 1000 == 999) tree(".", 0);
    }
    return 0;
}

// Limits of tmpfs: tmpfs(5).
#include "../check.h"
#include <sys/mount.h>
#include <sys/statfs.h>

static void counts(const char *when) {
    struct statfs s;
    MUST(statfs("t", &s));
    printf("%s: blocks %ld of %ld free, files %ld of %ld free\n", when, (long)s.f_bfree, (long)s.f_blocks, (long)s.f_ffree, (long)s.f_files);
}

static long fill(const char *name) {
    char block[4096] = {1};
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    long all = 0, n;
    while ((n = write(fd, block, sizeof block)) > 0)
        all += n;
    int error = errno;
    close(fd);
    errno = error;
    printf("%s: %ld bytes, then %s\n", name, all, check_error(error));
    return all;
}

static int make(const char *name) {
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

// The limits as the table of mounts shows them.
static void shown(void) {
    char line[512];
    FILE *f = fopen("/proc/self/mounts", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *at = strstr(line, "/t tmpfs ");
        for (char *word = at ? strtok(at, " ,\n") : NULL; word; word = strtok(NULL, " ,\n"))
            if (strncmp(word, "size=", 5) == 0)
                puts(word);
    }
    rewind(f);
    while (f && fgets(line, sizeof line, f)) {
        char *at = strstr(line, "/t tmpfs "), *files = at ? strstr(at, "nr_inodes=") : NULL;
        if (files)
            printf("%.11s\n", files);
    }
    fclose(f);
}

int main(void) {
    MUST(unshare(CLONE_NEWNS));
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mkdir("t", 0700));

    puts("-- size");
    OK(mount("x", "t", "tmpfs", 0, "size=64k,mode=750,uid=12,gid=34"));
    struct stat st;
    MUST(stat("t", &st));
    printf("%o %d %d\n", st.st_mode, st.st_uid, st.st_gid);
    struct statfs s;
    MUST(statfs("t", &s));
    printf("blocks %ld of %ld free\n", (long)s.f_bfree, (long)s.f_blocks);
    T(fill("t/a"));
    T(truncate("t/a", 8192));
    T(fill("t/b"));
    T(mount("x", "t", NULL, MS_REMOUNT, "size=32k"));
    OK(mount("x", "t", NULL, MS_REMOUNT, "size=128k"));
    T(fill("t/c"));
    OK(unlink("t/b"));
    OK(unlink("t/c"));
    OK(mount("x", "t", NULL, MS_REMOUNT, "size=16k"));
    T(fill("t/d"));
    shown();
    T(mount("x", "t", NULL, MS_REMOUNT, "size=x"));
    OK(umount("t"));

    puts("-- files");
    OK(mount("x", "t", "tmpfs", 0, "size=1m,nr_inodes=5"));
    counts("empty");
    T(make("t/1"));
    T(mkdir("t/2", 0700));
    T(symlink("a target", "t/3"));
    counts("three");
    T(mkfifo("t/2/4", 0600));
    T(make("t/5"));
    T(mkdir("t/5", 0700));
    T(open("t", O_TMPFILE | O_RDWR, 0600));
    counts("full");
    T(rename("t/1", "t/2/1"));
    T(unlink("t/2/4"));
    counts("one less");
    T(make("t/5"));
    T(mount("x", "t", NULL, MS_REMOUNT, "nr_inodes=4"));
    OK(mount("x", "t", NULL, MS_REMOUNT, "nr_inodes=6"));
    T(make("t/6"));
    T(make("t/7"));
    shown();
    OK(umount("t"));

    puts("-- percent and blocks");
    OK(mount("x", "t", "tmpfs", 0, "nr_blocks=3"));
    T(fill("t/a"));
    return 0;
}

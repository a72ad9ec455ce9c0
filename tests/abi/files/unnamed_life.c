// Files without a name, and files that lost it: what an open descriptor still reaches.
#include "check.h"
#include <sys/xattr.h>

static void about(int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    const char *mtime = st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 6 ? "as set" : "another";
    printf("  mode %o links %lu size %ld mtime %s\n", st.st_mode, (unsigned long)st.st_nlink, (long)st.st_size, mtime);
}

static void use(int fd) {
    struct timespec times[2] = {{1000, 5}, {2000, 6}};
    char buffer[32] = "";
    T(fchmod(fd, 0640));
    T(futimens(fd, times));
    about(fd);
    T(fsetxattr(fd, "user.x", "value", 5, 0));
    T(fgetxattr(fd, "user.x", buffer, sizeof buffer));
    puts(buffer);
    T(flistxattr(fd, buffer, sizeof buffer));
    puts(buffer);
    T(fremovexattr(fd, "user.x"));
    T(fgetxattr(fd, "user.x", buffer, sizeof buffer));
    T(pwrite(fd, "content", 7, 0));
    T(ftruncate(fd, 5));
    T(fchown(fd, getuid(), getgid()));
    T(futimens(fd, times));
    about(fd);
    T(fsync(fd));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    YES(map != MAP_FAILED);
    map[0] = 'C';
    T(pread(fd, buffer, 5, 0));
    printf("%.5s\n", buffer);
    munmap(map, 4096);
}

int main(void) {
    umask(0);
    char path[64];
    PART("made without a name");
    MUST(mkdir("d", 0755));
    int fd = MUST(open("d", O_TMPFILE | O_RDWR, 0604));
    about(fd);
    use(fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    T(linkat(AT_FDCWD, path, AT_FDCWD, "d/named", AT_SYMLINK_FOLLOW));
    about(fd);
    show_file("d/named");
    T(linkat(AT_FDCWD, path, AT_FDCWD, "d/second", AT_SYMLINK_FOLLOW));
    about(fd);
    use(fd);
    PART("its names are taken again");
    T(unlink("d/named"));
    T(unlink("d/second"));
    about(fd);
    use(fd);
    T(linkat(AT_FDCWD, path, AT_FDCWD, "d/third", AT_SYMLINK_FOLLOW));
    close(fd);
    PART("removed while open");
    fd = MUST(open("d/f", O_CREAT | O_RDWR, 0600));
    MUST(unlink("d/f"));
    use(fd);
    close(fd);
    PART("replaced while open");
    fd = MUST(open("d/f", O_CREAT | O_RDWR, 0600));
    put_file("d/g", "other");
    MUST(rename("d/g", "d/f"));
    use(fd);
    show_file("d/f");
    close(fd);
    PART("many");
    int all[100];
    for (int i = 0; i < 100; i++) {
        all[i] = MUST(open("d", O_TMPFILE | O_RDWR, 0600));
        dprintf(all[i], "%d", i);
    }
    int wrong = 0;
    for (int i = 0; i < 100; i++) {
        char text[8] = "", name[16];
        MUST(pread(all[i], text, 7, 0));
        wrong += atoi(text) != i;
        snprintf(path, sizeof path, "/proc/self/fd/%d", all[i]);
        snprintf(name, sizeof name, "d/n%d", i);
        if (i % 3 == 0) wrong += linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0;
        close(all[i]);
    }
    N(wrong);
    show_file("d/n99");
    T(access("d/n98", F_OK));
    fd = MUST(open("d", O_TMPFILE | O_RDWR | O_EXCL, 0600));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    T(linkat(AT_FDCWD, path, AT_FDCWD, "d/never", AT_SYMLINK_FOLLOW));
    T(write(fd, "x", 1));
    return 0;
}

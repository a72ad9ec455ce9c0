// inotify and dnotify in the corners: order, coalescing, overflow, fdinfo, numbers of watches, removed and moved things.
#include "check.h"
#include <sys/inotify.h>

#ifndef IN_MASK_CREATE
#define IN_MASK_CREATE 0x10000000
#endif

static char buffer[1 << 16];
static int in;
static uint32_t cookies[64];
static int cookie_count;

static int cookie(uint32_t value) {
    if (!value) return 0;
    for (int i = 0; i < cookie_count; i++)
        if (cookies[i] == value) return i + 1;
    cookies[cookie_count++] = value;
    return cookie_count;
}
static void show(const char *what) {
    ssize_t n = read(in, buffer, sizeof buffer);
    printf("%s:", what);
    if (n < 0) printf(" %s", check_error(errno));
    for (ssize_t at = 0; at < n;) {
        struct inotify_event *e = (void *)(buffer + at);
        printf(" [%d %#x", e->wd, e->mask);
        if (e->cookie) printf(" cookie %d", cookie(e->cookie));
        if (e->len) printf(" %s/%u", e->name, e->len);
        printf("]");
        at += sizeof *e + e->len;
    }
    puts("");
}
static void fdinfo(void) {
    char path[64], line[512];
    sprintf(path, "/proc/self/fdinfo/%d", in);
    FILE *f = fopen(path, "r");
    int count = 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "inotify", 7)) continue;
        int wd;
        unsigned long ino, dev;
        unsigned mask, ignored;
        int fields = sscanf(line, "inotify wd:%x ino:%lx sdev:%lx mask:%x ignored_mask:%x", &wd, &ino, &dev, &mask, &ignored);
        printf("fdinfo %d: fields %d wd %d mask %#x ignored %#x\n", count++, fields, wd, mask, ignored);
    }
    fclose(f);
}
static void touch(const char *name) { close(MUST(open(name, O_CREAT | O_WRONLY, 0644))); }

static volatile int told;
static void count(int number) {
    (void)number;
    told++;
}

int main(void) {
    in = MUST(inotify_init1(IN_NONBLOCK));
    MUST(mkdir("d", 0755));
    PART("order");
    T(inotify_add_watch(in, "d", IN_ALL_EVENTS));
    touch("d/a");
    show("created");
    int fd = MUST(open("d/a", O_RDWR));
    MUST(write(fd, "x", 1));
    MUST(write(fd, "x", 1));
    MUST(write(fd, "x", 1));
    MUST(pread(fd, buffer, 1, 0));
    MUST(pread(fd, buffer, 1, 0));
    MUST(write(fd, "x", 1));
    MUST(ftruncate(fd, 1));
    MUST(fchmod(fd, 0600));
    MUST(fchmod(fd, 0644));
    close(fd);
    show("coalesced");
    MUST(rename("d/a", "d/b"));
    show("renamed");
    MUST(rename("d/b", "out"));
    MUST(rename("out", "d/in"));
    show("out and in");
    MUST(link("d/in", "d/link"));
    MUST(symlink("x", "d/sym"));
    MUST(unlink("d/in"));
    MUST(mkdir("d/sub", 0755));
    MUST(rmdir("d/sub"));
    show("links and directories");
    touch("d/x"), touch("d/y");
    syscall(SYS_renameat2, AT_FDCWD, "d/x", AT_FDCWD, "d/y", 2);
    show("exchanged");
    PART("adding and changing watches");
    T(inotify_add_watch(in, "d", IN_CREATE));
    T(inotify_add_watch(in, "d", IN_CREATE | IN_MASK_CREATE));
    T(inotify_add_watch(in, "d", IN_DELETE | IN_MASK_ADD));
    fdinfo();
    T(inotify_add_watch(in, "d", IN_DELETE | IN_MASK_ADD | IN_MASK_CREATE));
    T(inotify_add_watch(in, "d/x", IN_ONLYDIR | IN_OPEN));
    T(inotify_add_watch(in, "d/sym", IN_DONT_FOLLOW | IN_ATTRIB));
    T(inotify_add_watch(in, "d/sym", IN_ATTRIB));
    T(inotify_add_watch(in, "none", IN_ATTRIB));
    T(inotify_add_watch(in, "d", 0));
    T(inotify_add_watch(in, "d", IN_ONESHOT));
    T(inotify_add_watch(in, "d", IN_IGNORED));
    T(inotify_add_watch(in, "d", 0x80000));
    T(inotify_add_watch(0, "d", IN_OPEN));
    T(inotify_add_watch(99, "d", IN_OPEN));
    T(inotify_add_watch(in, BAD, IN_OPEN));
    T(inotify_rm_watch(in, 99));
    T(inotify_rm_watch(in, 2));
    show("removed");
    T(inotify_init1(1));
    PART("one shot");
    touch("d/z");
    show("first");
    touch("d/zz");
    show("second");
    fdinfo();
    PART("numbers are not used again at once");
    int w = T(inotify_add_watch(in, "d", IN_OPEN));
    T(inotify_rm_watch(in, w));
    w = T(inotify_add_watch(in, "d", IN_OPEN));
    show("ignored");
    MUST(inotify_rm_watch(in, w));
    show("ignored");
    PART("the watched file itself");
    touch("f");
    w = T(inotify_add_watch(in, "f", IN_ALL_EVENTS));
    fd = MUST(open("f", O_RDONLY));
    MUST(rename("f", "g"));
    show("moved");
    MUST(unlink("g"));
    show("unlinked, open");
    close(fd);
    show("gone");
    T(inotify_rm_watch(in, w));
    MUST(mkdir("e", 0755));
    w = T(inotify_add_watch(in, "e", IN_ALL_EVENTS));
    MUST(rename("e", "h"));
    touch("h/inside");
    show("a moved directory");
    MUST(unlink("h/inside"));
    MUST(rmdir("h"));
    show("removed");
    PART("IN_EXCL_UNLINK");
    w = T(inotify_add_watch(in, "d", IN_MODIFY | IN_CLOSE | IN_EXCL_UNLINK));
    fd = MUST(open("d/x", O_RDWR));
    MUST(write(fd, "1", 1));
    MUST(unlink("d/x"));
    MUST(write(fd, "2", 1));
    close(fd);
    show("silent after unlink");
    MUST(inotify_rm_watch(in, w));
    w = T(inotify_add_watch(in, "d", IN_MODIFY | IN_CLOSE));
    fd = MUST(open("d/y", O_RDWR));
    MUST(unlink("d/y"));
    MUST(write(fd, "2", 1));
    close(fd);
    show("not without it");
    MUST(inotify_rm_watch(in, w));
    show("ignored");
    PART("small buffers");
    w = MUST(inotify_add_watch(in, "d", IN_CREATE));
    touch("d/a-name-of-some-length");
    T(ioctl(in, FIONREAD, &w));
    N(w);
    T(read(in, buffer, 16));
    T(read(in, buffer, 47));
    T(read(in, buffer, 48));
    T(read(in, buffer, 48));
    T(write(in, buffer, 1));
    PART("overflow");
    int limit = 0;
    FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    if (f) fscanf(f, "%d", &limit), fclose(f);
    YES(limit >= 1024 && limit <= 1 << 20);
    for (int i = 0; i < limit + 10; i++) {
        char name[32];
        sprintf(name, "d/n%d", i % 2);
        touch(name);
        unlink(name);
    }
    long total = 0, overflows = 0, last = 0;
    for (ssize_t n; (n = read(in, buffer, sizeof buffer)) > 0;)
        for (ssize_t at = 0; at < n;) {
            struct inotify_event *e = (void *)(buffer + at);
            total++;
            last = e->mask;
            if (e->mask & IN_Q_OVERFLOW) overflows++, printf("overflow: wd %d length %u cookie %u\n", e->wd, e->len, e->cookie);
            at += sizeof *e + e->len;
        }
    YES(total == limit + 1 || total == limit);
    N(overflows);
    N(last & IN_Q_OVERFLOW);
    touch("d/after");
    show("after an overflow");
    close(in);
    PART("dnotify");
    signal(SIGIO, count);
    int d = MUST(open("d", O_RDONLY));
    T(fcntl(d, F_NOTIFY, DN_CREATE));
    touch("d/one");
    N(told);
    touch("d/two");
    N(told);
    T(fcntl(d, F_NOTIFY, DN_CREATE | DN_DELETE | DN_MULTISHOT));
    touch("d/three");
    unlink("d/three");
    N(told);
    MUST(rename("d/one", "d/ren"));
    N(told);
    T(fcntl(d, F_NOTIFY, DN_RENAME | DN_MULTISHOT));
    MUST(rename("d/ren", "d/one"));
    N(told);
    MUST(chmod("d/one", 0600));
    N(told);
    T(fcntl(d, F_NOTIFY, DN_ATTRIB | DN_MODIFY | DN_ACCESS));
    MUST(chmod("d/one", 0644));
    N(told);
    T(fcntl(d, F_NOTIFY, 0));
    touch("d/four");
    N(told);
    T(fcntl(MUST(open("d/one", O_RDONLY)), F_NOTIFY, DN_ACCESS));
    T(fcntl(d, F_SETSIG, SIGUSR1));
    signal(SIGUSR1, count);
    T(fcntl(d, F_NOTIFY, DN_CREATE));
    touch("d/five");
    N(told);
    close(d);
    touch("d/six");
    N(told);
    return 0;
}

// inotify(7): which events happen, in which order, and what their reader gets.
#include "check.h"
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>

static const struct {
    uint32_t bit;
    const char *name;
} BITS[] = {
    {IN_ACCESS, "ACCESS"},
    {IN_MODIFY, "MODIFY"},
    {IN_ATTRIB, "ATTRIB"},
    {IN_CLOSE_WRITE, "CLOSE_WRITE"},
    {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"},
    {IN_OPEN, "OPEN"},
    {IN_MOVED_FROM, "MOVED_FROM"},
    {IN_MOVED_TO, "MOVED_TO"},
    {IN_CREATE, "CREATE"},
    {IN_DELETE, "DELETE"},
    {IN_DELETE_SELF, "DELETE_SELF"},
    {IN_MOVE_SELF, "MOVE_SELF"},
    {IN_UNMOUNT, "UNMOUNT"},
    {IN_Q_OVERFLOW, "Q_OVERFLOW"},
    {IN_IGNORED, "IGNORED"},
    {IN_ISDIR, "ISDIR"},
};

static int in;

// Prints all events that wait. Cookies are shown by their order.
static void events(void) {
    static char buf[65536] __attribute__((aligned(8)));
    static uint32_t cookies[64];
    static int known;
    ssize_t n;
    while ((n = read(in, buf, sizeof buf)) > 0) {
        for (char *at = buf; at < buf + n;) {
            struct inotify_event *event = (void *)at;
            printf("  wd %d:", event->wd);
            for (size_t i = 0; i < COUNT(BITS); i++)
                if (event->mask & BITS[i].bit)
                    printf(" %s", BITS[i].name);
            if (event->cookie) {
                int i = 0;
                while (i < known && cookies[i] != event->cookie)
                    i++;
                if (i == known)
                    cookies[known++] = event->cookie;
                printf(" cookie %d", i);
            }
            if (event->len)
                printf(" %s (%u)", event->name, event->len);
            puts("");
            at += sizeof *event + event->len;
        }
    }
    if (n < 0 && errno != EAGAIN)
        puts(check_error(errno));
}

#define DO(call) (OK(call), events())

int main(void) {
    char buf[300] = {0};
    int available;
    void *volatile bad = BAD;
    PART("arguments");
    T(inotify_init1(0x1234));
    in = MUST(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    T(fcntl(in, F_GETFD));
    YES((fcntl(in, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_NONBLOCK);
    T(inotify_add_watch(in, ".", 0));
    T(inotify_add_watch(-1, ".", IN_OPEN));
    T(inotify_add_watch(0, ".", IN_OPEN));
    T(inotify_add_watch(in, "missing", IN_OPEN));
    T(inotify_add_watch(in, "", IN_OPEN));
    T(inotify_add_watch(in, BAD, IN_OPEN));
    T(inotify_add_watch(in, ".", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
    T(inotify_rm_watch(in, 1));
    T(inotify_rm_watch(-1, 1));
    T(read(in, buf, sizeof buf));
    T(write(in, buf, 1));
    put_file("plain", "text");
    T(inotify_add_watch(in, "plain", IN_OPEN | IN_ONLYDIR));
    MUST(symlink("plain", "link"));

    PART("a directory");
    MUST(mkdir("dir", 0755));
    int dir = T(inotify_add_watch(in, "dir", IN_ALL_EVENTS));
    T(inotify_add_watch(in, "dir", IN_ALL_EVENTS | IN_MASK_CREATE));
    T(inotify_add_watch(in, "dir/.", IN_ALL_EVENTS));
    int fd = OK(open("dir/file", O_RDWR | O_CREAT, 0644));
    events();
    DO(write(fd, "hello", 5));
    DO(write(fd, "", 0));
    DO(pread(fd, buf, 5, 0));
    DO(pread(fd, buf, 5, 5));
    DO(write(fd, "a", 1) + write(fd, "b", 1));
    DO(ftruncate(fd, 3));
    DO(fchmod(fd, 0600));
    DO(fchown(fd, -1, getgid()));
    DO(futimens(fd, NULL));
    struct timespec only[2] = {{0, UTIME_OMIT}, {5, 0}};
    DO(futimens(fd, only));
    only[0] = (struct timespec){5, 0};
    only[1].tv_nsec = UTIME_OMIT;
    DO(futimens(fd, only));
    DO(fallocate(fd, 0, 0, 100));
    DO(close(fd));
    DO(truncate("dir/file", 10));
    fd = OK(open("dir/file", O_RDONLY));
    events();
    int to = MUST(open("plain", O_RDWR));
    DO(sendfile(to, fd, NULL, 10));
    DO(lseek(fd, 0, SEEK_SET));
    DO(close(fd));
    DO(access("dir/file", R_OK));
    DO(link("dir/file", "dir/second"));
    DO(symlink("file", "dir/symlink"));
    DO(mkdir("dir/sub", 0755));
    DO(mknod("dir/fifo", S_IFIFO | 0600, 0));
    fd = OK(open("dir/fifo", O_RDWR));
    events();
    DO(close(fd));
    fd = OK(open("dir", O_RDONLY | O_DIRECTORY));
    events();
    while (syscall(SYS_getdents64, fd, buf, sizeof buf) > 0)
        ;
    events();
    DO(close(fd));
    DO(chmod("dir", 0700));
    DO(rename("dir/second", "dir/third"));
    DO(rename("dir/third", "outside"));
    DO(rename("outside", "dir/fourth"));
    DO(rename("dir/fourth", "dir/file"));
    DO(renameat2(AT_FDCWD, "dir/symlink", AT_FDCWD, "dir/sub", 2));
    DO(unlink("dir/fourth"));
    DO(unlink("dir/sub"));
    DO(rmdir("dir/symlink"));
    DO(unlink("dir/fifo"));
    DO(unlink("dir/missing"));

    PART("a file and its directory");
    int file = T(inotify_add_watch(in, "dir/file", IN_ALL_EVENTS));
    fd = OK(open("dir/file", O_WRONLY));
    events();
    DO(write(fd, "more", 4));
    DO(chmod("dir/file", 0640));
    DO(rename("dir/file", "dir/name"));
    DO(unlink("dir/name"));
    DO(write(fd, "more", 4));
    DO(close(fd));
    T(inotify_rm_watch(in, file));
    put_file("dir/replaced", "");
    put_file("dir/new", "");
    events();
    T(inotify_add_watch(in, "dir/replaced", IN_ALL_EVENTS));
    DO(rename("dir/new", "dir/replaced"));
    DO(unlink("dir/replaced"));

    PART("links of a file");
    put_file("one", "1");
    MUST(link("one", "two"));
    T(inotify_add_watch(in, "one", IN_ALL_EVENTS));
    DO(unlink("one"));
    DO(chmod("two", 0600));
    DO(link("two", "three"));
    DO(unlink("two"));
    DO(unlink("three"));

    PART("masks");
    put_file("dir/file", "text");
    T(inotify_add_watch(in, "dir", IN_CREATE) == dir);
    events();
    DO(open("dir/file", O_RDONLY));
    T(inotify_add_watch(in, "dir", IN_OPEN | IN_MASK_ADD) == dir);
    DO(open("dir/file", O_RDONLY));
    fd = OK(open("dir/other", O_CREAT | O_RDONLY, 0600));
    events();
    T(inotify_add_watch(in, "dir", IN_ACCESS | IN_EXCL_UNLINK) == dir);
    fd = MUST(open("dir/file", O_RDONLY));
    DO(read(fd, buf, 1));
    MUST(unlink("dir/file"));
    DO(read(fd, buf, 1));
    close(fd);
    T(inotify_rm_watch(in, dir));
    events();
    T(inotify_rm_watch(in, dir));
    int once = T(inotify_add_watch(in, "dir", IN_CREATE | IN_ONESHOT));
    put_file("dir/a", "");
    put_file("dir/b", "");
    events();
    T(inotify_rm_watch(in, once));
    T(inotify_add_watch(in, "link", IN_ATTRIB | IN_DELETE_SELF | IN_DONT_FOLLOW));
    DO(chmod("plain", 0600));
    DO(unlink("link"));

    PART("a directory that goes");
    MUST(mkdir("gone", 0755));
    T(inotify_add_watch(in, "gone", IN_ALL_EVENTS));
    DO(rename("gone", "moved"));
    DO(rmdir("moved"));

    PART("reading");
    int watch = MUST(inotify_add_watch(in, "dir", IN_CREATE | IN_DELETE));
    put_file("dir/0123456789abcdef", "");
    put_file("dir/0123456789abcde", "");
    T(ioctl(in, FIONREAD, &available));
    N(available);
    struct pollfd p = {in, POLLIN | POLLOUT, 0};
    T(poll(&p, 1, 0));
    N(p.revents);
    T(read(in, buf, 16));
    T(read(in, buf, 47));
    T(read(in, buf, 48));
    T(read(in, bad, 48));
    T(read(in, buf, 48));
    MUST(fcntl(in, F_SETFL, 0));
    pid_t child = MUST(fork());
    if (child == 0) {
        sleep_ms(30);
        MUST(mkdir("dir/later", 0700));
        _exit(0);
    }
    T(read(in, buf, sizeof buf));
    puts(buf + sizeof(struct inotify_event));
    waitpid(child, NULL, 0);
    MUST(fcntl(in, F_SETFL, O_NONBLOCK));
    int ep = MUST(epoll_create1(0));
    struct epoll_event wanted = {EPOLLIN | EPOLLET, {0}}, got;
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, in, &wanted));
    T(epoll_wait(ep, &got, 1, 0));
    MUST(rmdir("dir/later"));
    T(epoll_wait(ep, &got, 1, 0));
    T(epoll_wait(ep, &got, 1, 0));
    events();

    PART("too many");
    int limit = 0;
    FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    MUST(fscanf(f, "%d", &limit));
    for (int i = 0; i < limit / 2 + 10; i++) {
        MUST(mkdir("dir/again", 0700));
        MUST(rmdir("dir/again"));
    }
    T(ioctl(in, FIONREAD, &available));
    YES(available == limit * 32 + 16);
    char *all = malloc(available);
    YES(read(in, all, available) == available);
    struct inotify_event *last = (void *)(all + available - 16);
    YES(last->wd == -1 && last->mask == IN_Q_OVERFLOW);
    T(read(in, buf, sizeof buf));

    PART("what /proc shows");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", in);
    memset(buf, 0, sizeof buf);
    MUST(readlink(link, buf, sizeof buf));
    puts(buf);
    snprintf(link, sizeof link, "/proc/self/fdinfo/%d", in);
    f = fopen(link, "r");
    while (fgets(buf, sizeof buf, f)) {
        char *mask = strstr(buf, "mask:");
        unsigned wd;
        if (mask && sscanf(buf, "inotify wd:%x", &wd) == 1)
            printf("%d %.8s\n", wd == (unsigned)watch, mask);
    }
    return 0;
}

// The file system of POSIX message queues, their limits, and notification by a thread.
#include "check.h"
#include <dirent.h>
#include <linux/netlink.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static char dir[64], text[100];

static const char *in(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 128, "%s/%s", dir, name);
    return path;
}

static void show(const char *name) {
    struct stat st;
    if (stat(in(name), &st) < 0)
        printf("%s: %s\n", name, check_error(errno));
    else
        printf("%s: mode %o, %d links, %lld bytes, owner %d:%d\n", name, st.st_mode, (int)st.st_nlink, (long long)st.st_size,
               (int)st.st_uid, (int)st.st_gid);
}

static void list(void) {
    DIR *open = opendir(dir);
    if (!open) {
        printf("list: %s\n", check_error(errno));
        return;
    }
    int count = 0;
    for (struct dirent *entry; (entry = readdir(open));)
        if (entry->d_name[0] != '.') printf("entry %s, type %d\n", entry->d_name, entry->d_type), count++;
    printf("%d entries\n", count);
    closedir(open);
}

static void setting(const char *name, const char *value) {
    char path[64], old[32] = "";
    snprintf(path, sizeof path, "/proc/sys/fs/mqueue/%s", name);
    int fd = open(path, O_RDWR);
    if (fd < 0) {
        printf("%s: %s\n", name, check_error(errno));
        return;
    }
    ssize_t n = read(fd, old, sizeof old - 1);
    errno = 0;
    ssize_t written = value ? pwrite(fd, value, strlen(value), 0) : 0;
    printf("%s: %.*s, %s: %s\n", name, (int)(n > 0 ? n - 1 : 0), old, value ? value : "left",
           written < 0 ? check_error(errno) : "written");
    close(fd);
}

static void put(const char *name, const char *value) {
    int fd = MUST(open(name, O_WRONLY));
    MUST(write(fd, value, strlen(value)));
    close(fd);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t was_told = PTHREAD_COND_INITIALIZER;
static int told;

static void in_thread(union sigval value) {
    pthread_mutex_lock(&lock);
    told = value.sival_int;
    pthread_cond_signal(&was_told);
    pthread_mutex_unlock(&lock);
}

static void raw_notify(mqd_t queue) {
    char cookie[32] = "a cookie";
    int sock = MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_signo = sock, .sigev_value.sival_ptr = cookie};
    T(syscall(SYS_mq_notify, queue, &event));
    T(recv(sock, text, 32, 0));
    T(syscall(SYS_mq_notify, queue, NULL));
    N(recv(sock, text, sizeof text, 0));
    printf("%s, %d\n", text, text[31]);
    T(syscall(SYS_mq_notify, queue, &event));
    MUST(mq_send(queue, "x", 1, 0));
    struct pollfd entry = {sock, POLLIN, 0};
    N(poll(&entry, 1, 5000));
    N(recv(sock, text, sizeof text, 0));
    printf("%s, %d\n", text, text[31]);
    MUST(mq_receive(queue, text, sizeof text, NULL));
    event.sigev_value.sival_ptr = BAD;
    T(syscall(SYS_mq_notify, queue, &event));
    event.sigev_value.sival_ptr = cookie;
    int file = MUST(open("/dev/null", O_RDONLY));
    event.sigev_signo = file;
    T(syscall(SYS_mq_notify, queue, &event));
    event.sigev_signo = -1;
    T(syscall(SYS_mq_notify, queue, &event));
    int other = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    event.sigev_signo = other;
    T(syscall(SYS_mq_notify, queue, &event));
    close(file), close(other), close(sock);
}

static void by_thread(void) {
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 64};
    mqd_t queue = MUST(mq_open("/hull.thread", O_RDWR | O_CREAT, 0600, &attr));
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 5};
    T(mq_notify(queue, &event));
    MUST(mq_send(queue, "x", 1, 0));
    pthread_mutex_lock(&lock);
    while (!told) pthread_cond_wait(&was_told, &lock);
    printf("told %d\n", told);
    pthread_mutex_unlock(&lock);
    MUST(mq_receive(queue, text, 64, NULL));
    raw_notify(queue);
    MUST(mq_close(queue));
    MUST(mq_unlink("/hull.thread"));
}

int main(void) {
    PART("thread");
    // A process with several threads can't enter a user namespace later.
    CHILD("threads", by_thread());

    char users[32], groups[32];
    snprintf(users, sizeof users, "0 %d 1", (int)geteuid());
    snprintf(groups, sizeof groups, "0 %d 1", (int)getegid());
    MUST(unshare(CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWNS));
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", users);
    put("/proc/self/gid_map", groups);

    // Queues of other user namespaces do not count.
    PART("limit");
    struct rlimit limit = {1959, 819200};
    MUST(setrlimit(RLIMIT_MSGQUEUE, &limit));
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 100};
    T(mq_open("/hull.limit", O_RDWR | O_CREAT, 0600, &attr));
    limit.rlim_cur = 1960;
    MUST(setrlimit(RLIMIT_MSGQUEUE, &limit));
    mqd_t queue = OK(mq_open("/hull.limit", O_RDWR | O_CREAT, 0600, &attr));
    MUST(mq_unlink("/hull.limit"));
    T(mq_open("/hull.limit", O_RDWR | O_CREAT, 0600, &attr));
    MUST(mq_close(queue));
    queue = OK(mq_open("/hull.limit", O_RDWR | O_CREAT, 0600, &attr));
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", queue);
    N(readlink(own, text, sizeof text));
    MUST(mq_unlink("/hull.limit"));
    memset(text, 0, sizeof text);
    MUST(readlink(own, text, sizeof text));
    puts(text);
    MUST(mq_close(queue));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_MSGQUEUE, &limit));

    PART("settings");
    setting("msg_max", NULL);
    setting("msg_max", "0");
    setting("msg_max", "65537");
    setting("msg_max", "20");
    setting("msg_max", NULL);
    setting("msgsize_max", "127");
    setting("msgsize_max", "300");
    setting("msg_default", "30");
    setting("msgsize_default", "many");
    setting("queues_max", "2");
    struct mq_attr got;
    queue = OK(mq_open("/small", O_RDWR | O_CREAT, 0600, NULL));
    MUST(mq_getattr(queue, &got));
    printf("%ld of %ld\n", got.mq_maxmsg, got.mq_msgsize);

    PART("mount");
    snprintf(dir, sizeof dir, "/tmp/hull.mq.%d", getpid());
    MUST(mkdir(dir, 0700));
    T(mount("x", dir, "mqueue", 0, "option"));
    T(mount("x", dir, "mqueue", 0, NULL));
    T(mount("x", dir, "mqueue", 0, NULL));
    struct statfs figures;
    T(statfs(dir, &figures));
    printf("%#lx %ld %ld\n", (long)figures.f_type, (long)figures.f_bsize, (long)figures.f_namelen);
    list();
    show(".");
    show("small");

    PART("files");
    int fd = OK(open(in("made"), O_RDWR | O_CREAT | O_EXCL, 0644));
    show("made");
    T(mq_send(fd, "text", 4, 1));
    memset(text, 0, sizeof text);
    T(read(fd, text, sizeof text));
    printf("%s", text);
    T(read(fd, text, sizeof text));
    T(lseek(fd, 0, SEEK_SET));
    T(lseek(fd, 0, SEEK_END));
    T(lseek(fd, -1, SEEK_SET));
    T(write(fd, "x", 1));
    T((long)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
    T(mq_getattr(fd, &got));
    mqd_t same = OK(mq_open("/made", O_RDONLY));
    T(mq_receive(same, text, 8192, NULL));
    T(open(in("third"), O_RDWR | O_CREAT, 0644));
    list();
    T(mkdir(in("d"), 0700));
    T(mknod(in("p"), S_IFIFO | 0600, 0));
    T(symlink("made", in("l")));
    T(link(in("made"), in("l")));
    T(rename(in("made"), in("renamed")));
    T(chmod(in("made"), 0600));
    T(truncate(in("made"), 7));
    show("made");
    close(MUST(open(in("made"), O_RDWR | O_TRUNC)));
    show("made");
    T(fchmod(fd, 0640));
    show("made");
    struct pollfd entry = {fd, POLLIN | POLLOUT, 0};
    T(poll(&entry, 1, 0));
    N(entry.revents);
    int epoll = MUST(epoll_create1(0));
    struct epoll_event watched = {.events = EPOLLIN};
    T(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &watched));

    PART("names");
    T(mq_unlink("/made"));
    show("made");
    list();
    T(unlink(in("small")));
    T(mq_open("/small", O_RDWR));
    show(".");
    T(mq_open("/second", O_RDWR | O_CREAT, 0600, NULL));
    T(mq_close(queue));
    queue = OK(mq_open("/third", O_RDWR | O_CREAT, 0600, NULL));
    list();

    PART("another namespace");
    MUST(unshare(CLONE_NEWIPC));
    T(mq_open("/third", O_RDWR));
    list();
    setting("msg_max", NULL);
    show("third");
    T(unlink(in("third")));
    T(umount(dir));
    close(fd), close(same), close(queue), close(epoll);
    T(umount(dir));
    rmdir(dir);
    return 0;
}

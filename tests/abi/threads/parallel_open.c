// open(2) and close(2) of files that are opened again and again, while another processor is awake: descriptors, flags,
// positions, names that go, permissions, events, locks. Numbers are shown relative to the lowest free descriptor.
#include "../check.h"
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <pthread.h>

enum { TIMES = 24, RUN_MS = 150 };

static int lowest;
static pid_t spinner;

// Keeps another processor awake for a bounded time.
static void spin(void) {
    spinner = MUST(fork());
    if (spinner == 0) {
        long end = now_ms() + 20000;
        while (now_ms() < end && getppid() != 1) {}
        _exit(0);
    }
}

static int relative(int fd) { return fd < 0 ? -errno : fd - lowest; }

// Opens and closes a file until it is known well.
static void know(const char *name, int flags) {
    char byte;
    for (int i = 0; i < TIMES; i++) {
        int fd = MUST(open(name, flags));
        struct stat status;
        if (fd != lowest || read(fd, &byte, 1) < 0 || fstat(fd, &status) || close(fd))
            printf("%s: open number %d gave %d, %s\n", name, i, relative(fd), check_error(errno));
    }
}

static void numbers(void) {
    PART("numbers");
    know("a", O_RDONLY);
    int one = open("a", O_RDONLY), two = open("a", O_RDONLY), three = open("a", O_RDONLY);
    printf("%d %d %d\n", relative(one), relative(two), relative(three));
    OK(close(two));
    N(relative(open("a", O_RDONLY)));
    OK(close(one));
    int ends[2];
    MUST(pipe(ends));
    printf("pipe %d %d\n", relative(ends[0]), relative(ends[1]));
    N(relative(dup(three)));
    N(relative(open("a", O_RDONLY)));
    N(relative(dup2(ends[0], lowest + 3)));
    N(relative(open("a", O_RDONLY)));
    T(close_range(lowest, lowest + 20, 0));
    N(relative(open("a", O_RDONLY)));
    T(close(lowest));
    T(close(lowest));
    T(read(lowest, &ends, 1));
    T(fstat(lowest, &(struct stat){0}));
    int many[80];
    for (int i = 0; i < 80; i++)
        many[i] = open("a", O_RDONLY);
    printf("the 80th %d\n", relative(many[79]));
    for (int i = 0; i < 80; i += 2)
        close(many[i]);
    N(relative(open("a", O_RDONLY)));
    N(relative(open("b", O_RDONLY)));
    T(close_range(lowest, lowest + 100, 0));
}

static void limits(void) {
    PART("limit");
    CHILD("limited", {
        know("a", O_RDONLY);
        struct rlimit limit = {lowest + 2, lowest + 2};
        MUST(setrlimit(RLIMIT_NOFILE, &limit));
        N(relative(open("a", O_RDONLY)));
        N(relative(open("a", O_RDONLY)));
        N(relative(open("a", O_RDONLY)));
        T(close(lowest));
        N(relative(open("a", O_RDONLY)));
    });
}

static void flags(void) {
    PART("flags");
    know("a", O_RDONLY);
    know("a", O_RDONLY | O_CLOEXEC);
    know("a", O_RDONLY | O_NOFOLLOW);
    const int flags[] = {O_RDONLY, O_RDONLY | O_CLOEXEC, O_RDONLY | O_NOFOLLOW, O_RDONLY | O_NOFOLLOW | O_CLOEXEC,
                         O_RDONLY | O_NONBLOCK, O_RDWR, O_RDONLY | O_NOCTTY};
    for (size_t i = 0; i < COUNT(flags); i++) {
        int fd = open("a", flags[i]);
        printf("%x: %d %x %d\n", flags[i], relative(fd), fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
        close(fd);
    }
    MUST(symlink("a", "link"));
    know("link", O_RDONLY);
    T(open("link", O_RDONLY | O_NOFOLLOW));
    T(open("a", O_RDONLY | O_DIRECTORY));
    T(open("a/", O_RDONLY));
    T(open("", O_RDONLY));
    int fd = open("a", O_RDONLY);
    T(write(fd, "x", 1));
    T(ftruncate(fd, 0));
    T(fcntl(fd, F_SETFL, O_NONBLOCK));
    N(fcntl(fd, F_GETFL) & O_NONBLOCK);
    T(close(fd));
    fd = open("a", O_RDONLY);
    N(fcntl(fd, F_GETFL) & O_NONBLOCK);
    T(close(fd));
    CHILD("close-on-exec", {
        int kept = open("a", O_RDONLY);
        int closed = open("a", O_RDONLY | O_CLOEXEC);
        char script[128];
        snprintf(script, sizeof script, "read x <&%d && echo kept: $x; (: <&%d) 2>/dev/null || echo closed", kept, closed);
        execl("/bin/sh", "sh", "-c", script, NULL);
    });
}

static void positions(void) {
    PART("positions");
    char text[16] = "";
    know("a", O_RDONLY);
    int fd = open("a", O_RDONLY);
    N(lseek(fd, 0, SEEK_CUR));
    T(read(fd, text, 3));
    T(close(fd));
    fd = open("a", O_RDONLY);
    N(lseek(fd, 0, SEEK_CUR));
    T(read(fd, text, 2));
    int copy = dup(fd);
    T(read(copy, text, 2));
    N(lseek(fd, 0, SEEK_CUR));
    CHILD("heir", T(read(fd, text, 2)));
    N(lseek(fd, 0, SEEK_CUR));
    T(close(fd));
    N(lseek(copy, 0, SEEK_CUR));
    T(close(copy));
    fd = open("a", O_RDONLY);
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    T(close(fd));
    printf("%.5s\n", map);
    MUST(munmap(map, 4096));
}

static void shown(void) {
    PART("in /proc");
    know("a", O_RDONLY);
    int fd = open("a", O_RDONLY | O_CLOEXEC);
    char path[64], target[PATH_MAX] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    MUST(readlink(path, target, sizeof target - 1));
    printf("%s\n", strrchr(target, '/'));
    fd = open("a", O_RDONLY);
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.' && (unsigned)(atoi(entry->d_name) - lowest) < 3;
    closedir(dir);
    N(count);
    // Another process looks.
    fd = open("a", O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    CHILD("looks", {
        T(access(path, F_OK));
        close(fd);
        T(access(path, F_OK));
    });
    T(close_range(lowest, lowest + 20, 0));
}

static void names(void) {
    PART("names");
    char text[16] = "";
    put_file("gone", "first");
    know("gone", O_RDONLY);
    T(unlink("gone"));
    T(open("gone", O_RDONLY));
    put_file("gone", "second");
    show_file("gone");
    know("gone", O_RDONLY);
    int fd = open("gone", O_RDONLY);
    T(unlink("gone"));
    T(read(fd, text, sizeof text));
    struct stat status;
    MUST(fstat(fd, &status));
    N(status.st_nlink);
    T(close(fd));
    T(open("gone", O_RDONLY));
    put_file("one", "one");
    put_file("two", "two");
    know("one", O_RDONLY);
    know("two", O_RDONLY);
    T(rename("two", "one"));
    show_file("one");
    show_file("two");
    know("one", O_RDONLY);
    MUST(mkdir("dir", 0755));
    put_file("dir/file", "inside");
    know("dir/file", O_RDONLY);
    T(rename("dir", "moved"));
    T(open("dir/file", O_RDONLY));
    show_file("moved/file");
    know("moved/file", O_RDONLY);
    T(unlink("moved/file"));
    T(rmdir("moved"));
    put_file("grows", "1");
    know("grows", O_RDONLY);
    put_file("grows", "12345");
    show_file("grows");
    T(truncate("grows", 2));
    show_file("grows");
}

static void permissions(void) {
    PART("permissions");
    put_file("mine", "mine");
    know("mine", O_RDONLY);
    T(chmod("mine", 0600));
    know("mine", O_RDONLY);
    CHILD("another user", {
        if (getuid() == 0)
            MUST(setresuid(12345, 12345, 12345));
        else
            MUST(chmod("mine", 0));
        T(open("mine", O_RDONLY));
    });
    T(chmod("mine", 0644));
    show_file("mine");
    CHILD("another user", {
        if (getuid() == 0)
            MUST(setresuid(12345, 12345, 12345));
        for (int i = 0; i < TIMES; i++)
            close(open("mine", O_RDONLY));
        N(relative(open("mine", O_RDONLY)));
    });
    CHILD("another root", {
        char path[PATH_MAX];
        MUST(realpath("a", path));
        know(path, O_RDONLY);
        if (unshare(CLONE_NEWUSER)) _exit(9);
        MUST(mkdir("root", 0755));
        MUST(chroot("root"));
        T(open(path, O_RDONLY));
    });
}

static void events(void) {
    PART("events");
    know("a", O_RDONLY);
    int fd = open("a", O_RDONLY);
    int watch = inotify_init1(IN_NONBLOCK);
    MUST(inotify_add_watch(watch, "a", IN_OPEN | IN_CLOSE | IN_ACCESS));
    T(close(fd));
    fd = open("a", O_RDONLY);
    char byte;
    T(read(fd, &byte, 1));
    T(close(fd));
    struct inotify_event events[16];
    ssize_t got = read(watch, events, sizeof events);
    for (ssize_t i = 0; i < got / (ssize_t)sizeof *events; i++)
        printf("event %x\n", events[i].mask);
    T(unlink("a"));
    got = read(watch, events, sizeof events);
    for (ssize_t i = 0; i < got / (ssize_t)sizeof *events; i++)
        printf("event %x\n", events[i].mask);
    close(watch);
    put_file("a", "content\n");
}

static short lock_seen_by_child(void) {
    int status;
    pid_t child = MUST(fork());
    if (child == 0) {
        int fd = MUST(open("a", O_RDWR));
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        MUST(fcntl(fd, F_GETLK, &lock));
        _exit(lock.l_type);
    }
    MUST(waitpid(child, &status, 0));
    return WEXITSTATUS(status);
}

static void locks(void) {
    PART("locks");
    know("a", O_RDONLY);
    CHILD("locks", {
        int fd = open("a", O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        MUST(fcntl(fd, F_SETLK, &lock));
        YES(lock_seen_by_child() == F_WRLCK);
        // Closing any descriptor of the file ends the locks of the process.
        T(close(open("a", O_RDONLY)));
        YES(lock_seen_by_child() == F_UNLCK);
    });
}

static void passed(void) {
    PART("passed");
    know("a", O_RDONLY);
    int ends[2], fd;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    char text[16] = "x", control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec iov = {text, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    fd = open("a", O_RDONLY);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    T(sendmsg(ends[0], &message, 0));
    T(close(fd));
    message.msg_controllen = sizeof control;
    T(recvmsg(ends[1], &message, 0));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    N(relative(fd));
    T(read(fd, text, 7));
    close(fd), close(ends[0]), close(ends[1]);
}

static void unmounted(void) {
    PART("mounts");
    CHILD("mounts", {
        uid_t uid = getuid();
        gid_t gid = getgid();
        char map[64];
        MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
        snprintf(map, sizeof map, "0 %d 1", uid);
        put_file("/proc/self/uid_map", map);
        put_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %d 1", gid);
        put_file("/proc/self/gid_map", map);
        MUST(mkdir("mnt", 0755));
        MUST(mount("none", "mnt", "tmpfs", 0, NULL));
        put_file("mnt/file", "mounted");
        know("mnt/file", O_RDONLY);
        T(umount("mnt"));
        T(open("mnt/file", O_RDONLY));
        MUST(mount("none", "mnt", "tmpfs", 0, NULL));
        put_file("mnt/file", "again");
        know("mnt/file", O_RDONLY);
        int fd = open("mnt/file", O_RDONLY);
        T(umount("mnt"));
        T(close(fd));
        T(umount("mnt"));
    });
}

// Threads share descriptors: no number is given twice, no position is another's.
static void *opener(void *argument) {
    const char *name = argument;
    long wrong = 0;
    for (long end = now_ms() + RUN_MS; now_ms() < end;) {
        char byte = 0;
        int fd = open(name, O_RDONLY);
        if (fd < 0 || read(fd, &byte, 1) != 1 || byte != name[0] || lseek(fd, 0, SEEK_CUR) != 1 || close(fd))
            wrong++;
    }
    return (void *)wrong;
}

static void threads(void) {
    PART("threads");
    put_file("t", "t1");
    put_file("u", "u1");
    know("t", O_RDONLY);
    know("u", O_RDONLY);
    CHILD("threads", {
        pthread_t thread[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&thread[i], NULL, opener, i & 1 ? "t" : "u");
        void *wrong;
        for (int i = 0; i < 4; i++) {
            pthread_join(thread[i], &wrong);
            N((long)wrong);
        }
    });
}

// Processes that open a file while others replace, remove and look: each open gives a whole version.
static void race(void) {
    PART("race");
    put_file("raced", "0000");
    pid_t openers[3];
    for (int i = 0; i < 3; i++) {
        openers[i] = MUST(fork());
        if (openers[i])
            continue;
        int wrong = 0;
        for (long end = now_ms() + RUN_MS; now_ms() < end;) {
            char text[8] = "", next = 0;
            int fd = open("raced", O_RDONLY);
            if (fd == -1 && errno == ENOENT)
                continue;
            wrong += fd != lowest || read(fd, text, 4) != 4 || memcmp(text, text + 1, 3) || read(fd, &next, 1) != 0;
            wrong += lseek(fd, 0, SEEK_CUR) != 4 || close(fd) != 0;
        }
        _exit(wrong > 200 ? 200 : wrong);
    }
    pid_t watcher = MUST(fork());
    if (watcher == 0) {
        char path[64];
        for (long i = 0, end = now_ms() + RUN_MS; now_ms() < end; i++) {
            snprintf(path, sizeof path, "/proc/%d/fd/%d", openers[i % 3], lowest);
            access(path, F_OK);
            usleep(300);
        }
        _exit(0);
    }
    long step = 0;
    for (long end = now_ms() + RUN_MS; now_ms() < end; step++) {
        char text[5];
        memset(text, '0' + step % 10, 4);
        text[4] = 0;
        put_file("next", text);
        if (step % 3 == 0)
            MUST(unlink("raced"));
        MUST(rename("next", "raced"));
        if (step % 4 == 0)
            usleep(500);
    }
    for (int i = 0; i < 3; i++)
        reap("opener", openers[i]);
    reap("watcher", watcher);
}

int main(void) {
    lowest = MUST(dup(0));
    close(lowest);
    spin();
    put_file("a", "content\n");
    put_file("b", "other");
    numbers();
    limits();
    flags();
    positions();
    shown();
    names();
    permissions();
    events();
    locks();
    passed();
    unmounted();
    race();
    threads();
    kill(spinner, SIGKILL);
    MUST(waitpid(spinner, NULL, 0));
    return 0;
}

// A file system that fails: `disk DIRECTORY PROGRAM ARGUMENT...` mounts it at DIRECTORY for PROGRAM alone, by speaking FUSE
// itself (fuse(4), linux/fuse.h), and ends as PROGRAM does; with 77 if this machine permits no such mount.
//
// While the directory `broken` exists in it, parts of its files have EIO for reads and writes, and fsync of these files fails.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_HERE = 77, FIRST = 2, MOST = 1 << 17 };

#define K 1024
#define LARGE(name) {name, 16384 * K, 5120 * K, 8192 * K}
static struct file {
    const char *name;
    unsigned size, bad, bad_end; // content, and what of it is lost
    char *content;
} files[] = {
    {"good", 1024 * K},           {"good-later", 1024 * K},       {"bad", 1024 * K, 0, 1024 * K},  {"bad-mapped", 1024 * K, 0, 1024 * K},
    {"half", 1024 * K, 64 * K, 1024 * K}, {"half-mapped", 1024 * K, 64 * K, 1024 * K}, {"small", 100000, 40 * K, 100000},
    {"hole", 60 * K, 8 * K, 12 * K}, {"hole-mapped", 60 * K, 8 * K, 12 * K}, LARGE("large-read"), LARGE("large-call"), LARGE("large-private"), LARGE("large-sent"), LARGE("large-shared"),
    {"written", 64 * K, 0, 64 * K}, {"stored", 64 * K, 0, 64 * K},
};
enum { COUNT = sizeof files / sizeof *files, BROKEN = FIRST + COUNT };
static bool broken;
static int device;

static struct fuse_attr attributes(unsigned long node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096, .mode = S_IFREG | 0777};
    if (node == FUSE_ROOT_ID || node == BROKEN)
        attr.mode = S_IFDIR | 0777, attr.nlink = 2;
    else
        attr.size = files[node - FIRST].size, attr.blocks = attr.size / 512;
    attr.uid = getuid(), attr.gid = getgid();
    return attr;
}

static void answer(struct fuse_in_header *request, int error, const void *bytes, unsigned len) {
    static char out[sizeof(struct fuse_out_header) + MOST];
    struct fuse_out_header head = {sizeof head + (error ? 0 : len), -error, request->unique};
    memcpy(out, &head, sizeof head);
    if (!error) memcpy(out + sizeof head, bytes, len);
    write(device, out, head.len);
}

static bool is_lost(const struct file *file, unsigned long from, unsigned long to) {
    return broken && from < file->bad_end && to > file->bad;
}

static unsigned long find(const char *name) {
    for (unsigned i = 0; i < COUNT; i++)
        if (!strcmp(name, files[i].name)) return FIRST + i;
    return broken && !strcmp(name, "broken") ? BROKEN : 0;
}

static void entry(struct fuse_in_header *request, unsigned long node) {
    struct fuse_entry_out out = {.nodeid = node, .attr_valid = 60};
    if (!node) return answer(request, ENOENT, 0, 0);
    out.attr = attributes(node);
    answer(request, 0, &out, sizeof out);
}

static void list(struct fuse_in_header *request, unsigned long from) {
    char out[4096];
    unsigned len = 0;
    for (unsigned long i = from; i < COUNT && request->nodeid == FUSE_ROOT_ID; i++) {
        struct fuse_dirent *next = (void *)(out + len);
        *next = (struct fuse_dirent){FIRST + i, i + 1, strlen(files[i].name), DT_REG};
        memcpy(next->name, files[i].name, next->namelen);
        len += FUSE_DIRENT_SIZE(next);
    }
    if (broken && from <= COUNT && request->nodeid == FUSE_ROOT_ID) {
        struct fuse_dirent *next = (void *)(out + len);
        *next = (struct fuse_dirent){BROKEN, COUNT + 1, strlen("broken"), DT_DIR};
        memcpy(next->name, "broken", next->namelen);
        len += FUSE_DIRENT_SIZE(next);
    }
    answer(request, 0, out, len);
}

static void serve(struct fuse_in_header *request, void *body) {
    struct file *file = request->nodeid >= FIRST && request->nodeid < BROKEN ? &files[request->nodeid - FIRST] : NULL;
    switch (request->opcode) {
    case FUSE_INIT: {
        struct fuse_init_in *in = body;
        // Nothing is read ahead: what fails is one page.
        struct fuse_init_out out = {FUSE_KERNEL_VERSION, 31, 0, in->flags & FUSE_BIG_WRITES, .max_write = 1 << 16, .time_gran = 1};
        return answer(request, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: return entry(request, find(body));
    case FUSE_MKDIR:
        broken = true;
        return entry(request, find((char *)body + sizeof(struct fuse_mkdir_in)));
    case FUSE_RMDIR: broken = false; return answer(request, 0, 0, 0);
    case FUSE_GETATTR:
    case FUSE_SETATTR: {
        struct fuse_attr_out out = {.attr_valid = 60, .attr = attributes(request->nodeid)};
        return answer(request, 0, &out, sizeof out);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE};
        return answer(request, 0, &out, sizeof out);
    }
    case FUSE_READDIR: return list(request, ((struct fuse_read_in *)body)->offset);
    case FUSE_READ: {
        struct fuse_read_in *in = body;
        unsigned long at = in->offset, end = at + in->size;
        if (end > file->size) end = file->size;
        if (at > end) at = end;
        if (is_lost(file, at, end)) return answer(request, EIO, 0, 0);
        return answer(request, 0, file->content + at, end - at);
    }
    case FUSE_WRITE: {
        struct fuse_write_in *in = body;
        struct fuse_write_out out = {.size = in->size};
        if (in->offset + in->size > file->size) return answer(request, EFBIG, 0, 0);
        if (is_lost(file, in->offset, in->offset + in->size)) return answer(request, EIO, 0, 0);
        memcpy(file->content + in->offset, in + 1, in->size);
        return answer(request, 0, &out, sizeof out);
    }
    case FUSE_FSYNC: return answer(request, file && is_lost(file, 0, file->size) ? EIO : 0, 0, 0);
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.blocks = 1000, .bfree = 1000, .bavail = 1000, .bsize = 4096, .namelen = 255, .frsize = 4096}};
        return answer(request, 0, &out, sizeof out);
    }
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_ACCESS: return answer(request, 0, 0, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return;
    default: return answer(request, ENOSYS, 0, 0);
    }
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) exit(NOT_HERE);
    close(fd);
}

// A mount of our own, which ends with us.
static void mount_at(const char *directory) {
    char text[100];
    unsigned uid = getuid(), gid = getgid();
    if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS)) exit(NOT_HERE);
    if (uid) {
        put("/proc/self/setgroups", "deny");
        snprintf(text, sizeof text, "%u %u 1", uid, uid), put("/proc/self/uid_map", text);
        snprintf(text, sizeof text, "%u %u 1", gid, gid), put("/proc/self/gid_map", text);
    }
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(text, sizeof text, "fd=%d,rootmode=40777,user_id=%u,group_id=%u,allow_other", device, uid, gid);
    if (device < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("disk", directory, "fuse.disk", MS_NOSUID | MS_NODEV, text)) {
        perror("disk");
        exit(NOT_HERE);
    }
}

static void on_child(int signal) { (void)signal; }

int main(int argc, char **argv) {
    if (argc < 3) return 99;
    mount_at(argv[1]);
    for (unsigned i = 0; i < COUNT; i++) {
        files[i].content = malloc(files[i].size);
        for (unsigned at = 0; at < files[i].size; at++) files[i].content[at] = 'a' + at / 4096 % 26;
    }
    // A read of the device is interrupted, so that the program's end is noticed; the signal comes only there.
    struct sigaction action = {.sa_handler = on_child};
    sigaction(SIGCHLD, &action, NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGCHLD, SIG_DFL);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    static char buffer[sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in) + MOST];
    for (;;) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        fd_set set;
        FD_ZERO(&set);
        FD_SET(device, &set);
        struct timeval second = {1, 0};
        if (select(device + 1, &set, NULL, NULL, &second) <= 0) continue;
        ssize_t len = read(device, buffer, sizeof buffer - 1);
        if (len < (ssize_t)sizeof(struct fuse_in_header)) continue;
        buffer[len] = 0;
        serve((void *)buffer, buffer + sizeof(struct fuse_in_header));
    }
}

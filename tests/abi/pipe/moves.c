// splice, tee, vmsplice, sendfile and copy_file_range between every two kinds of objects: results, positions, what is left, non-blocking.
#include "check.h"
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

enum kind { FILE_, APPENDED, EMPTY, PIPE_IN, PIPE_OUT, PIPE_EMPTY, PIPE_FULL, PIPE_ENDED, PIPE_BROKEN, STREAM, STREAM_ENDED, PACKETS, NULL_, ZERO, DIRECTORY, EVENT, KINDS };
static const char *const names[] = {"file", "appended file", "empty file", "pipe's read end", "pipe's write end", "empty pipe", "full pipe", "ended pipe", "broken pipe", "stream", "ended stream", "packets", "null", "zero", "directory", "eventfd"};
static int others[4], count;
static char page[4096];

static int make(enum kind kind) {
    int p[2], fd;
    switch (kind) {
    case FILE_:
    case APPENDED:
    case EMPTY:
        fd = MUST(open("some file", O_RDWR | O_CREAT | O_TRUNC | (kind == APPENDED ? O_APPEND : 0), 0600));
        unlink("some file");
        if (kind != EMPTY) MUST(write(fd, "0123456789", 10)), MUST(lseek(fd, 2, SEEK_SET));
        return fd;
    case NULL_:
        return MUST(open("/dev/null", O_RDWR));
    case ZERO:
        return MUST(open("/dev/zero", O_RDWR));
    case DIRECTORY:
        return MUST(open(".", O_RDONLY));
    case EVENT:
        return MUST(eventfd(0, EFD_NONBLOCK));
    case STREAM:
    case STREAM_ENDED:
    case PACKETS:
        MUST(socketpair(AF_UNIX, (kind == PACKETS ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_NONBLOCK, 0, p));
        MUST(send(p[1], "abcdef", 6, 0));
        if (kind == PACKETS) MUST(send(p[1], "next", 4, 0));
        if (kind == STREAM_ENDED) MUST(shutdown(p[1], SHUT_WR));
        others[count++] = p[1];
        return p[0];
    default:
        break;
    }
    MUST(pipe2(p, O_NONBLOCK));
    if (kind == PIPE_FULL)
        while (write(p[1], page, sizeof page) > 0) {}
    if (kind == PIPE_IN || kind == PIPE_ENDED) MUST(write(p[1], "pipe", 4));
    if (kind == PIPE_ENDED) {
        close(p[1]);
        char four[4];
        MUST(read(p[0], four, 4));
        return p[0];
    }
    if (kind == PIPE_BROKEN) {
        close(p[0]);
        return p[1];
    }
    int other = kind == PIPE_IN || kind == PIPE_EMPTY;
    others[count++] = p[other];
    return p[!other];
}
// What a descriptor or the other end has now.
static void left(const char *what, int fd) {
    int n = -1;
    long at = lseek(fd, 0, SEEK_CUR);
    printf(" %s: at %ld", what, at);
    if (ioctl(fd, FIONREAD, &n) == 0) printf(" has %d", n);
}

static void both(enum kind from, enum kind to, int call) {
    count = 0;
    int a = make(from), b = make(to);
    off_t at = 1, target = 3;
    errno = 0;
    long result = -1;
    switch (call) {
    case 0:
        result = splice(a, NULL, b, NULL, 5, SPLICE_F_NONBLOCK);
        break;
    case 1:
        result = splice(a, &at, b, NULL, 5, SPLICE_F_NONBLOCK);
        break;
    case 2:
        result = splice(a, NULL, b, &target, 5, SPLICE_F_NONBLOCK);
        break;
    case 3:
        result = tee(a, b, 5, SPLICE_F_NONBLOCK);
        break;
    case 4:
        result = sendfile(b, a, NULL, 5);
        break;
    case 5:
        result = sendfile(b, a, &at, 5);
        break;
    case 6:
        result = copy_file_range(a, NULL, b, NULL, 5, 0);
        break;
    case 7:
        result = copy_file_range(a, &at, b, &target, 5, 0);
        break;
    default:
        result = splice(a, NULL, b, NULL, 0, 0xffff);
    }
    int error = errno;
    printf(" %d: ", call);
    if (result < 0) printf("%s", check_error(error));
    else printf("%ld", result);
    if (result >= 0) {
        printf(" (%ld %ld)", (long)at, (long)target);
        left("from", a);
        left("to", b);
        for (int i = 0; i < count; i++) left("other", others[i]);
    }
    puts("");
    close(a), close(b);
    while (count) close(others[--count]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++) {
            printf("-- %s to %s\n", names[from], names[to]);
            for (int call = 0; call < 9; call++) both(from, to, call);
        }
    PART("vmsplice");
    for (int kind = 0; kind < KINDS; kind++)
        for (int size = 0; size < 3; size++) {
            count = 0;
            int fd = make(kind);
            char bytes[8] = "memory";
            struct iovec io[2] = {{bytes, 3}, {bytes + 3, 3}};
            printf("%s, %d: ", names[kind], size);
            long n = vmsplice(fd, io, size, SPLICE_F_NONBLOCK);
            if (n < 0) puts(check_error(errno));
            else printf("%ld\n", n);
            close(fd);
            while (count) close(others[--count]);
        }
    PART("copies of ranges");
    int fd = MUST(open("ranges", O_RDWR | O_CREAT, 0600));
    MUST(write(fd, "0123456789", 10));
    static const struct {
        off_t from, to;
        size_t size;
        unsigned flags;
    } ranges[] = {{0, 5, 5, 0}, {0, 4, 5, 0}, {5, 0, 5, 0}, {0, 0, 5, 0}, {10, 0, 5, 0}, {20, 0, 5, 0}, {0, 20, 3, 0}, {-1, 0, 5, 0}, {0, -1, 5, 0}, {0, 5, 5, 1}, {0, LONG_MAX, 5, 0}, {LONG_MAX, 0, 5, 0}, {0, 30, 0, 0}, {3, 40, SIZE_MAX, 0}};
    for (size_t i = 0; i < COUNT(ranges); i++) {
        off_t from = ranges[i].from, to = ranges[i].to;
        long n = copy_file_range(fd, &from, fd, &to, ranges[i].size, ranges[i].flags);
        printf("%zu: %s %ld, %ld %ld, %ld\n", i, n < 0 ? check_error(errno) : "ok", n, (long)from, (long)to, (long)lseek(fd, 0, SEEK_END));
    }
    T(copy_file_range(fd, BAD, fd, NULL, 5, 0));
    int read_only = MUST(open("ranges", O_RDONLY)), write_only = MUST(open("ranges", O_WRONLY));
    T(copy_file_range(fd, NULL, read_only, NULL, 5, 0));
    T(copy_file_range(write_only, NULL, fd, NULL, 5, 0));
    T(copy_file_range(fd, NULL, MUST(open("ranges", O_PATH)), NULL, 5, 0));
    return 0;
}

// Reads and writes that are collected later: io_setup(2), io_submit(2), io_getevents(2).
#include "check.h"
#include <linux/aio_abi.h>
#include <sys/eventfd.h>

static long io_setup(unsigned count, aio_context_t *context) { return syscall(SYS_io_setup, count, context); }
static long io_destroy(aio_context_t context) { return syscall(SYS_io_destroy, context); }
static long io_submit(aio_context_t context, long count, struct iocb **list) { return syscall(SYS_io_submit, context, count, list); }
static long io_cancel(aio_context_t context, struct iocb *one, struct io_event *event) { return syscall(SYS_io_cancel, context, one, event); }
static long io_getevents(aio_context_t context, long least, long most, struct io_event *events, struct timespec *timeout) {
    return syscall(SYS_io_getevents, context, least, most, events, timeout);
}

static aio_context_t context;

static struct iocb request(int operation, int fd, void *buffer, size_t len, long long offset) {
    return (struct iocb){.aio_data = 7, .aio_lio_opcode = operation, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer, .aio_nbytes = len,
                         .aio_offset = offset, .aio_key = 99};
}

// Submits one request and prints what comes of it.
static void one(const char *what, struct iocb request) {
    struct iocb *list[] = {&request};
    long taken = io_submit(context, 1, list);
    if (taken != 1) {
        printf("%s: not taken: %s\n", what, check_error(errno));
        return;
    }
    struct io_event event;
    struct timespec second = {5, 0};
    long got = io_getevents(context, 1, 1, &event, &second);
    if (event.res < 0)
        printf("%s: %ld event, data %lld, object %d, %s\n", what, got, (long long)event.data, event.obj == (uintptr_t)&request, check_error(-event.res));
    else
        printf("%s: %ld event, data %lld, object %d, %lld, %lld, key %u\n", what, got, (long long)event.data, event.obj == (uintptr_t)&request,
               (long long)event.res, (long long)event.res2, request.aio_key);
}

static void on_alarm(int number) { (void)number; }

int main(void) {
    PART("contexts");
    T(io_setup(0, &context));
    T(io_setup(1, BAD));
    T(io_setup(0x7fffffff, &context));
    aio_context_t used = 5;
    T(io_setup(1, &used));
    T(io_setup(8, &context));
    YES(context != 0);
    YES(*(volatile unsigned *)context == *(volatile unsigned *)context);
    T(io_destroy(0));
    T(io_destroy(context + 8));
    T(io_submit(0, 0, NULL));
    T(io_submit(context, 0, NULL));
    T(io_submit(context, -1, NULL));
    T(io_submit(context, 1, BAD));
    struct iocb *bad[] = {BAD};
    T(io_submit(context, 1, bad));

    PART("files");
    char text[64] = "the quick brown fox", back[64] = {0};
    int fd = MUST(open("file", O_RDWR | O_CREAT, 0600));
    one("write", request(IOCB_CMD_PWRITE, fd, text, 19, 0));
    one("write beyond", request(IOCB_CMD_PWRITE, fd, text, 19, 100));
    one("read", request(IOCB_CMD_PREAD, fd, back, 19, 4));
    puts(back);
    one("read at the end", request(IOCB_CMD_PREAD, fd, back, 64, 110));
    one("read behind the end", request(IOCB_CMD_PREAD, fd, back, 64, 1000));
    struct iovec parts[] = {{back, 3}, {back + 10, 5}};
    one("readv", request(IOCB_CMD_PREADV, fd, parts, 2, 0));
    one("writev", request(IOCB_CMD_PWRITEV, fd, parts, 2, 200));
    one("fsync", request(IOCB_CMD_FSYNC, fd, NULL, 0, 0));
    one("fdatasync", request(IOCB_CMD_FDSYNC, fd, NULL, 0, 0));
    N(lseek(fd, 0, SEEK_CUR));
    N(lseek(fd, 0, SEEK_END));
    one("bad buffer", request(IOCB_CMD_PREAD, fd, BAD, 10, 0));
    one("negative offset", request(IOCB_CMD_PREAD, fd, back, 10, -1));
    one("too long", request(IOCB_CMD_PREAD, fd, back, ~0ul, 0));
    one("closed", request(IOCB_CMD_PREAD, 999, back, 10, 0));
    one("unknown", request(77, fd, back, 10, 0));
    struct iocb odd = request(IOCB_CMD_PREAD, fd, back, 10, 0);
    odd.aio_reserved2 = 1;
    one("reserved", odd);
    odd = request(IOCB_CMD_PREAD, fd, back, 10, 0);
    odd.aio_rw_flags = 1 << 20;
    one("unknown flag", odd);
    int reader = MUST(open("file", O_RDONLY)), directory = MUST(open(".", O_RDONLY));
    one("read-only", request(IOCB_CMD_PWRITE, reader, text, 5, 0));
    one("directory", request(IOCB_CMD_PREAD, directory, back, 5, 0));

    PART("pipes");
    int pipe_[2];
    MUST(pipe(pipe_));
    one("to a pipe", request(IOCB_CMD_PWRITE, pipe_[1], text, 5, 0));
    one("from a pipe", request(IOCB_CMD_PREAD, pipe_[0], back, 64, 0));
    one("fsync of a pipe", request(IOCB_CMD_FSYNC, pipe_[0], NULL, 0, 0));

    PART("several");
    struct iocb many[3] = {request(IOCB_CMD_PREAD, fd, back, 3, 0), request(IOCB_CMD_PREAD, 999, back, 3, 0), request(IOCB_CMD_PREAD, fd, back, 3, 0)};
    struct iocb *list[] = {&many[0], &many[1], &many[2]};
    struct io_event events[4];
    struct timespec none = {0, 0}, soon = {0, 20000000};
    T(io_submit(context, 3, list));
    T(io_getevents(context, 0, 4, events, &none));
    T(io_getevents(context, 1, 4, events, &none));
    T(io_getevents(context, 2, 1, events, &none));
    T(io_getevents(context, -1, 1, events, &none));
    T(io_getevents(context, 1, 1, events, &soon));
    T(io_submit(context, 1, list));
    T(io_getevents(context, 1, 1, BAD, &none));
    T(io_getevents(context, 1, 1, events, BAD));
    T(io_getevents(context, 2, 4, events, &soon));
    T(io_cancel(context, &many[0], events));
    T(io_cancel(context, BAD, events));
    signal(SIGALRM, on_alarm);
    struct itimerval timer = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    T(io_getevents(context, 1, 1, events, NULL));

    PART("event counters");
    int counter = MUST(eventfd(0, 0));
    odd = request(IOCB_CMD_PREAD, fd, back, 10, 0);
    odd.aio_flags = IOCB_FLAG_RESFD;
    odd.aio_resfd = counter;
    one("told", odd);
    one("told", odd);
    uint64_t count = 0;
    T(read(counter, &count, 8));
    N(count);
    odd.aio_resfd = fd;
    one("no counter", odd);
    odd.aio_resfd = 999;
    one("closed counter", odd);

    PART("a forked child");
    fflush(stdout);
    CHILD("child", T(io_submit(context, 0, NULL)));

    PART("end");
    T(io_destroy(context));
    T(io_destroy(context));
    T(io_getevents(context, 0, 1, events, &none));
    return 0;
}

// Requests that end when a file is ready: IOCB_CMD_POLL of io_submit(2).
#include "check.h"
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static aio_context_t context;
static struct timespec none = {0, 0}, long_ = {10, 0};

static long submit(struct iocb *request) { return syscall(SYS_io_submit, context, 1, &request); }
static long cancel(struct iocb *request) {
    struct io_event event;
    return syscall(SYS_io_cancel, context, request, &event);
}

static struct iocb request(int fd, int events) {
    return (struct iocb){.aio_data = 7 + events, .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = fd, .aio_buf = events};
}

static void collect(const char *what, struct timespec *timeout) {
    struct io_event events[4];
    long got = syscall(SYS_io_getevents, context, 1, 4, events, timeout);
    if (got < 0)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: %ld\n", what, got);
    // Linux adds other events that came at the same moment.
    for (long i = 0; i < got; i++)
        printf("  data %lld, events %#llx\n", (long long)events[i].data, (long long)events[i].res & (POLLIN | POLLOUT | POLLERR | POLLHUP));
}

static void after_a_while(int fd, const char *bytes, int len) {
    if (MUST(fork()) == 0) {
        sleep_ms(30);
        if (len == 0) _exit(0);
        _exit(write(fd, bytes, len) != len);
    }
}

int main(void) {
    MUST(syscall(SYS_io_setup, 4, &context));
    int pipe_[2], pair[2], counter = MUST(eventfd(0, 0));
    MUST(pipe(pipe_));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));

    PART("ready at once");
    struct iocb r = request(pipe_[1], POLLOUT | POLLIN);
    T(submit(&r));
    collect("writable", &none);
    r = request(pair[0], POLLOUT);
    T(submit(&r));
    collect("socket", &none);
    int file = MUST(open("f", O_CREAT | O_RDWR, 0600));
    r = request(file, POLLIN);
    T(submit(&r));
    collect("file", &none);

    PART("ready later");
    r = request(pipe_[0], POLLIN);
    T(submit(&r));
    collect("empty", &none);
    after_a_while(pipe_[1], "abc", 3);
    collect("pipe", &long_);
    MUST(wait(NULL));
    collect("only once", &none);
    struct iocb both[] = {request(pair[0], POLLIN), request(counter, POLLIN)};
    T(submit(&both[0]));
    T(submit(&both[1]));
    MUST(eventfd_write(counter, 5));
    collect("counter", &long_);
    after_a_while(pair[1], "x", 1);
    collect("socket", &long_);
    MUST(wait(NULL));

    PART("told by a counter");
    eventfd_t value;
    MUST(eventfd_read(counter, &value));
    char byte[4];
    MUST(read(pipe_[0], byte, 3));
    r = request(pipe_[0], POLLIN);
    r.aio_flags = IOCB_FLAG_RESFD, r.aio_resfd = counter;
    T(submit(&r));
    after_a_while(pipe_[1], "abc", 3);
    struct pollfd entry = {counter, POLLIN, 0};
    T(poll(&entry, 1, 10000));
    MUST(eventfd_read(counter, &value));
    N(value);
    collect("pipe", &none);
    MUST(wait(NULL));

    PART("hang-up");
    MUST(read(pipe_[0], byte, 3));
    r = request(pipe_[0], 0);
    T(submit(&r));
    close(pipe_[1]);
    collect("pipe", &long_);

    PART("cancel");
    MUST(read(pair[0], byte, 1));
    r = request(pair[0], POLLIN);
    T(submit(&r));
    struct iocb other = r;
    T(cancel(&other));
    T(cancel(&r));
    collect("cancelled", &long_);
    T(cancel(&r));
    T(submit(&r));
    MUST(write(pair[1], "x", 1));
    collect("again", &long_);

    PART("errors");
    r = request(99, POLLIN);
    T(submit(&r));
    r = request(pair[0], 0x10000);
    T(submit(&r));
    r = request(pair[0], POLLIN);
    r.aio_nbytes = 1;
    T(submit(&r));
    r = request(pair[0], POLLIN);
    r.aio_offset = 1;
    T(submit(&r));
    r = request(pair[0], POLLIN);
    r.aio_rw_flags = RWF_HIPRI;
    T(submit(&r));

    PART("end");
    MUST(read(pair[0], byte, 1));
    r = request(pair[0], POLLIN);
    T(submit(&r));
    T(syscall(SYS_io_destroy, context));
    T(write(pair[1], "x", 1));
    return 0;
}

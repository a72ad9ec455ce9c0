// Programs that make as many objects of one kind as they can get: each kind ends with an error of a call, and once the
// program has freed all of them, the pod works on.
#define _GNU_SOURCE
#include "guest.h"
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>

// A bound for kinds that the pod limits by nothing but memory, so that a large pod ends as well.
#define MANY 4000000
#define LIMITED_BY(e)                                                                                                  \
    ((e) == ENOMEM || (e) == ENOBUFS || (e) == ENFILE || (e) == EMFILE || (e) == EAGAIN || (e) == ENOSPC ||            \
     (e) == EADDRINUSE || (e) == ETOOMANYREFS || (e) == ENOLCK || (e) == EDQUOT || (e) == E2BIG)

// How many objects there were, and the error that ended it.
static long made;
static int ended_by;
static int ended(long result) {
    if (result >= 0) return ++made >= MANY;
    ended_by = errno;
    return 1;
}

static void fill(int (*make)(void)) {
    while (!ended(make())) {}
}

static int unix_stream(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static int unix_datagram(void) { return socket(AF_UNIX, SOCK_DGRAM, 0); }
static int tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int tcp6(void) { return socket(AF_INET6, SOCK_STREAM, 0); }
static int udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static int netlink(void) { return socket(AF_NETLINK, SOCK_RAW, 0); }
static int pair(void) {
    int fds[2];
    return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds);
}
static int pair_with_data(void) {
    static char block[4000];
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds) < 0) return -1;
    while (send(fds[0], block, 1, 0) > 0) {}
    return errno == EAGAIN ? 0 : -1;
}
static int listener(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? fd : listen(fd, 10);
}
static int a_pipe(void) {
    int fds[2];
    return pipe(fds);
}
static int full_pipe(void) {
    static char block[65536];
    int fds[2];
    if (pipe2(fds, O_NONBLOCK) < 0) return -1;
    return write(fds[1], block, sizeof block) < 0 ? -1 : 0;
}
static int an_eventfd(void) { return eventfd(0, 0); }
static int a_timerfd(void) {
    struct itimerspec far = {.it_value.tv_sec = 1000};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    return fd < 0 ? fd : timerfd_settime(fd, 0, &far, 0);
}
static int a_signalfd(void) {
    sigset_t none;
    sigemptyset(&none);
    return signalfd(-1, &none, 0);
}
static int an_epoll(void) { return epoll_create1(0); }
static int an_inotify(void) { return inotify_init(); }
static int a_memfd(void) { return syscall(SYS_memfd_create, "m", 0); }
static int a_terminal(void) { return open("/dev/ptmx", O_RDWR | O_NOCTTY); }
static int a_proc_file(void) { return open("/proc/self/maps", O_RDONLY); }
static int a_read_proc_file(void) {
    char byte;
    int fd = open("/proc/self/status", O_RDONLY);
    return fd < 0 ? fd : read(fd, &byte, 1) < 0 ? -1 : 0;
}
static int a_directory(void) {
    char room[512];
    int fd = open("/usr/bin", O_RDONLY | O_DIRECTORY);
    return fd < 0 ? fd : syscall(SYS_getdents64, fd, room, sizeof room) < 0 ? -1 : 0;
}
static int a_pidfd(void) { return syscall(SYS_pidfd_open, getpid(), 0); }

static int item_epoll, item_source;
static int an_epoll_item(void) {
    if (!item_epoll) item_epoll = epoll_create1(0), item_source = eventfd(0, 0);
    struct epoll_event event = {.events = EPOLLIN};
    int fd = dup(item_source);
    return fd < 0 ? fd : epoll_ctl(item_epoll, EPOLL_CTL_ADD, fd, &event);
}
static int watcher, watch_number;
static int a_watch(void) {
    char name[64];
    if (!watcher) watcher = inotify_init(), mkdir("/tmp/watched", 0700);
    sprintf(name, "/tmp/watched/%d", watch_number++);
    if (mknod(name, S_IFREG | 0600, 0) < 0) return -1;
    return inotify_add_watch(watcher, name, IN_ALL_EVENTS);
}
static int a_posix_timer(void) {
    timer_t timer;
    struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
    struct itimerspec far = {.it_value.tv_sec = 1000};
    return timer_create(CLOCK_MONOTONIC, &quiet, &timer) < 0 ? -1 : timer_settime(timer, 0, &far, 0);
}
static int a_process(void) {
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    return child;
}
static int number;
static int a_name(const char *directory) {
    static char name[300];
    return sprintf(name, "%s/%0200d", directory, number++), open(name, O_RDONLY);
}
static int a_missing_name(void) {
    // Names that do not exist: the cache of them gives way.
    if (a_name("/usr") < 0 && errno == ENOENT) return number > 300000 ? (errno = ENOSPC, -1) : 0;
    return -1;
}
static int a_file(void) {
    char name[64];
    sprintf(name, "/tmp/%d", number++);
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    if (fd < 0) return -1;
    close(fd);
    return 0;
}
static int a_tree(void) {
    char name[64];
    static int made_root;
    if (!made_root++) mkdir("/tmp/tree", 0700);
    sprintf(name, "/tmp/tree/%d", number++);
    return mkdir(name, 0700);
}
static int a_symlink(void) {
    static char target[4000], name[64];
    memset(target, 'x', sizeof target - 1);
    sprintf(name, "/tmp/%d", number++);
    return symlink(target, name);
}
static int an_attribute(void) {
    static char value[4000];
    char name[64], attribute[64];
    if (number % 10 == 0) {
        sprintf(name, "/tmp/%d", number / 10);
        if (mknod(name, S_IFREG | 0600, 0) < 0) return -1;
    }
    sprintf(name, "/tmp/%d", number / 10);
    sprintf(attribute, "user.%d", number++ % 10);
    return setxattr(name, attribute, value, sizeof value, 0);
}
// Once, a namespace of its own, which ends with the program.
static int own_mounts(void) {
    static int is_own;
    mkdir("/tmp/m", 0755);
    if (!is_own && (unshare(CLONE_NEWNS) < 0 || mount("x", "/tmp/m", "tmpfs", 0, 0) < 0)) return -1;
    is_own = 1;
    return 0;
}
static int a_mount(void) {
    char name[32];
    sprintf(name, "/tmp/m/%d", number++);
    return own_mounts() < 0 || mkdir(name, 0755) < 0 ? -1 : mount("x", name, "tmpfs", 0, 0);
}
static int shared_mounts(void) {
    if (own_mounts() < 0) return -1;
    mkdir("/tmp/m/in", 0755);
    mount(0, "/tmp/m", 0, MS_SHARED, 0);
    return mount("/tmp/m", "/tmp/m/in", 0, MS_BIND | MS_REC, 0);
}
static int a_mount_namespace(void) {
    return unshare(CLONE_NEWNS) < 0 ? -1 : open("/proc/self/ns/mnt", O_RDONLY);
}
static int a_queue(void) {
    char name[64];
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
    sprintf(name, "/q%d", number++);
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
    if (queue < 0) return -1;
    static char message[8192];
    for (int i = 0; i < 10; i++)
        if (mq_send(queue, message, sizeof message, 0) < 0) return -1;
    return 0;
}
static int a_message_queue(void) {
    static struct { long type; char text[8000]; } message = {1, {0}};
    int queue = msgget(IPC_PRIVATE, 0600);
    if (queue < 0) return -1;
    msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT);
    return 0;
}
static int a_semaphore(void) {
    int set = semget(IPC_PRIVATE, 32000, 0600);
    struct sembuf up = {31999, 1, SEM_UNDO};
    return set < 0 ? -1 : semop(set, &up, 1);
}
static int a_segment(void) {
    int segment = shmget(IPC_PRIVATE, 1 << 16, 0600);
    if (segment < 0) return -1;
    char *at = shmat(segment, 0, 0);
    if (at == (char *)-1) return -1;
    memset(at, 1, 1 << 16);
    shmdt(at);
    return 0;
}
static int a_signal(void) {
    union sigval value = {0};
    return sigqueue(getpid(), SIGRTMIN, value);
}
static int locked;
static int a_record_lock(void) {
    if (!locked) locked = open("/tmp/locked", O_CREAT | O_RDWR, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 2l * number++, .l_len = 1};
    return fcntl(locked, F_SETLK, &lock);
}
// A lock of the whole file in more and more parts.
static int a_lock_split(void) {
    static int file;
    struct flock lock = {.l_type = F_WRLCK};
    if (!file) {
        file = open("/tmp/split", O_CREAT | O_RDWR, 0600);
        if (fcntl(file, F_SETLK, &lock) < 0) return -1;
    }
    lock = (struct flock){.l_type = F_UNLCK, .l_start = 2l * number++ + 1, .l_len = 1};
    return fcntl(file, F_SETLK, &lock);
}
static int an_open_lock(void) {
    int fd = open("/tmp/flocked", O_CREAT | O_RDWR, 0600);
    return fd < 0 ? fd : flock(fd, LOCK_SH);
}
static int a_filter(void) {
    static struct sock_filter code[4000];
    for (int i = 0; i < 4000; i++) code[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {4000, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
static int a_context(void) {
    aio_context_t context = 0;
    return syscall(SYS_io_setup, 1000, &context);
}
static int a_mapping(void) {
    static int odd;
    return mmap(0, 4096, PROT_READ | (odd++ % 2 ? PROT_WRITE : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1
                                                                                                                 : 0;
}
// One page of a file in each 2 MiB: a table of its own.
static int a_table(void) {
    static char *at = (char *)0x10000000000;
    static int file = -1;
    if (file < 0) file = open("/proc/self/exe", O_RDONLY);
    if (number++ > 20000) return errno = ENOSPC, -1;
    char *page = mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    at += 2 << 20;
    if (page == MAP_FAILED) return -1;
    // Not a load: what can't be had is told.
    return madvise(page, 4096, 22 /* MADV_POPULATE_READ */);
}
// Every second page is a guard page. When there is no room for another one, stacks grow past guard pages.
static sigjmp_buf faulted;
static void jump_out(int signal) { siglongjmp(faulted, signal); }
static int a_guard(void) {
    enum { STACKS = 32, GUARD_INSTALL = 102 };
    static char *at, *stacks[STACKS];
    if (!at) {
        at = mmap(0, 1l << 40, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return -1;
        for (int i = 0; i < STACKS; i++) {
            char *room = mmap(0, 8 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            stacks[i] = room + (6 << 20);
            munmap(room, 8 << 20);
            if (mmap(stacks[i], 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1,
                     0) == MAP_FAILED || madvise(stacks[i], 4096, GUARD_INSTALL) < 0)
                return -1;
        }
    }
    at += 8192;
    if (madvise(at, 4096, GUARD_INSTALL) == 0) return 0;
    int error = errno;
    struct sigaction action = {.sa_handler = jump_out, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    for (int i = 0; i < STACKS; i++)
        if (!sigsetjmp(faulted, 1)) *(volatile char *)(stacks[i] - 4096) = 1;
    errno = error;
    return -1;
}
static void *waits(void *argument) {
    pause();
    return argument;
}
static int a_thread(void) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    int error = pthread_create(&thread, &small, waits, 0);
    return error ? (errno = error, -1) : 0;
}
// Descriptors in messages that nobody takes.
static int in_flight(void) {
    static int ends[2];
    union { char room[CMSG_SPACE(100 * sizeof(int))]; struct cmsghdr align; } control = {0};
    if (number++ % 10 == 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends) < 0) return -1;
    int file = eventfd(0, 0);
    if (file < 0) return -1;
    char byte = 0;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(100 * sizeof(int));
    for (int i = 0; i < 100; i++) ((int *)CMSG_DATA(head))[i] = file;
    long sent = sendmsg(ends[0], &message, 0);
    int error = errno;
    close(file);
    errno = error;
    return sent < 0 && errno == EAGAIN ? 0 : sent < 0 ? -1 : 0;
}
static int waiting_connection(void) {
    static int server, address_length = sizeof(struct sockaddr_in);
    static struct sockaddr_in address = {.sin_family = AF_INET};
    if (!server) {
        server = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(server, (void *)&address, sizeof address) < 0 || listen(server, 4096) < 0) return -1;
        getsockname(server, (void *)&address, (socklen_t *)&address_length);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (connect(fd, (void *)&address, sizeof address) < 0 && errno != EINPROGRESS) return -1;
    static char block[65536];
    int end = accept(server, 0, 0);
    if (end < 0) return -1;
    send(fd, block, sizeof block, MSG_DONTWAIT);
    return 0;
}
static int a_datagram(void) {
    static int from;
    static struct sockaddr_in address;
    static char block[1000];
    socklen_t length = sizeof address;
    if (!from) from = socket(AF_INET, SOCK_DGRAM, 0);
    int to = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (to < 0 || bind(to, (void *)&any, sizeof any) < 0) return -1;
    getsockname(to, (void *)&address, &length);
    for (int i = 0; i < 50; i++)
        if (sendto(from, block, sizeof block, MSG_DONTWAIT, (void *)&address, length) < 0 && errno != EAGAIN) return -1;
    return 0;
}

// Objects of namespaces, file systems and rules.
static int a_large_pipe(void) {
    static char block[65536];
    int fds[2];
    if (pipe2(fds, O_NONBLOCK) < 0) return -1;
    fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
    while (write(fds[1], block, sizeof block) > 0) {}
    return errno == EAGAIN ? 0 : -1;
}
static void *waits_with_groups(void *argument) {
    static unsigned groups[65536];
    for (unsigned i = 0; i < 65536; i++) groups[i] = i;
    *(volatile int *)argument = syscall(SYS_setgroups, 65536, groups) < 0 ? errno : -1;
    pause();
    return 0;
}
static int a_list_of_groups(void) {
    volatile int *answer = calloc(1, sizeof *answer);
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    int error = answer ? pthread_create(&thread, &small, waits_with_groups, (void *)answer) : ENOMEM;
    if (error) return errno = error, -1;
    while (*answer == 0) sched_yield();
    return *answer == -1 ? 0 : (errno = *answer, -1);
}
static int a_namespace(int kind, const char *name) { return unshare(kind) < 0 ? -1 : open(name, O_RDONLY); }
static int a_uts_namespace(void) { return a_namespace(CLONE_NEWUTS, "/proc/self/ns/uts"); }
static int an_ipc_namespace(void) { return a_namespace(CLONE_NEWIPC, "/proc/self/ns/ipc"); }
static int a_net_namespace(void) { return a_namespace(CLONE_NEWNET, "/proc/self/ns/net"); }
static int a_user_namespace(void) {
    int made[2];
    if (pipe(made) < 0) return -1;
    pid_t child = fork();
    if (child == 0) {
        int error = unshare(CLONE_NEWUSER) < 0 ? errno : 0;
        int map = open("/proc/self/uid_map", O_WRONLY);
        dprintf(map, "0 0 1\n");
        write(made[1], &error, sizeof error);
        for (;;) pause();
    }
    close(made[1]);
    int error = errno;
    if (child > 0 && read(made[0], &error, sizeof error) != sizeof error) error = ENOMEM;
    close(made[0]);
    return child < 0 || error ? (errno = error, -1) : 0;
}
static int a_pid_namespace(void) {
    if (unshare(CLONE_NEWPID) < 0) return -1;
    return a_process();
}
static int a_context_of_mount(void) {
    int fd = syscall(430 /* fsopen */, "tmpfs", 0);
    static char text[250];
    memset(text, 'x', sizeof text - 1);
    if (fd >= 0) syscall(431 /* fsconfig */, fd, 1, "source", text, 0);
    return fd;
}
static int a_detached_mount(void) { return syscall(428 /* open_tree */, AT_FDCWD, "/tmp", 1 | O_CLOEXEC); }
static int an_overlay(void) {
    char name[64], options[200];
    sprintf(name, "/tmp/m/%d", number++);
    if (own_mounts() < 0) return -1;
    mkdir("/tmp/m/lower", 0755), mkdir("/tmp/m/lower2", 0755);
    sprintf(options, "lowerdir=/tmp/m/lower:/tmp/m/lower2");
    return mkdir(name, 0755) < 0 ? -1 : mount("x", name, "overlay", 0, options);
}
static int a_ruleset(void) {
    struct { unsigned long fs, net, scoped; } rules = {1, 1, 0};
    int fd = syscall(444 /* landlock_create_ruleset */, &rules, sizeof rules, 0);
    for (unsigned long port = 0; fd >= 0 && port < 100; port++) {
        struct { unsigned long access, port; } rule = {1, port};
        if (syscall(445 /* landlock_add_rule */, fd, 2, &rule, 0) < 0) return -1;
    }
    return fd;
}
static int a_rule(void) {
    static int fd;
    struct { unsigned long fs, net, scoped; } rules = {1, 1, 0};
    if (!fd) fd = syscall(444, &rules, sizeof rules, 0);
    struct { unsigned long access, port; } rule = {1, number++};
    if (number > 65535) return errno = ENOSPC, -1;
    return syscall(445, fd, 2, &rule, 0);
}
static int a_socket_filter(void) {
    static struct sock_filter code[4000];
    for (int i = 0; i < 4000; i++) code[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {4000, code};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return fd < 0 ? fd : setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}
static int a_membership(void) {
    static int fd;
    struct ip_mreqn wish = {.imr_multiaddr.s_addr = htonl(0xe8000000 + number), .imr_address.s_addr = htonl(INADDR_LOOPBACK)};
    if (number++ % 20 == 0) fd = socket(AF_INET, SOCK_DGRAM, 0);
    return fd < 0 ? fd : setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wish, sizeof wish);
}
static int a_directory_notice(void) {
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY);
    return fd < 0 ? fd : fcntl(fd, F_NOTIFY, 0x80000000u | 4);
}
static int a_poll_request(void) {
    static aio_context_t context;
    static int source;
    if (number++ % 1000 == 0) {
        context = 0, source = eventfd(0, 0);
        if (source < 0 || syscall(SYS_io_setup, 1000, &context) < 0) return -1;
    }
    struct iocb request = {.aio_lio_opcode = 5 /* IOCB_CMD_POLL */, .aio_fildes = source, .aio_buf = POLLIN}, *list = &request;
    return syscall(SYS_io_submit, context, 1, &list) < 1 ? -1 : 0;
}
static int a_nameless_file(void) { return open("/tmp", O_TMPFILE | O_RDWR, 0600); }
static int a_link(void) {
    char name[300];
    if (number == 0 && mknod("/tmp/0", S_IFREG | 0600, 0) < 0) return -1;
    sprintf(name, "/tmp/%d", ++number);
    if (number > 100000) return errno = ENOSPC, -1;
    return link("/tmp/0", name);
}
static int an_access_list(void) {
    static unsigned char list[4 + 8 * 1000];
    char name[64];
    sprintf(name, "/tmp/%d", number++);
    memset(list, 0, sizeof list);
    list[0] = 2;
    unsigned at = 4;
    const unsigned char tags[] = {1, 4, 16, 32};
    for (unsigned i = 0, user = 0; i < 4; i++) {
        for (unsigned n = 0; n < 1; n++, at += 8) list[at] = tags[i], list[at + 2] = 7, memset(list + at + 4, 255, 4);
        for (; i == 0 && user < 500; user++, at += 8) list[at] = 2, list[at + 2] = 7, memcpy(list + at + 4, &user, 4);
    }
    if (mknod(name, S_IFREG | 0600, 0) < 0) return -1;
    return setxattr(name, "system.posix_acl_access", list, at, 0);
}
static int a_large_attribute(void) {
    static char value[65536];
    char name[64];
    sprintf(name, "/tmp/%d", number++);
    if (mknod(name, S_IFREG | 0600, 0) < 0) return -1;
    return setxattr(name, "user.large", value, sizeof value, 0);
}
static int a_waiting_unix_connection(void) {
    static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\0listener"};
    char path[100];
    if (number % 4000 == 0) {
        int server = socket(AF_UNIX, SOCK_STREAM, 0);
        snprintf(path, sizeof path, "listener%d", number);
        strcpy(address.sun_path + 1, path);
        if (bind(server, (void *)&address, sizeof address) < 0 || listen(server, 4096) < 0) return -1;
    }
    number++;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    return fd < 0 ? fd : connect(fd, (void *)&address, sizeof address);
}
static int an_open_range_lock(void) {
    static int fd;
    struct flock lock = {.l_type = F_WRLCK, .l_start = 2l * number++, .l_len = 1};
    if (!fd) fd = open("/tmp/locked", O_CREAT | O_RDWR, 0600);
    return fcntl(fd, 37 /* F_OFD_SETLK */, &lock);
}
static void *waits_for_lock(void *argument) {
    struct flock lock = {.l_type = F_WRLCK, .l_start = 1, .l_len = 1};
    int fd = open("/tmp/locked", O_RDWR);
    if (fd < 0) return argument;
    fcntl(fd, 38 /* F_OFD_SETLKW */, &lock);
    pause();
    return argument;
}
static int a_waiter_for_a_lock(void) {
    static int fd;
    struct flock lock = {.l_type = F_WRLCK, .l_start = 0, .l_len = 0};
    if (!fd) fd = open("/tmp/locked", O_CREAT | O_RDWR, 0600), fcntl(fd, 37, &lock);
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    int error = pthread_create(&thread, &small, waits_for_lock, 0);
    return error ? (errno = error, -1) : 0;
}
static int an_attachment(void) {
    static int segment = -1;
    if (segment < 0) segment = shmget(IPC_PRIVATE, 4096, 0600), shmat(segment, 0, 0), shmctl(segment, IPC_RMID, 0);
    if (number++ > 10000) return errno = ENOSPC, -1;
    return shmat(segment, 0, 0) == (void *)-1 ? -1 : 0;
}
static int a_sealed_file(void) {
    int fd = syscall(SYS_memfd_create, "sealed", 2 /* MFD_ALLOW_SEALING */);
    if (fd < 0 || ftruncate(fd, 1l << 40) < 0 || write(fd, "x", 1) < 0) return -1;
    return fcntl(fd, 1033 /* F_ADD_SEALS */, 15);
}
static int an_event_of_a_file(void) {
    static int from;
    char name[300];
    if (!watcher || number % 10000 == 0) watcher = inotify_init(), mkdir("/tmp/watched", 0700), inotify_add_watch(watcher, "/tmp/watched", IN_ALL_EVENTS);
    sprintf(name, "/tmp/watched/%d", number++ % 100);
    if (watcher < 0) return -1;
    from = open(name, O_CREAT | O_RDWR, 0600);
    if (from < 0) return -1;
    close(from);
    return number > 40000 ? (errno = ENOSPC, -1) : 0;
}
static int an_error_of_a_socket(void) {
    static int fd;
    struct sockaddr_in closed = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (number++ % 1000 == 0) {
        fd = socket(AF_INET, SOCK_DGRAM, 0);
        if (fd < 0) return -1;
        setsockopt(fd, IPPROTO_IP, IP_RECVERR, &(int){1}, sizeof(int));
    }
    static char block[1400];
    if (sendto(fd, block, sizeof block, MSG_DONTWAIT, (void *)&closed, sizeof closed) < 0 && errno != ECONNREFUSED && errno != EAGAIN) return -1;
    return number > 100000 ? (errno = ENOSPC, -1) : 0;
}
static int an_answer_of_netlink(void) {
    static int fd;
    struct { unsigned length; unsigned short type, flags; unsigned sequence, port; unsigned char family, rest[15]; } request = {
        sizeof request, 18 /* RTM_GETLINK */, 0x301, 1, 0, 0, {0}};
    if (number++ % 100 == 0) fd = socket(AF_NETLINK, SOCK_RAW, 0);
    if (fd < 0) return -1;
    if (send(fd, &request, sizeof request, MSG_DONTWAIT) < 0 && errno != EBUSY && errno != EAGAIN) return -1;
    return number > 100000 ? (errno = ENOSPC, -1) : 0;
}
static void *waits_for_owner(void *argument) {
    syscall(SYS_futex, argument, 6 /* FUTEX_LOCK_PI */, 0, 0, 0, 0);
    pause();
    return argument;
}
static int a_waiter_for_an_owner(void) {
    static int word;
    word |= (int)syscall(SYS_gettid);
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    int error = pthread_create(&thread, &small, waits_for_owner, &word);
    return error ? (errno = error, -1) : 0;
}
static int a_page_in_a_pipe(void) {
    static int file = -1, fds[2];
    if (file < 0) file = open("/proc/self/exe", O_RDONLY);
    if (number++ % 16 == 0 && pipe(fds) < 0) return -1;
    loff_t offset = 0;
    return splice(file, &offset, fds[1], 0, 1, SPLICE_F_NONBLOCK);
}
static int a_large_program(void) {
    static char *arguments[2001], text[1000];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 2000; i++) arguments[i] = text;
    pid_t child = vfork();
    if (child == 0) {
        execve("/bin/sleep", (char *[]){"sleep", "1000", 0}, arguments);
        _exit(errno);
    }
    int status;
    usleep(1000);
    if (child > 0 && waitpid(child, &status, WNOHANG) == child) return errno = WIFEXITED(status) ? WEXITSTATUS(status) : ENOMEM, -1;
    return child;
}
static int a_traced_child(void) {
    pid_t child = a_process();
    return child < 0 ? child : ptrace(0x4206 /* PTRACE_SEIZE */, child, 0, 0) < 0 ? -1 : 0;
}

// Calls whose size the program chooses.
static int large_sizes(void) {
    static char room[1 << 16];
    struct rlimit most = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_NOFILE, &most);
    struct pollfd *polled = mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    poll(polled, (2 << 20) / sizeof *polled, 0);
    syscall(SYS_select, 1 << 20, polled, polled, polled, &(struct timeval){0, 0});
    dup2(1, 1000000);
    pid_t child = fork();
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, 0, 0);
    close(1000000);
    semget(IPC_PRIVATE, 32000, 0600);
    setxattr("/tmp", "user.large", room, sizeof room, 0);
    syscall(SYS_sched_setaffinity, 0, 1 << 30, polled);
    syscall(SYS_setgroups, 65536, polled);
    syscall(SYS_getgroups, 65536, polled);
    struct iovec *pieces = (void *)polled;
    for (int i = 0; i < 1024; i++) pieces[i] = (struct iovec){room, sizeof room};
    process_vm_readv(getpid(), pieces, 1024, pieces, 1024, 0);
    errno = ENOMEM;
    return -1;
}

// Calls that go over all objects, while there is hardly any memory: they may fail.
static void read_all(const char *name) {
    static char room[1 << 16];
    int fd = open(name, O_RDONLY);
    if (fd < 0) return;
    while (read(fd, room, sizeof room) > 0) {}
    close(fd);
}
static void list(const char *name) {
    static char room[1 << 16];
    int fd = open(name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    while (syscall(SYS_getdents64, fd, room, sizeof room) > 0) {}
    close(fd);
}
static void diagnose(unsigned char family) {
    struct {
        unsigned length;
        unsigned short type, flags;
        unsigned sequence, port;
        unsigned char family, protocol, rest[54];
    } request = {sizeof request, 20 /* SOCK_DIAG_BY_FAMILY */, 0x301 /* NLM_F_REQUEST | NLM_F_DUMP */, 1, 0, family, IPPROTO_TCP, {0}};
    static char room[1 << 16];
    memset(request.rest, 255, sizeof request.rest);
    int fd = socket(AF_NETLINK, SOCK_RAW, 4 /* NETLINK_SOCK_DIAG */);
    if (fd < 0) return;
    if (send(fd, &request, sizeof request, 0) > 0)
        while (recv(fd, room, sizeof room, MSG_DONTWAIT) > 0) {}
    close(fd);
}
static void survey(void) {
    static const char *const files[] = {
        "/proc/self/maps", "/proc/self/smaps", "/proc/self/numa_maps", "/proc/self/status", "/proc/self/timers", "/proc/locks",
        "/proc/self/mountinfo", "/proc/self/mounts",
        "/proc/net/unix", "/proc/net/tcp", "/proc/net/udp", "/proc/net/sockstat", "/proc/meminfo", "/proc/self/cmdline",
        "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cgroup.threads", "/proc/sysvipc/shm", "/proc/sysvipc/sem",
    };
    static const char *const directories[] = {"/proc", "/proc/self/fd", "/proc/self/fdinfo", "/proc/self/task", "/proc/self/map_files",
                                              "/tmp", "/tmp/tree", "/tmp/watched", "/dev/pts", "/usr/bin", "/usr"};
    char name[64];
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) read_all(files[i]);
    for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++) list(directories[i]);
    for (int fd = 0; fd < 20; fd++) {
        sprintf(name, "/proc/self/fdinfo/%d", fd);
        read_all(name);
    }
    diagnose(AF_INET), diagnose(AF_INET6), diagnose(AF_UNIX);
    struct epoll_event *events = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    union sigval value = {0};
    if (item_epoll && events != MAP_FAILED) {
        write(item_source, &(long){1}, sizeof(long));
        epoll_wait(item_epoll, events, (1 << 20) / sizeof *events, 0);
        poll(&(struct pollfd){.fd = item_epoll, .events = POLLIN}, 1, 0);
    }
    getpriority(PRIO_USER, 0);
    sigqueue(getpid(), 0, value);
    sync();
}

static const struct kind {
    const char *name;
    int (*make)(void);
} kinds[] = {
    {"unix-stream", unix_stream},   {"unix-datagram", unix_datagram}, {"tcp", tcp},
    {"tcp6", tcp6},                 {"udp", udp},                     {"netlink", netlink},
    {"pairs", pair},                {"pairs-with-data", pair_with_data}, {"listeners", listener},
    {"pipes", a_pipe},              {"full-pipes", full_pipe},        {"eventfds", an_eventfd},
    {"timerfds", a_timerfd},        {"signalfds", a_signalfd},        {"epolls", an_epoll},
    {"inotify", an_inotify},        {"memfds", a_memfd},              {"terminals", a_terminal},
    {"proc-files", a_proc_file},    {"read-proc-files", a_read_proc_file}, {"directories", a_directory},
    {"pidfds", a_pidfd},            {"epoll-items", an_epoll_item},   {"watches", a_watch},
    {"posix-timers", a_posix_timer}, {"processes", a_process},        {"missing-names", a_missing_name},
    {"files", a_file},              {"tree", a_tree},                 {"symlinks", a_symlink},
    {"attributes", an_attribute},   {"mqueues", a_queue},             {"message-queues", a_message_queue},
    {"semaphores", a_semaphore},    {"segments", a_segment},          {"signals", a_signal},
    {"record-locks", a_record_lock}, {"split-locks", a_lock_split}, {"flocks", an_open_lock},
    {"filters", a_filter},
    {"aio", a_context},             {"mappings", a_mapping},          {"tables", a_table},
    {"threads", a_thread},          {"in-flight", in_flight},         {"connections", waiting_connection},
    {"datagrams", a_datagram},      {"large-sizes", large_sizes},     {"mounts", a_mount},
    {"shared-mounts", shared_mounts}, {"mount-namespaces", a_mount_namespace}, {"guards", a_guard},
    {"large-pipes", a_large_pipe},  {"groups", a_list_of_groups},     {"uts-namespaces", a_uts_namespace},
    {"ipc-namespaces", an_ipc_namespace}, {"net-namespaces", a_net_namespace}, {"user-namespaces", a_user_namespace},
    {"pid-namespaces", a_pid_namespace}, {"mount-contexts", a_context_of_mount}, {"detached-mounts", a_detached_mount},
    {"overlays", an_overlay},       {"rulesets", a_ruleset},          {"rules", a_rule},
    {"socket-filters", a_socket_filter}, {"memberships", a_membership}, {"dnotify", a_directory_notice},
    {"aio-polls", a_poll_request},
    {"nameless-files", a_nameless_file}, {"links", a_link},           {"access-lists", an_access_list},
    {"large-attributes", a_large_attribute}, {"unix-connections", a_waiting_unix_connection}, {"ofd-locks", an_open_range_lock},
    {"lock-waiters", a_waiter_for_a_lock}, {"attachments", an_attachment}, {"sealed-files", a_sealed_file},
    {"file-events", an_event_of_a_file}, {"socket-errors", an_error_of_a_socket}, {"netlink-answers", an_answer_of_netlink},
    {"pi-waiters", a_waiter_for_an_owner}, {"pipe-pages", a_page_in_a_pipe}, {"large-programs", a_large_program},
    {"traced", a_traced_child},
};

// What outlives the program that made it goes by this.
static void remove_objects(void) {
    char name[64];
    for (int i = 0; i < 200000; i++) {
        struct shmid_ds segment;
        int id = shmctl(i, SHM_STAT, &segment);
        if (id < 0) break;
        shmctl(id, IPC_RMID, 0);
    }
    for (int i = 0; i < 32768; i++) {
        struct semid_ds set;
        struct msqid_ds queue;
        int id = semctl(i, 0, SEM_STAT, &set);
        if (id >= 0) semctl(id, 0, IPC_RMID);
        id = msgctl(i, MSG_STAT, &queue);
        if (id >= 0) msgctl(id, IPC_RMID, 0);
    }
    for (int i = 0; i < 2000; i++) {
        sprintf(name, "/q%d", i);
        mq_unlink(name);
    }
    for (int i = 0;; i++) {
        int gone = 0;
        sprintf(name, "/tmp/%d", i);
        gone |= unlink(name) == 0;
        sprintf(name, "/tmp/watched/%d", i);
        gone |= unlink(name) == 0;
        sprintf(name, "/tmp/tree/%d", i);
        gone |= rmdir(name) == 0;
        if (!gone && i > 100) break;
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 99;
    int failed = 0, late = 0;
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        // All of them take long: in two halves.
        late |= !strcmp(kinds[k].name, "guards");
        if (strcmp(argv[1], late ? "late" : "early") && strcmp(argv[1], kinds[k].name)) continue;
        int report[2];
        if (pipe(report) < 0) return 2;
        pid_t child = fork();
        if (child < 0) return 3;
        if (child == 0) {
            setpgid(0, 0);
            struct rlimit most = {1 << 20, 1 << 20};
            for (int limit = 0; limit < 16; limit++)
                if (limit == RLIMIT_NOFILE || limit == RLIMIT_NPROC || limit == RLIMIT_SIGPENDING ||
                    limit == RLIMIT_MSGQUEUE || limit == RLIMIT_LOCKS || limit == RLIMIT_MEMLOCK)
                    setrlimit(limit, &most);
            sigset_t queued;
            sigemptyset(&queued);
            sigaddset(&queued, SIGRTMIN);
            sigprocmask(SIG_BLOCK, &queued, 0);
            fill(kinds[k].make);
            long answer[2] = {made, ended_by};
            survey();
            // The same with a little memory, so that files can be opened.
            for (int fd = 100; fd < 3000; fd++) close(fd);
            survey();
            write(report[1], answer, sizeof answer);
            _exit(0);
        }
        close(report[1]);
        setpgid(child, child);
        int status;
        long answer[2] = {0, 0};
        waitpid(child, &status, 0);
        // First: its children have the pipe open, and it may have been killed before it ended them.
        kill(-child, SIGKILL);
        int told = read(report[0], answer, sizeof answer) == sizeof answer;
        close(report[0]);
        while (waitpid(-1, 0, WNOHANG) > 0) {}
        remove_objects();
        int good = told && WIFEXITED(status) && (answer[0] >= MANY || LIMITED_BY(answer[1]));
        // The pod works on: there is memory for a program, and for large things.
        char *piece = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pid_t other = -1;
        for (int tries = 0; tries < 200 && (other = fork()) < 0; tries++) usleep(10000);
        if (other == 0) {
            if (piece != MAP_FAILED) memset(piece, 1, 4 << 20);
            execl("/bin/true", "true", (char *)0);
            _exit(9);
        }
        int other_status = -1;
        if (other > 0) waitpid(other, &other_status, 0);
        munmap(piece, 4 << 20);
        if (other_status) good = 0;
        printf("%-16s %8ld %s; then %d%s\n", kinds[k].name, answer[0], told ? strerror(answer[1]) : "killed",
               other_status, good ? "" : " BAD");
        fflush(stdout);
        failed |= !good;
    }
    return failed;
}

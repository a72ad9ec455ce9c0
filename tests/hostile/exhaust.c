// Programs that take all they can get.
#include "guest.h"
#include <sys/resource.h>

static void *nothing(void *argument) {
    pause();
    return argument;
}

static void memory(void) {
    for (;;) {
        char *piece = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED) exit(errno == ENOMEM ? 0 : 1);
        memset(piece, 1, 1 << 20);
    }
}

static void files_in_memory(void) {
    static char block[1 << 16];
    for (int i = 0;; i++) {
        char name[64];
        sprintf(name, "/tmp/f%d", i);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0) exit(errno == ENOSPC || errno == ENOMEM ? 0 : 1);
        for (int n = 0; n < 64; n++)
            if (write(fd, block, sizeof block) < 0) exit(errno == ENOSPC || errno == ENOMEM ? 0 : 1);
        close(fd);
    }
}

static void processes(void) {
    for (int i = 0;; i++) {
        pid_t child = fork();
        if (child == 0) pause();
        if (child < 0) {
            EXPECT(errno == EAGAIN || errno == ENOMEM, 1);
            EXPECT(i > 50, 1);
            return;
        }
    }
}

static void threads(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (;;) {
        pthread_t thread;
        int error = pthread_create(&thread, &small, nothing, 0);
        if (error) exit(error == EAGAIN || error == ENOMEM ? 0 : 1);
    }
}

static void descriptors(void) {
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    while (open("/etc/passwd", O_RDONLY) >= 0) {}
    EXPECT(errno == EMFILE || errno == ENFILE || errno == ENOMEM, 1);
}

static void mappings(void) {
    for (;;) {
        void *piece = mmap(0, 4096, PROT_READ | (rand() % 2 ? PROT_WRITE : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED) exit(errno == ENOMEM ? 0 : 1);
    }
}

static void bomb(void) {
    for (;;) fork();
}

static void bomb_with_memory(void) {
    for (;;) {
        fork();
        memset(malloc(100000), 1, 100000);
    }
}

static void flood(void) {
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    for (;;) write(1, block, sizeof block), write(2, block, sizeof block);
}

static void deep_stack(void) {
    volatile char here[4096];
    here[0] = 1;
    deep_stack();
    (void)here[0];
}

int main(int argc, char **argv) {
    static const struct attack list[] = {
        {"memory", memory},
        {"files-in-memory", files_in_memory},
        {"processes", processes},
        {"threads", threads},
        {"descriptors", descriptors},
        {"mappings", mappings},
        {"bomb", bomb},
        {"bomb-with-memory", bomb_with_memory},
        {"flood", flood},
        {"deep-stack", deep_stack},
        {0},
    };
    return attack(list, argc, argv);
}

// Paths that several processors walk while others change names, links, permissions and directories: each result is that of
// a state between the last change that was done before the call and the last one that began before its end.
#include "../check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { READERS = 3, RUN_MS = 120, SIZES = 8 };

static atomic_int failures, running;
static atomic_long begun, done;
static char home[PATH_MAX];

static void failed(const char *what, long first, long last, long result) {
    if (failures++ < 5)
        fprintf(stderr, "%s: %ld..%ld gave %ld\n", what, first, last, result);
}

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            failed(#condition, done, begun, errno);                                                                    \
    } while (0)

// What a call must give after a step of the changes.
typedef long state(long step);

// Calls once, and compares.
#define LEGAL(expected, call)                                                                                          \
    do {                                                                                                               \
        long first = done, result = (call), last = begun;                                                              \
        bool is_legal = false;                                                                                         \
        for (long step = first; step <= last && !is_legal; step++)                                                     \
            is_legal = (expected)(step) == result;                                                                     \
        if (!is_legal)                                                                                                 \
            failed(#call, first, last, result);                                                                        \
    } while (0)

// Runs `look` in several threads, and `change` in this one, for a while.
static void beside(const char *name, void *(*look)(void *), void (*change)(long)) {
    pthread_t readers[READERS];
    running = 1;
    begun = done = 0;
    for (long i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, look, (void *)i);
    long end = now_ms() + RUN_MS;
    for (long step = 1; now_ms() < end; step++) {
        begun = step;
        change(step);
        done = step;
        if (step % 8 == 0)
            usleep(step % 64 ? 200 : 2000);
    }
    running = 0;
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    printf("%s: %d failures\n", name, failures);
}

// Size of a file, or the error.
static long size_of(const char *path) {
    struct stat stat_;
    return stat(path, &stat_) ? -errno : stat_.st_size;
}

static long size_of_link(const char *path) {
    struct stat stat_;
    return lstat(path, &stat_) ? -errno : stat_.st_size;
}

static long mode_of(const char *path) {
    struct statx statx_;
    return statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &statx_) ? -errno : statx_.stx_mode & 07777;
}

static long may(const char *path, int mode) { return access(path, mode) ? -errno : 0; }

static long target_of(const char *path) {
    char target[64] = "";
    return readlink(path, target, sizeof target - 1) < 0 ? -errno : target[1] - '0';
}

static long size_opened(const char *path) {
    struct stat stat_;
    int file = open(path, O_RDONLY);
    if (file < 0)
        return -errno;
    NEED(fstat(file, &stat_) == 0);
    NEED(close(file) == 0);
    return stat_.st_size;
}

static const char *absolute(const char *path) {
    static _Thread_local char whole[PATH_MAX + 32];
    snprintf(whole, sizeof whole, "%s/%s", home, path);
    return whole;
}

static void filled(const char *name, long bytes) {
    int made = MUST(open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    MUST(ftruncate(made, bytes));
    close(made);
}

// A file that another one replaces.
static long replaced_size(long step) { return step % SIZES; }

static void *look_at_replaced(void *self) {
    while (running) {
        LEGAL(replaced_size, size_of("d/file"));
        LEGAL(replaced_size, size_of(self ? absolute("d/file") : "./d//file"));
        LEGAL(replaced_size, size_of_link("d/../d/file"));
        LEGAL(replaced_size, size_opened("d/file"));
        NEED(may("d/file", F_OK) == 0);
    }
    return NULL;
}

static void replace(long step) {
    filled("other", step % SIZES);
    MUST(rename("other", "d/file"));
}

// A name that comes and goes.
static long existing_size(long step) { return step % 2 ? 3 : -ENOENT; }
static long existing(long step) { return step % 2 ? 0 : -ENOENT; }

static void *look_at_existing(void *self) {
    (void)self;
    while (running) {
        LEGAL(existing_size, size_of("d/now"));
        LEGAL(existing, may("d/now", R_OK));
        LEGAL(existing_size, size_opened("d/now"));
        LEGAL(existing_size, size_of(absolute("d/now")));
    }
    return NULL;
}

static void come_and_go(long step) { MUST(step % 2 ? link("three", "d/now") : unlink("d/now")); }

// A symbolic link that leads elsewhere.
static long linked(long step) { return step % SIZES; }

static void *look_through_link(void *self) {
    (void)self;
    while (running) {
        LEGAL(linked, size_of("link/file"));
        LEGAL(linked, target_of("link"));
        LEGAL(linked, size_of(absolute("link/file")));
        LEGAL(linked, size_opened("link/file"));
        NEED(size_of_link("link") == 2);
    }
    return NULL;
}

static void relink(long step) {
    char target[] = {'l', (char)('0' + step % SIZES), 0};
    MUST(symlink(target, "newlink"));
    MUST(rename("newlink", "link"));
}

// A directory that moves, with what lies in it, and one that takes its place.
static long moved(long step) { return step % 2 ? 3 : -ENOENT; }
static long away(long step) { return step % 2 ? -ENOENT : 3; }

static void *look_at_moved(void *self) {
    (void)self;
    while (running) {
        LEGAL(moved, size_of("d/up/in/file"));
        LEGAL(away, size_of("up/in/file"));
        LEGAL(moved, size_of(absolute("d/up/in/../in/file")));
        LEGAL(away, size_opened("up/in/file"));
    }
    return NULL;
}

static void move(long step) { MUST(step % 2 ? rename("up", "d/up") : rename("d/up", "up")); }

// Two directories that change places.
static long exchanged(long step) { return step % 2 ? 2 : 1; }

static void *look_at_exchanged(void *self) {
    (void)self;
    while (running) {
        LEGAL(exchanged, size_of("l1/file"));
        LEGAL(exchanged, size_of("l1/../l1/./file"));
        LEGAL(exchanged, size_opened("l1/file"));
    }
    return NULL;
}

static void exchange(long step) {
    (void)step;
    MUST(renameat2(AT_FDCWD, "l1", AT_FDCWD, "l2", RENAME_EXCHANGE));
}

// Permissions of a directory and of a file, for a thread that is not root.
static void become_user(void) {
    // The library's would change all threads.
    if (geteuid() == 0)
        MUST(syscall(SYS_setresuid, 1000, 1000, 1000));
}

static long permitted(long step) { return step % 2 ? 3 : -EACCES; }
static long readable(long step) { return step % 2 ? 0 : -EACCES; }

static void *look_as_user(void *self) {
    (void)self;
    become_user();
    while (running) {
        LEGAL(permitted, size_of("closed/file"));
        LEGAL(readable, may("closed/file", F_OK));
        LEGAL(readable, may("closed", X_OK));
        LEGAL(permitted, size_opened("closed/file"));
    }
    return NULL;
}

static void close_and_open(long step) { MUST(chmod("closed", step % 2 ? 0755 : 0)); }

static void *look_at_file_as_user(void *self) {
    (void)self;
    become_user();
    while (running) {
        LEGAL(readable, may("d/secret", R_OK));
        LEGAL(permitted, size_opened("d/secret"));
        NEED(size_of("d/secret") == 3);
    }
    return NULL;
}

static void hide_and_show(long step) { MUST(chmod("d/secret", step % 2 ? 0644 : 0)); }

// Attributes.
static long given_mode(long step) { return step % 2 ? 0640 : 0600; }

static void *look_at_mode(void *self) {
    (void)self;
    while (running) {
        LEGAL(given_mode, mode_of("three"));
        LEGAL(given_mode, mode_of(absolute("three")));
    }
    return NULL;
}

static void set_mode(long step) { MUST(chmod("three", step % 2 ? 0640 : 0600)); }

// Working directories of threads, each with its own, that others rename.
static void *look_from_directories(void *self) {
    (void)self;
    NEED(unshare(CLONE_FS) == 0);
    for (long i = 0; running; i++) {
        NEED(chdir(i % 2 ? "l3" : "l4") == 0);
        for (int again = 0; again < 5; again++)
            NEED(size_of("file") == (i % 2 ? 3 : 4) && size_of("../l5/file") == 5);
        NEED(chdir("..") == 0);
        for (int again = 0; again < 5; again++)
            NEED(size_of("file") == -ENOENT && size_of("l3/file") == 3);
    }
    return NULL;
}

static void change_nothing_there(long step) { replace(step); }

// Ids of a thread, which it changes itself.
static void *look_with_two_ids(void *self) {
    (void)self;
    bool is_root = geteuid() == 0;
    while (running && is_root) {
        for (int again = 0; again < 5; again++)
            NEED(size_of("private/file") == 3);
        NEED(syscall(SYS_setresuid, -1, 1000, -1) == 0);
        for (int again = 0; again < 5; again++)
            NEED(size_of("private/file") == -EACCES && may("private/file", R_OK) == 0);
        NEED(syscall(SYS_setresuid, -1, 0, -1) == 0);
    }
    return NULL;
}

int main(void) {
    MUST(chmod(".", 0755));
    getcwd(home, sizeof home);
    umask(0);
    MUST(mkdir("d", 0755));
    filled("d/file", 0);
    filled("three", 3);
    MUST(mkdir("up", 0755));
    MUST(mkdir("up/in", 0755));
    filled("up/in/file", 3);
    for (int i = 0; i < SIZES; i++) {
        char name[] = {'l', (char)('0' + i), 0, 0, 0, 0, 0, 0};
        MUST(mkdir(name, 0755));
        strcat(name, "/file");
        filled(name, i);
    }
    MUST(symlink("l0", "link"));
    MUST(mkdir("closed", 0755));
    filled("closed/file", 3);
    MUST(chmod("closed", 0));
    filled("d/secret", 3);
    MUST(chmod("d/secret", 0));
    MUST(mkdir("private", 0700));
    filled("private/file", 3);

    for (int round = 0; round < 2; round++) {
        replace(0);
        beside("replaced", look_at_replaced, replace);
        beside("existing", look_at_existing, come_and_go);
        unlink("d/now");
        relink(0);
        beside("linked", look_through_link, relink);
        beside("moved", look_at_moved, move);
        rename("d/up", "up");
        beside("exchanged", look_at_exchanged, exchange);
        if (size_of("l1/file") == 2)
            exchange(0);
        beside("directory's permissions", look_as_user, close_and_open);
        close_and_open(0);
        beside("file's permissions", look_at_file_as_user, hide_and_show);
        hide_and_show(0);
        set_mode(0);
        beside("mode", look_at_mode, set_mode);
        beside("working directories", look_from_directories, change_nothing_there);
        beside("ids", look_with_two_ids, change_nothing_there);
    }
    MUST(chmod("closed", 0755));
    return 0;
}

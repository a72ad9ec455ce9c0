// The calls of recent Linux versions and of parts that can be left out, with plain and with bad arguments: what
// programs learn when they probe for them.
#include "check.h"
#include <sys/prctl.h>

#define S(number, ...) printf("%s: %s\n", #number "(" #__VA_ARGS__ ")", answer(syscall(number, __VA_ARGS__)))

static const char *answer(long result) { return result == -1 ? check_error(errno) : result == 0 ? "0" : "more"; }

enum {
    nr_open_tree = 428, nr_move_mount, nr_fsopen, nr_fsconfig, nr_fsmount, nr_fspick, nr_pidfd_open, nr_clone3, nr_close_range, nr_openat2, nr_pidfd_getfd,
    nr_faccessat2, nr_process_madvise, nr_epoll_pwait2, nr_mount_setattr, nr_quotactl_fd, nr_landlock_create_ruleset, nr_landlock_add_rule,
    nr_landlock_restrict_self, nr_memfd_secret, nr_process_mrelease, nr_futex_waitv, nr_set_mempolicy_home_node, nr_cachestat, nr_fchmodat2,
    nr_map_shadow_stack, nr_futex_wake, nr_futex_wait, nr_futex_requeue, nr_statmount, nr_listmount, nr_lsm_get_self_attr, nr_lsm_set_self_attr,
    nr_lsm_list_modules, nr_mseal, nr_setxattrat, nr_getxattrat, nr_listxattrat, nr_removexattrat, nr_open_tree_attr, nr_file_getattr,
    nr_file_setattr,
};

int main(void) {
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char buffer[512] = {0};
    put_file("file", "text");
    int fd = MUST(open("file", O_RDWR));
    mkdir("dir", 0755);
    symlink("file", "link");

    PART("mseal");
    S(nr_mseal, page + 1, 4096, 0);
    S(nr_mseal, page, 4096, 1);
    S(nr_mseal, page, 0, 0);
    S(nr_mseal, page, -4096L, 0);
    S(nr_mseal, 0x10000, 4096, 0);
    S(nr_mseal, page, 4096, 0);
    S(nr_mseal, page, 4096, 0);
    T(mprotect(page, 4096, PROT_READ));
    T(munmap(page, 4096));
    T(munmap(page, 8192));
    T(mmap(page, 4096, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    T(mremap(page, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED);
    T(madvise(page, 4096, MADV_DONTNEED));
    T(madvise(page, 4096, MADV_WILLNEED));
    *page = 1;
    char *sealed = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    S(nr_mseal, sealed, 4096, 0);
    T(madvise(sealed, 4096, MADV_DONTNEED));
    T(madvise(sealed, 4096, MADV_FREE));
    T(madvise(sealed, 4096, MADV_WIPEONFORK));
    T(madvise(sealed, 4096, MADV_DONTFORK));
    T(mprotect(sealed, 4096, PROT_READ));
    T(mprotect(sealed, 4096, PROT_NONE));
    T(mlock(sealed, 4096));
    T(munlock(sealed, 4096));
    T(munmap(page + 4096, 4096));
    CHILD("a child's", T(mprotect(sealed, 4096, PROT_NONE)); T(munmap(sealed, 4096)));

    int pipes[2];
    MUST(pipe(pipes));

    PART("extended attributes by descriptor");
    struct { uint64_t value; uint32_t size, flags; } args = {(uintptr_t)"value", 5, 0};
    S(nr_setxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args);
    S(nr_setxattrat, AT_FDCWD, "file", 0, "user.name", &args, 15);
    S(nr_setxattrat, AT_FDCWD, "file", 0, "user.name", &args, 5000);
    S(nr_setxattrat, AT_FDCWD, "file", 1, "user.name", &args, sizeof args);
    S(nr_setxattrat, fd, "", 0, "user.other", &args, sizeof args);
    S(nr_setxattrat, fd, "", AT_EMPTY_PATH, "user.other", &args, sizeof args);
    S(nr_setxattrat, fd, NULL, AT_EMPTY_PATH, "user.other", &args, sizeof args);
    S(nr_setxattrat, -1, "", AT_EMPTY_PATH, "user.other", &args, sizeof args);
    S(nr_setxattrat, AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, "user.link", &args, sizeof args);
    S(nr_setxattrat, AT_FDCWD, "link", 0, "user.link", &args, sizeof args);
    args.flags = 1;
    S(nr_setxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args);
    args.flags = 4;
    S(nr_setxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args);
    args.flags = 0;
    args.value = (uintptr_t)buffer;
    args.size = 64;
    memset(buffer, 0, sizeof buffer);
    T(syscall(nr_getxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args));
    puts(buffer);
    args.size = 2;
    S(nr_getxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args);
    args.size = 0;
    T(syscall(nr_getxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args));
    args.flags = 1;
    S(nr_getxattrat, AT_FDCWD, "file", 0, "user.name", &args, sizeof args);
    args.flags = 0;
    args.size = 64;
    S(nr_getxattrat, AT_FDCWD, "file", 0, "user.missing", &args, sizeof args);
    S(nr_getxattrat, AT_FDCWD, "file", 0, "user.name", &args, 8);
    S(nr_getxattrat, AT_FDCWD, "file", 0, "user.name", BAD, sizeof args);
    S(nr_getxattrat, AT_FDCWD, "missing", 0, "user.name", &args, sizeof args);
    S(nr_getxattrat, AT_FDCWD, "file", 4, "user.name", &args, sizeof args);
    memset(buffer, 0, sizeof buffer);
    T(syscall(nr_listxattrat, AT_FDCWD, "file", 0, buffer, sizeof buffer));
    T(syscall(nr_listxattrat, fd, "", AT_EMPTY_PATH, buffer, 0));
    S(nr_listxattrat, AT_FDCWD, "file", 0, buffer, 3);
    S(nr_listxattrat, AT_FDCWD, "file", 4, buffer, 3);
    S(nr_removexattrat, AT_FDCWD, "file", 4, "user.name");
    S(nr_removexattrat, AT_FDCWD, "file", 0, "user.name");
    S(nr_removexattrat, AT_FDCWD, "file", 0, "user.name");
    S(nr_removexattrat, fd, "", AT_EMPTY_PATH, "user.other");

    PART("attributes of files");
    struct { uint64_t xflags; uint32_t extent, extents, project, cow; } attr;
    memset(&attr, 0x55, sizeof attr);
    S(nr_file_getattr, AT_FDCWD, "file", &attr, sizeof attr, 0);
    N(attr.xflags);
    N(attr.extent);
    N(attr.project);
    S(nr_file_getattr, AT_FDCWD, "file", &attr, 16, 0);
    S(nr_file_getattr, AT_FDCWD, "file", &attr, 8192, 0);
    S(nr_file_getattr, AT_FDCWD, "file", &attr, sizeof attr, 4);
    S(nr_file_getattr, AT_FDCWD, "file", BAD, sizeof attr, 0);
    S(nr_file_getattr, AT_FDCWD, "missing", &attr, sizeof attr, 0);
    S(nr_file_getattr, AT_FDCWD, "link", &attr, sizeof attr, AT_SYMLINK_NOFOLLOW);
    S(nr_file_getattr, fd, "", &attr, sizeof attr, AT_EMPTY_PATH);
    S(nr_file_getattr, pipes[0], "", &attr, sizeof attr, AT_EMPTY_PATH);
    S(nr_file_getattr, AT_FDCWD, "file", &attr, sizeof attr, 0);
    S(nr_file_setattr, AT_FDCWD, "file", &attr, sizeof attr, 0);
    S(nr_file_setattr, AT_FDCWD, "file", &attr, 16, 0);
    S(nr_file_setattr, AT_FDCWD, "file", &attr, sizeof attr, 4);
    PART("others");
    S(nr_map_shadow_stack, 0, 4096, 0);
    S(nr_process_mrelease, -1, 0);
    S(nr_process_mrelease, -1, 1);
    S(nr_set_mempolicy_home_node, 0, 4096, 0, 1);
    S(nr_fchmodat2, AT_FDCWD, "file", 0600, 4);
    S(nr_fchmodat2, AT_FDCWD, "link", 0600, AT_SYMLINK_NOFOLLOW);
    S(nr_fchmodat2, fd, "", 0600, AT_EMPTY_PATH);
    S(468 + 3, 0, 0, 0);
    S(480, 0, 0, 0);
    S(547, 0, 0, 0);
    S(1000, 0, 0, 0);
    S(-1, 0, 0, 0);
    S(423, 0, 0, 0);
    S(SYS_memfd_create, "odd", 0x20);
    S(SYS_memfd_create, "both", 0x18);
    S(SYS_memfd_create, "sealed", 8);
    S(SYS_memfd_create, "executable", 0x10);

    PART("advice");
    char *guarded = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(guarded, 7, 16384);
    T(madvise(guarded, 4096, 102));
    CHILD("touched", guarded[0] = 1);
    CHILD("read", printf("%d\n", guarded[100]));
    N(guarded[4096]);
    int ends[2];
    MUST(pipe(ends));
    T(write(ends[1], guarded, 10));
    T(mprotect(guarded, 4096, PROT_READ | PROT_WRITE));
    CHILD("touched after mprotect", guarded[0] = 1);
    T(madvise(guarded, 4096, MADV_DONTNEED));
    CHILD("touched after MADV_DONTNEED", guarded[0] = 1);
    T(madvise(guarded, 8192, 102));
    T(madvise(guarded, 8192, 103));
    N(guarded[0]);
    N(guarded[4096]);
    N(guarded[8192]);
    T(madvise(guarded + 1, 4096, 102));
    T(madvise(guarded, 16384, 102));
    T(madvise(guarded, 16384, MADV_POPULATE_WRITE));
    T(madvise(guarded, 16384, MADV_POPULATE_READ));
    T(mlock(guarded, 4096));
    T(munlock(guarded, 4096));
    T(munmap(guarded + 4096, 4096));
    T(madvise(guarded, 16384, 102));
    T(madvise(guarded, 16384, 103));
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T(madvise(shared, 4096, 102));
    T(madvise(shared, 4096, 103));
    char *reading = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    T(madvise(reading, 4096, 102));
    T(madvise(reading, 4096, 103));
    for (int advice = -1; advice < 30; advice++) {
        char *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (advice != MADV_MERGEABLE && advice != MADV_UNMERGEABLE) printf("advice %d: %s\n", advice, answer(madvise(fresh, 4096, advice)));
        munmap(fresh, 4096);
    }
    PART("who made a file");
    T(fcntl(open("made", O_CREAT | O_RDWR, 0644), 1028));
    T(fcntl(open("made", O_CREAT | O_RDWR, 0644), 1028));
    T(fcntl(open("made", O_RDWR), 1028));
    T(fcntl(open("other", O_CREAT | O_EXCL | O_RDWR, 0644), 1028));
    T(fcntl(open(".", O_TMPFILE | O_RDWR, 0644), 1028));
    T(fcntl(pipes[0], 1028));
    T(fcntl(-1, 1028));
    return 0;
}

// What mounts there are: statmount(2), listmount(2).
#include "../check.h"
#include <sys/mount.h>
#include <sys/sysmacros.h>

enum { nr_statmount = 457, nr_listmount = 458 };

struct request {
    uint32_t size, spare;
    uint64_t mount, param, namespace;
    uint64_t more;
};

struct answer {
    uint32_t size, options;
    uint64_t mask;
    uint32_t major, minor;
    uint64_t magic;
    uint32_t flags, kind;
    uint64_t id, parent;
    uint32_t old_id, old_parent;
    uint64_t attributes, propagation, group, master, from;
    uint32_t root, point;
    uint64_t namespace;
    uint32_t subtype, source, option_count, option_array, safe_count, safe_array;
    uint64_t supported;
    uint64_t spare[45];
    char strings[4096];
};

static struct answer a;
static char here[PATH_MAX];

static long stat_mount(uint64_t id, uint64_t what, size_t room) {
    struct request r = {32, 0, id, what, 0, 0};
    memset(&a, 0, sizeof a);
    return syscall(nr_statmount, &r, &a, room, 0);
}

static long list(uint64_t parent, uint64_t after, uint64_t *ids, size_t count, unsigned flags) {
    struct request r = {32, 0, parent, after, 0, 0};
    return syscall(nr_listmount, &r, ids, count, flags);
}

// Numbers of the mount at a place: unique, old.
static uint64_t number(const char *name, unsigned mask) {
    struct statx st;
    MUST(syscall(SYS_statx, AT_FDCWD, name, 0, mask, &st));
    return *(uint64_t *)((char *)&st + 0x90);
}

static const char *below(const char *path) { return strncmp(path, here, strlen(here)) ? path : path + strlen(here); }

static void show(const char *name) {
    uint64_t id = number(name, 0x4000), old = number(name, 0x1000), parent = number(".", 0x4000);
    printf("-- %s\n", name);
    // SB_BASIC, MNT_BASIC
    T(stat_mount(id, 3, sizeof a));
    struct stat st;
    MUST(stat(name, &st));
    YES(a.size == 512 && a.mask == 3);
    YES(a.major == major(st.st_dev) && a.minor == minor(st.st_dev));
    YES(a.id == id && a.old_id == old && a.parent == parent && a.old_parent == number(".", 0x1000));
    printf("magic %llx flags %x attributes %llx propagation %llx, in a group: %d, follows: %d\n", (long long)a.magic, a.flags,
           (long long)a.attributes, (long long)a.propagation, a.group != 0, a.master != 0);
    // MNT_ROOT, MNT_POINT, FS_TYPE, SB_SOURCE
    T(stat_mount(id, 0x8 | 0x10 | 0x20 | 0x200, sizeof a));
    printf("mask %llx root '%s' at '%s' kind '%s' source '%s'\n", (long long)a.mask, a.strings + a.root, below(a.strings + a.point),
           a.strings + a.kind, a.strings + a.source);
    printf("order: %d, first byte %d\n", a.kind < a.root && a.root < a.point && a.point < a.source, a.strings[0]);
    YES(a.size == 512 + a.source + strlen(a.strings + a.source) + 1);
    // MNT_OPTS, OPT_ARRAY
    T(stat_mount(id, 0x80 | 0x400, sizeof a));
    printf("mask %llx size %d, %s\n", (long long)a.mask, strstr(a.strings + a.options, "size=64k") != NULL,
           a.strings[a.options] == ',' ? "comma" : "no comma");
    int found = 0;
    char *option = a.strings + a.option_array;
    for (unsigned i = 0; i < a.option_count; i++, option += strlen(option) + 1)
        found += strcmp(option, "size=64k") == 0 || strcmp(option, "mode=700") == 0;
    N(found);
    // What this mount has not: FS_SUBTYPE, OPT_SEC_ARRAY, MNT_UIDMAP, MNT_GIDMAP
    for (unsigned i = 0; i < 4; i++) {
        static const unsigned what[] = {0x100, 0x800, 0x2000, 0x4000};
        T(stat_mount(id, what[i], sizeof a));
        printf("mask %llx size %u\n", (long long)a.mask, a.size);
    }
    T(stat_mount(id, 1ull << 50, sizeof a));
    printf("mask %llx size %u\n", (long long)a.mask, a.size);
    // MNT_NS_ID, SUPPORTED_MASK
    T(stat_mount(id, 0x1040, sizeof a));
    printf("mask %llx, a namespace: %d\n", (long long)a.mask, a.namespace != 0);
    YES((a.supported & 0x7ffb) == 0x7ffb);
    struct request r = {32, 0, id, 2, a.namespace, 0};
    T(syscall(nr_statmount, &r, &a, sizeof a, 0));
}

static void listed(const char *when, const char *parent, uint64_t after, size_t count, unsigned flags) {
    uint64_t ids[64], own = parent ? number(parent, 0x4000) : -1ull;
    long n = list(own, after, ids, count, flags);
    printf("%s: %ld %s:", when, parent ? n : n > 0, n < 0 ? check_error(errno) : "");
    for (long i = 0; i < n; i++) {
        if (stat_mount(ids[i], 0x10, sizeof a) == 0 && strncmp(a.strings + a.point, here, strlen(here)) == 0)
            printf(" %s", below(a.strings + a.point));
    }
    printf("\n");
}

int main(void) {
    MUST(unshare(CLONE_NEWUSER | CLONE_NEWNS));
    put_file("/proc/self/setgroups", "deny");
    put_file("/proc/self/uid_map", "0 0 1");
    put_file("/proc/self/gid_map", "0 0 1");
    MUST(mkdir("top", 0755));
    MUST(mount("top", "top", "tmpfs", 0, NULL));
    MUST(mount(NULL, "top", NULL, MS_PRIVATE, NULL));
    MUST(chdir("top"));
    MUST(getcwd(here, sizeof here) != NULL ? 0 : -1);
    const char *names[] = {"a", "b c", "d"};
    for (size_t i = 0; i < COUNT(names); i++)
        MUST(mkdir(names[i], 0755));
    MUST(mount("some source", "a", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOATIME, "size=64k,mode=700"));
    MUST(mkdir("a/in\tside", 0755));
    MUST(mount("a/in\tside", "b c", NULL, MS_BIND, NULL));
    MUST(mount(NULL, "b c", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOEXEC | MS_STRICTATIME, NULL));
    MUST(mount("a", "d", NULL, MS_BIND, NULL));
    MUST(mount(NULL, "a", NULL, MS_SHARED, NULL));
    MUST(mkdir("a/deep", 0755));
    show("a");
    show("b c");
    show("d");
    MUST(mount(NULL, "d", NULL, MS_UNBINDABLE, NULL));
    show("d");

    PART("lists");
    listed("all", ".", 0, 64, 0);
    listed("none", "d", 0, 64, 0);
    listed("backwards", ".", 0, 64, 1);
    listed("two", ".", 0, 2, 0);
    listed("zero", ".", 0, 0, 0);
    listed("after a", ".", number("a", 0x4000), 64, 0);
    listed("before d", ".", number("d", 0x4000), 64, 1);
    listed("the root's", NULL, 0, 64, 1);
    listed("after 5", ".", 5, 64, 0);
    listed("flags", ".", 0, 64, 2);
    uint64_t ids[64], id = number("a", 0x4000);
    T(list(id, 0, ids, 1000001, 0));
    T(list(id, 0, KERNEL_ADDRESS, 1, 0));
    T(list(number(".", 0x4000), 0, BAD, 1, 0));
    T(list(1ull << 31, 0, ids, 1, 0));
    T(list(1ull << 60, 0, ids, 1, 0));

    PART("requests");
    for (unsigned size = 0; size <= 40; size += 8) {
        struct request r = {size, 0, id, 2, 0, 0};
        printf("size %u: ", size);
        T(syscall(nr_statmount, &r, &a, sizeof a, 0));
        r.more = 1;
        T(syscall(nr_statmount, &r, &a, sizeof a, 0));
    }
    struct request r = {8192, 0, id, 2, 0, 0};
    T(syscall(nr_statmount, &r, &a, sizeof a, 0));
    r.size = 32;
    T(syscall(nr_statmount, &r, &a, sizeof a, 1));
    T(syscall(nr_statmount, BAD, &a, sizeof a, 0));
    T(syscall(nr_statmount, &r, BAD, sizeof a, 0));
    T(syscall(nr_statmount, &r, KERNEL_ADDRESS, sizeof a, 0));
    r.namespace = 12345;
    T(syscall(nr_statmount, &r, &a, sizeof a, 0));
    T(stat_mount(5, 2, sizeof a));
    T(stat_mount(1ull << 60, 2, sizeof a));
    for (size_t room = 0; room <= 520; room += 65) {
        memset(&a, 7, sizeof a);
        struct request short_one = {32, 0, id, 2, 0, 0};
        printf("room %zu: %s, ", room, check_error(syscall(nr_statmount, &short_one, &a, room, 0) ? errno : 0));
        printf("mask %llx\n", (long long)a.mask);
        T(stat_mount(id, 0x20, room));
    }
    T(stat_mount(id, 0x20, 512 + 6));
    T(stat_mount(id, 0x20, 512 + 7));

    PART("not beneath the root");
    MUST(mkdir("jail", 0755));
    uint64_t outside = number("a", 0x4000);
    MUST(chroot("jail"));
    MUST(chdir("/"));
    T(stat_mount(outside, 0x10 | 2, sizeof a));
    printf("at '%s'\n", a.strings + a.point);
    T(list(outside, 0, ids, 64, 0));
    T(list(-1ull, 0, ids, 64, 0));
    return 0;
}

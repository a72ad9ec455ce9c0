// Memory policies on a machine of one node: set_mempolicy(2), mbind(2), get_mempolicy(2), move_pages(2) and relatives.
#include "check.h"

#include <linux/mempolicy.h>

#define PAGE 4096
#define MOST (64 + 1)

typedef unsigned long word;

static long set_policy(int mode, word mask, word most) {
    return syscall(SYS_set_mempolicy, mode, most ? &mask : NULL, most);
}

static long bind_range(void *at, word len, int mode, word mask, word most, unsigned flags) {
    return syscall(SYS_mbind, at, len, mode, most ? &mask : NULL, most, flags);
}

static void show(const char *what, void *at, unsigned flags) {
    int mode = -1;
    word mask[2] = {~0UL, ~0UL};
    long r = syscall(SYS_get_mempolicy, &mode, mask, MOST, at, flags);
    if (r < 0)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: mode %#x nodes %lx %d\n", what, mode, mask[0], mask[1] == ~0UL);
}

static void of_the_thread(void) {
    PART("thread");
    show("at first", NULL, 0);
    T(set_policy(MPOL_BIND, 1, MOST));
    show("bind", NULL, 0);
    T(set_policy(MPOL_PREFERRED, 1, MOST));
    show("preferred", NULL, 0);
    T(set_policy(MPOL_PREFERRED, 0, MOST));
    show("preferred nowhere", NULL, 0);
    T(set_policy(MPOL_INTERLEAVE, 1, MOST));
    show("interleave", NULL, 0);
    show("next node", NULL, MPOL_F_NODE);
    T(set_policy(MPOL_LOCAL, 0, 0));
    show("local", NULL, 0);
    show("next node", NULL, MPOL_F_NODE);
    T(set_policy(MPOL_PREFERRED_MANY, 1, MOST));
    show("preferred many", NULL, 0);
    T(set_policy(MPOL_BIND | MPOL_F_STATIC_NODES, 1, MOST));
    show("static", NULL, 0);
    T(set_policy(MPOL_BIND | MPOL_F_RELATIVE_NODES, 1, MOST));
    show("relative", NULL, 0);
    T(set_policy(MPOL_BIND | MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES, 1, MOST));
    T(set_policy(MPOL_INTERLEAVE | MPOL_F_NUMA_BALANCING, 1, MOST));
    T(set_policy(MPOL_BIND | MPOL_F_NUMA_BALANCING, 1, MOST));
    show("balancing", NULL, 0);
    T(set_policy(MPOL_BIND, 0, MOST));
    T(set_policy(MPOL_BIND, 1, 1));
    T(set_policy(MPOL_BIND, 0, 0));
    T(set_policy(MPOL_BIND, 2, MOST));
    T(set_policy(MPOL_BIND, 3, 2));
    T(set_policy(MPOL_BIND, 3, 3));
    show("node that is not there", NULL, 0);
    T(set_policy(MPOL_DEFAULT, 1, MOST));
    T(set_policy(MPOL_LOCAL, 1, MOST));
    T(set_policy(MPOL_LOCAL | MPOL_F_STATIC_NODES, 0, 0));
    T(set_policy(MPOL_PREFERRED | MPOL_F_STATIC_NODES, 0, 0));
    T(set_policy(100, 1, MOST));
    T(set_policy(-1, 1, MOST));
    T(syscall(SYS_set_mempolicy, MPOL_BIND, (void *)8, MOST));
    T(syscall(SYS_set_mempolicy, MPOL_BIND, (void *)8, 1));
    word one = 1;
    T(syscall(SYS_set_mempolicy, MPOL_BIND, &one, 4096 * 8 + 2));
    CHILD("child", show("child", NULL, 0); T(set_policy(MPOL_DEFAULT, 0, 0)));
    show("parent", NULL, 0);
    T(set_policy(MPOL_DEFAULT, 0, 0));
    show("default", NULL, 0);
    show("next node", NULL, MPOL_F_NODE);
    show("allowed", NULL, MPOL_F_MEMS_ALLOWED);
    show("allowed and node", NULL, MPOL_F_MEMS_ALLOWED | MPOL_F_NODE);
    show("bad flag", NULL, 8);
    show("address without flag", &one, 0);
    int mode;
    T(syscall(SYS_get_mempolicy, &mode, &one, 0, 0, 0));
    T(syscall(SYS_get_mempolicy, NULL, NULL, 0, 0, 0));
    T(syscall(SYS_get_mempolicy, 8, NULL, 0, 0, 0));
    T(syscall(SYS_get_mempolicy, NULL, 8, MOST, 0, 0));
}

static void of_mappings(void) {
    PART("mappings");
    char *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at + 6 * PAGE, PAGE);
    show("at first", at, MPOL_F_ADDR);
    T(bind_range(at + PAGE, 2 * PAGE, MPOL_BIND, 1, MOST, 0));
    show("before", at, MPOL_F_ADDR);
    show("first", at + PAGE, MPOL_F_ADDR);
    show("last", at + 3 * PAGE - 1, MPOL_F_ADDR);
    show("behind", at + 3 * PAGE, MPOL_F_ADDR);
    at[PAGE] = 1;
    show("node of a page", at + PAGE, MPOL_F_ADDR | MPOL_F_NODE);
    show("node of an untouched page", at + 2 * PAGE, MPOL_F_ADDR | MPOL_F_NODE);
    show("hole", at + 6 * PAGE, MPOL_F_ADDR);
    show("node of a hole", at + 6 * PAGE, MPOL_F_ADDR | MPOL_F_NODE);
    T(bind_range(at, 4 * PAGE, MPOL_INTERLEAVE, 1, MOST, MPOL_MF_STRICT | MPOL_MF_MOVE));
    show("all", at + 2 * PAGE, MPOL_F_ADDR);
    T(bind_range(at + PAGE, PAGE, MPOL_DEFAULT, 0, 0, 0));
    show("default again", at + PAGE, MPOL_F_ADDR);
    T(set_policy(MPOL_BIND, 1, MOST));
    show("the thread's", at + PAGE, MPOL_F_ADDR);
    show("its own", at + 2 * PAGE, MPOL_F_ADDR);
    T(set_policy(MPOL_DEFAULT, 0, 0));
    CHILD("child", show("child", at + 2 * PAGE, MPOL_F_ADDR));
    char *moved = mremap(at + 2 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    show("moved", moved, MPOL_F_ADDR);
    show("where it was", at + 2 * PAGE, MPOL_F_ADDR);
    T(bind_range(at + 1, PAGE, MPOL_BIND, 1, MOST, 0));
    T(bind_range(at, 0, MPOL_BIND, 1, MOST, 0));
    T(bind_range(at, PAGE, MPOL_BIND, 1, MOST, 1 << 5));
    T(bind_range(at, PAGE, MPOL_BIND, 2, MOST, 0));
    T(bind_range(at, PAGE, MPOL_BIND, 0, 0, 0));
    T(bind_range(at, PAGE, 99, 1, MOST, 0));
    T(bind_range(at, -1UL, MPOL_BIND, 1, MOST, 0));
    T(bind_range(at, -PAGE, MPOL_BIND, 1, MOST, 0));
    T(bind_range(at + 4 * PAGE, 4 * PAGE, MPOL_BIND, 1, MOST, 0));
    T(bind_range(at + 6 * PAGE, 2 * PAGE, MPOL_BIND, 1, MOST, 0));
    T(bind_range(at + 6 * PAGE, PAGE, MPOL_DEFAULT, 0, 0, 0));
    T(bind_range(at + 4 * PAGE, 4 * PAGE, MPOL_DEFAULT, 0, 0, 0));
    PART("home");
    T(bind_range(at, PAGE, MPOL_BIND, 1, MOST, 0));
    T(syscall(SYS_set_mempolicy_home_node, at, PAGE, 0, 0));
    T(syscall(SYS_set_mempolicy_home_node, at, PAGE, 0, 1));
    T(syscall(SYS_set_mempolicy_home_node, at, PAGE, 5000, 0));
    T(syscall(SYS_set_mempolicy_home_node, at + 1, PAGE, 0, 0));
    T(syscall(SYS_set_mempolicy_home_node, at, 0, 0, 0));
    T(syscall(SYS_set_mempolicy_home_node, at + 4 * PAGE, PAGE, 0, 0));
    T(bind_range(at, PAGE, MPOL_INTERLEAVE, 1, MOST, 0));
    T(syscall(SYS_set_mempolicy_home_node, at, PAGE, 0, 0));
}

static void of_pages(void) {
    PART("pages");
    // Kernels make pages near those that are used present, too.
    char *at = mmap(NULL, 1024 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, 1024 * PAGE, MADV_NOHUGEPAGE);
    munmap(at + 1000 * PAGE, PAGE);
    at[0] = at[PAGE] = 1;
    void *pages[] = {at, at + PAGE + 5, at + 700 * PAGE, at + 1000 * PAGE};
    int nodes[] = {0, 0, 0, 0}, status[] = {99, 99, 99, 99};
    T(syscall(SYS_move_pages, 0, 4, pages, NULL, status, 0));
    for (int i = 0; i < 4; i++)
        printf("  %d\n", status[i]), status[i] = 99;
    T(syscall(SYS_move_pages, 0, 4, pages, nodes, status, MPOL_MF_MOVE));
    for (int i = 0; i < 4; i++)
        printf("  %d\n", status[i]), status[i] = 99;
    nodes[1] = 1;
    T(syscall(SYS_move_pages, 0, 4, pages, nodes, status, MPOL_MF_MOVE));
    printf("  %d %d\n", status[0], status[1]);
    nodes[1] = -1;
    T(syscall(SYS_move_pages, getpid(), 4, pages, nodes, status, 0));
    T(syscall(SYS_move_pages, 0, 4, pages, nodes, status, 8));
    T(syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0));
    T(syscall(SYS_move_pages, 0, 1, NULL, NULL, status, 0));
    T(syscall(SYS_move_pages, 0, 1, pages, NULL, NULL, 0));
    T(syscall(SYS_move_pages, 0, 1, pages, 8, status, 0));
    T(syscall(SYS_move_pages, 999999, 1, pages, NULL, status, 0));
    word one = 1, two = 2, none = 0;
    T(syscall(SYS_migrate_pages, 0, MOST, &one, &one));
    T(syscall(SYS_migrate_pages, 0, MOST, &two, &one));
    T(syscall(SYS_migrate_pages, 0, MOST, &one, &none));
    T(syscall(SYS_migrate_pages, 999999, MOST, &one, &one));
    T(syscall(SYS_migrate_pages, 0, MOST, 8, &one));
    T(syscall(SYS_migrate_pages, 0, MOST, &one, 8));
    pid_t child = fork();
    if (child == 0)
        pause(), _exit(0);
    T(syscall(SYS_migrate_pages, child, MOST, &one, &one));
    T(syscall(SYS_move_pages, child, 2, pages, NULL, status, 0));
    printf("  %d %d\n", status[0], status[1]);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void) {
    of_the_thread();
    of_mappings();
    of_pages();
    return 0;
}

// Ids and capabilities: setresuid(2) and its relatives with each combination, what changes of ids do to capabilities with
// each of the securebits, capset(2) and ambient capabilities, groups, who may change files, and when set-id bits go.
#include "check.h"
#include <sys/prctl.h>
#include <linux/capability.h>
#include <grp.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
static void show(const char *w) {
    unsigned r, e, s;
    syscall(SYS_getresuid, &r, &e, &s);
    struct {
        uint32_t v;
        int p;
    } h = {0x20080522, 0};
    uint32_t d[6] = {0};
    syscall(SYS_capget, &h, d);
    int fs = syscall(SYS_setfsuid, -1);
    printf("%s: %d %d %d fs %d eff %d perm %d inh %x sb %d keep %d dump %d amb %d\n", w, r, e, s, fs, (d[0] & 0xff) != 0, (d[1] & 0xff) != 0, d[2] & 0xff,
           prctl(PR_GET_SECUREBITS), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_DUMPABLE), prctl(PR_CAP_AMBIENT, 1, 0, 0, 0));
}
static int setcap(uint32_t eff, uint32_t perm, uint32_t inh) {
    struct {
        uint32_t v;
        int p;
    } h = {0x20080522, 0};
    uint32_t d[6] = {0};
    syscall(SYS_capget, &h, d);
    d[0] &= eff | ~0xffu;
    d[1] &= perm | ~0xffu;
    d[2] = inh;
    return syscall(SYS_capset, &h, d);
}
// Makes a call after `start` in a child, and prints its result and the three ids that `get` shows; then does `rest`.
#define IDS(get, start, call, rest)                                                                                    \
    do {                                                                                                               \
        pid_t child = fork();                                                                                          \
        if (!child) {                                                                                                  \
            start;                                                                                                     \
            long result = call;                                                                                        \
            int error = errno;                                                                                         \
            unsigned real, effective, saved;                                                                           \
            syscall(get, &real, &effective, &saved);                                                                   \
            printf("%s %u%u%u ", result ? check_error(error) : "ok", real, effective, saved);                          \
            rest;                                                                                                      \
            fflush(stdout);                                                                                            \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        waitpid(child, 0, 0);                                                                                          \
    } while (0)

int main(void) {
    int v[] = {-1, 0, 1, 2, 3};
    PART("setresuid from 1,2,3");
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            for (int c = 0; c < 5; c++) IDS(SYS_getresuid, setresuid(1, 2, 3), syscall(SYS_setresuid, v[a], v[b], v[c]), );
    puts("");
    PART("setreuid");
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            IDS(SYS_getresuid, setresuid(1, 2, 3), syscall(SYS_setreuid, v[a], v[b]), );
            IDS(SYS_getresgid, setresgid(1, 2, 3); setresuid(5, 5, 5), syscall(SYS_setregid, v[a], v[b]), );
            IDS(SYS_getresuid, , syscall(SYS_setreuid, v[a], v[b]), );
        }
    puts("");
    PART("setuid");
    for (int a = 0; a < 5; a++) {
        IDS(SYS_getresuid, setresuid(1, 2, 3), syscall(SYS_setuid, v[a]), );
        IDS(SYS_getresuid, setresuid(0, 2, 0), syscall(SYS_setuid, v[a]),
            printf("fs %ld %ld ", syscall(SYS_setfsuid, v[a]), syscall(SYS_setfsuid, -1)));
    }
    puts("");
    PART("capabilities over id changes");
    CHILD("a", show("start"); syscall(SYS_setresuid, 1, 1, 0); show("1 1 0"); syscall(SYS_setresuid, -1, 0, -1); show("back"); syscall(SYS_setresuid, 1, 1, 1);
          show("1 1 1"));
    CHILD("b", prctl(PR_SET_KEEPCAPS, 1); show("keep"); syscall(SYS_setresuid, 1, 1, 1); show("dropped"); T(setcap(-1, -1, 0)); show("effective again");
          N(prctl(PR_SET_KEEPCAPS, 0)); show("x"));
    CHILD("c", T(prctl(PR_SET_SECUREBITS, 4)); show("no fixup"); syscall(SYS_setresuid, 1, 1, 1); show("after"); T(prctl(PR_SET_SECUREBITS, 4 | 8));
          T(prctl(PR_SET_SECUREBITS, 0)); T(prctl(PR_SET_SECUREBITS, 8)); T(prctl(PR_SET_SECUREBITS, 0xc)); T(prctl(PR_SET_SECUREBITS, 0xd));
          T(prctl(PR_SET_SECUREBITS, 0x2d)); T(prctl(PR_SET_KEEPCAPS, 1)); show("locked"); T(prctl(PR_SET_SECUREBITS, 0x3c)));
    CHILD("d", syscall(SYS_setfsuid, 5); show("fsuid"); syscall(SYS_setfsuid, 0); show("fsuid 0"); put_file("ff", "x"); chmod("ff", 0600);
          syscall(SYS_setfsuid, 5); T(open("ff", O_RDONLY)); T(chown("ff", 5, 5)); T(kill(getppid(), 0)););
    CHILD("e", T(setcap(-1, -1, 0xff)); show("inh"); T(prctl(PR_CAP_AMBIENT, 2, 0, 0, 0)); T(prctl(PR_CAP_AMBIENT, 2, 6, 0, 0)); show("ambient");
          T(prctl(PR_CAPBSET_DROP, 0, 0, 0, 0)); show("bset"); T(setcap(-1, -1, 0xfe)); show("inh lower"); T(prctl(PR_CAP_AMBIENT, 2, 0, 0, 0));
          T(setcap(-1, -1, 0xff)); T(setcap(-1, ~1, 0xfe)); T(prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)); prctl(PR_SET_KEEPCAPS, 1);
          T(prctl(PR_CAP_AMBIENT, 2, 6, 0, 0)); syscall(SYS_setresuid, 1, 1, 1); N(prctl(PR_CAP_AMBIENT, 1, 6, 0, 0)); show("amb uid"););
    CHILD("f", T(setcap(0, 0, 0)); show("none"); T(setcap(-1, -1, 0)); T(prctl(PR_CAPBSET_DROP, 1, 0, 0, 0)); T(prctl(PR_SET_SECUREBITS, 1));
          T(setcap(0, 0, 1)););
    CHILD(
        "g",
        struct {
            uint32_t v;
            int p;
        } h = {0x1234, 0};
        uint32_t d[6]; SYSCALL(SYS_capget, &h, d); N(h.v); h.v = 0x1234; SYSCALL(SYS_capget, &h, 0); N(h.v); h = (typeof(h)){0x20080522, -1}; SYSCALL(SYS_capget, &h, d);
        h.p = 99999999; SYSCALL(SYS_capget, &h, d); SYSCALL(SYS_capget, BAD, d); h.p = 0; SYSCALL(SYS_capget, &h, BAD); SYSCALL(SYS_capget, &h, 0); h.p = getppid();
        SYSCALL(SYS_capset, &h, d); h.p = 0; SYSCALL(SYS_capset, &h, BAD); h.v = 0x19980330; SYSCALL(SYS_capget, &h, d); N(h.v); h.v = 0x20071026; SYSCALL(SYS_capget, &h, d); N(h.v);
        h = (typeof(h)){0x20080522, 0}; SYSCALL(SYS_capget, &h, d); d[0] |= 1; d[1] &= ~1; SYSCALL(SYS_capset, &h, d););
    PART("groups");
    CHILD("g", gid_t g[] = {5, 3, 9, 3}; T(setgroups(4, g)); gid_t o[9] = {0}; T(getgroups(9, o)); printf("%d %d %d %d\n", o[0], o[1], o[2], o[3]);
          T(getgroups(2, o)); T(getgroups(0, 0)); SYSCALL(SYS_getgroups, -1, o); SYSCALL(SYS_setgroups, -1, g); SYSCALL(SYS_setgroups, 65537, g); SYSCALL(SYS_setgroups, 1, BAD);
          SYSCALL(SYS_getgroups, 9, BAD); g[0] = -1; SYSCALL(SYS_setgroups, 1, g); setresgid(7, 8, 9); setresuid(1, 1, 1); T(setgroups(0, 0)); T(setgid(7)); T(setgid(8));
          T(setgid(10)); SYSCALL(SYS_setfsgid, 9); SYSCALL(SYS_setfsgid, 77); SYSCALL(SYS_setfsgid, -1); SYSCALL(SYS_getresuid, BAD, 0, 0); SYSCALL(SYS_setresuid, -2, -1, -1););
    PART("set-id files");
    put_file("f", "x");
    struct stat st;
#define MODE                                                                                                                                                   \
    stat("f", &st);                                                                                                                                            \
    printf("%o %d %d\n", st.st_mode & 07777, st.st_uid, st.st_gid)
    CHILD("x", chown("f", 1, 1); chmod("f", 06755); T(chown("f", 2, 2)); MODE; chmod("f", 06755); T(chown("f", -1, -1)); MODE; chmod("f", 02745);
          T(chown("f", 1, 1)); MODE; chmod("f", 06777); int fd = open("f", O_WRONLY); write(fd, "y", 1); MODE; chmod("f", 06777); truncate("f", 0); MODE;
          setcap(~0x11, -1, 0););
    CHILD("y", chown("f", 1, 1); chmod("f", 06777); setgroups(0, 0); setresgid(5, 5, 5); setresuid(2, 2, 2); int fd = open("f", O_RDWR); T(write(fd, "y", 1));
          MODE; T(chmod("f", 0)); T(chown("f", 2, 2)); T(chown("f", -1, -1)); T(utimensat(-100, "f", 0, 0));
          struct timespec ts[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}}; T(utimensat(-100, "f", ts, 0)); ts[0].tv_nsec = UTIME_NOW; T(utimensat(-100, "f", ts, 0));
          ts[0].tv_nsec = ts[1].tv_nsec = UTIME_OMIT; T(utimensat(-100, "f", ts, 0)); ts[0].tv_nsec = 5; T(utimensat(-100, "f", ts, 0));
          ts[0].tv_nsec = 1000000000; T(utimensat(-100, "f", ts, 0)); T(ftruncate(fd, 0)); MODE;);
    CHILD("z", chown("f", 2, 9); chmod("f", 06777); setgroups(0, 0); setresgid(5, 5, 5); setresuid(2, 2, 2); MODE; T(chmod("f", 02755)); MODE;
          T(chmod("f", 04755)); MODE; T(chown("f", -1, 5)); MODE; T(chmod("f", 06755)); MODE; T(chown("f", -1, 9)); T(chown("f", 2, 5)); MODE;
          chmod("f", 06777); int fd = open("f", O_RDWR); T(write(fd, "y", 1)); MODE; chmod("f", 06777); T(ftruncate(fd, 0)); MODE; chmod("f", 06777);
          T(fallocate(fd, 0, 0, 100)); MODE; chmod("f", 06767); T(write(fd, "y", 1)); MODE; chmod("f", 06777); char *m = mmap(0, 100, 3, MAP_SHARED, fd, 0);
          m[0] = 1; MODE; chmod("f", 06777); close(open("f", O_WRONLY | O_TRUNC)); MODE; mkdir("sg", 0755););
    PART("sticky");
    CHILD("s", mkdir("st", 0777); chmod("st", 01777); put_file("st/a", "x"); chown("st/a", 3, 3); mkdir("st/d", 0755); setgroups(0, 0); setresgid(5, 5, 5);
          setresuid(2, 2, 2); put_file("st/mine", "x"); T(unlink("st/a")); T(rename("st/a", "st/b")); T(rename("st/mine", "st/a")); T(rmdir("st/d"));
          T(renameat2(-100, "st/mine", -100, "st/a", 2)); T(link("st/a", "st/la")); T(link("st/mine", "st/lm")); T(open("st/a", O_WRONLY | O_CREAT, 0600));
          T(unlink("st/mine")););
    CHILD("setgid dir", mkdir("sgd", 0777); chown("sgd", 0, 9); chmod("sgd", 02777); setgroups(0, 0); setresgid(5, 5, 5); setresuid(2, 2, 2); umask(0);
          mkdir("sgd/d", 0755); stat("sgd/d", &st); printf("%o %d\n", st.st_mode, st.st_gid); close(open("sgd/f", O_CREAT, 02775)); stat("sgd/f", &st);
          printf("%o %d\n", st.st_mode, st.st_gid); close(open("sgd/g", O_CREAT, 02765)); stat("sgd/g", &st); printf("%o %d\n", st.st_mode, st.st_gid);
          mknod("sgd/n", S_IFREG | 02775, 0); stat("sgd/n", &st); printf("%o %d\n", st.st_mode, st.st_gid); int t = open("sgd", O_TMPFILE | O_RDWR, 02775);
          fstat(t, &st); printf("%o %d\n", st.st_mode, st.st_gid); symlink("x", "sgd/l"); lstat("sgd/l", &st); printf("%o %d\n", st.st_mode, st.st_gid);
          chmod("sgd/d", 0755); stat("sgd/d", &st); printf("%o %d\n", st.st_mode, st.st_gid););
    return 0;
}

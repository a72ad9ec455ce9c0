// UTS, IPC and cgroup namespaces, and namespaces as files: unshare(2), setns(2), ioctl_nsfs(2).
#include "../check.h"
#include <linux/nsfs.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/utsname.h>

static ino_t inode_of(const char *name) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static int opened(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    return open(path, O_RDONLY);
}

static void names(const char *when) {
    struct utsname u;
    uname(&u);
    char text[128] = {0};
    FILE *f = fopen("/proc/sys/kernel/hostname", "r");
    if (f && fgets(text, sizeof text, f))
        text[strcspn(text, "\n")] = 0;
    if (f)
        fclose(f);
    printf("%s: %s, same in /proc %d\n", when, u.nodename, strcmp(u.nodename, text) == 0);
}

static void uts(void) {
    int before = opened("uts");
    ino_t old = inode_of("uts");
    check_ok("unshare", unshare(CLONE_NEWUTS));
    printf("another: %d\n", inode_of("uts") != old);
    check_ok("sethostname", sethostname("first", 5));
    check_ok("setdomainname", setdomainname("dom", 3));
    names("inside");
    int inside = opened("uts");
    pid_t pid = fork();
    if (pid == 0) {
        names("child");
        sethostname("second", 6);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    names("after the child");
    check_ok("back", setns(before, CLONE_NEWUTS));
    printf("the old one: %d\n", inode_of("uts") == old);
    check_ok("in again", setns(inside, 0));
    names("again");
    check_ok("wrong type", setns(inside, CLONE_NEWIPC));
    check_ok("no namespace", setns(0, CLONE_NEWUTS));
    check_ok("bad descriptor", setns(-1, CLONE_NEWUTS));
    check_ok("bad type", setns(inside, 1));
    check_value("type", ioctl(inside, NS_GET_NSTYPE));
    int user = ioctl(inside, NS_GET_USERNS);
    check_ok("user namespace", user);
    check_value("its type", ioctl(user, NS_GET_NSTYPE));
    check_ok("its parent", ioctl(user, NS_GET_PARENT));
    uid_t owner = 99;
    check_ok("owner", ioctl(user, NS_GET_OWNER_UID, &owner));
    printf("owner %d\n", owner);
    check_ok("owner of uts", ioctl(inside, NS_GET_OWNER_UID, &owner));
    check_ok("parent of uts", ioctl(inside, NS_GET_PARENT));
    check_ok("own user namespace", setns(opened("user"), CLONE_NEWUSER));
}

static void ipc(void) {
    const key_t key = 0x48756c6c;
    int shm = shmget(key, 4096, IPC_CREAT | 0600), sem = semget(key, 1, IPC_CREAT | 0600), msg = msgget(key, IPC_CREAT | 0600);
    check_ok("shmget", shm);
    check_ok("semget", sem);
    check_ok("msgget", msg);
    char *shared = shmat(shm, NULL, 0);
    strcpy(shared, "outside");
    mqd_t queue = mq_open("/hull-ns", O_CREAT | O_RDWR, 0600, NULL);
    check_ok("mq_open", queue);
    int before = opened("ipc");
    check_ok("unshare", unshare(CLONE_NEWIPC));
    check_ok("shm by key", shmget(key, 4096, 0));
    check_ok("sem by key", semget(key, 1, 0));
    check_ok("msg by key", msgget(key, 0));
    check_ok("mq by name", mq_open("/hull-ns", O_RDWR));
    printf("mapped still: %s\n", shared);
    check_ok("mq_send", mq_send(queue, "x", 1, 0));
    int inner = shmget(key, 8192, IPC_CREAT | 0600);
    check_ok("own shm", inner);
    struct shmid_ds ds;
    check_ok("stat", shmctl(inner, IPC_STAT, &ds));
    printf("size %zu\n", ds.shm_segsz);
    char *own = shmat(inner, NULL, 0);
    strcpy(own, "inside");
    check_ok("detach the other", shmdt(shared));
    check_ok("back", setns(before, CLONE_NEWIPC));
    check_ok("stat", shmctl(shm, IPC_STAT, &ds));
    printf("size %zu, attached %d\n", ds.shm_segsz, (int)ds.shm_nattch);
    printf("own: %s\n", own);
    check_ok("detach", shmdt(own));
    check_ok("remove", shmctl(shm, IPC_RMID, NULL));
    check_ok("remove", semctl(sem, 0, IPC_RMID));
    check_ok("remove", msgctl(msg, IPC_RMID, NULL));
    check_ok("unlink", mq_unlink("/hull-ns"));
    check_ok("sysvsem and ipc", syscall(SYS_clone, CLONE_NEWIPC | CLONE_SYSVSEM | SIGCHLD, 0, 0, 0, 0));
}

static void by_process(void) {
    int ready[2], go[2];
    if (pipe(ready) || pipe(go))
        return;
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP);
        sethostname("theirs", 6);
        if (write(ready[1], "", 1) != 1 || read(go[0], &c, 1) != 1)
            _exit(1);
        _exit(0);
    }
    char c;
    if (read(ready[0], &c, 1) != 1)
        return;
    int fd = syscall(SYS_pidfd_open, pid, 0);
    ino_t cgroup = inode_of("cgroup");
    check_ok("several", setns(fd, CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP));
    names("theirs");
    printf("cgroup is another: %d\n", inode_of("cgroup") != cgroup);
    check_ok("none", setns(fd, 0));
    check_ok("unknown", setns(fd, 0x80));
    if (write(go[1], "", 1) != 1)
        return;
    waitpid(pid, NULL, 0);
    check_ok("ended", setns(fd, CLONE_NEWUTS));
}

static void bad_flags(void) {
    check_ok("unknown flag", unshare(0x1));
    check_ok("several threads share nothing", unshare(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD));
    check_ok("nothing", unshare(0));
}

int main(void) {
    void (*parts[])(void) = {uts, ipc, by_process, bad_flags};
    for (size_t i = 0; i < COUNT(parts); i++) {
        printf("-- %zu\n", i);
        pid_t pid = fork();
        if (pid == 0) {
            parts[i]();
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    return 0;
}

// System V shared memory: permissions, attaching, removal, the calls' errors.
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/prctl.h>

static int stat_of(int id, struct shmid_ds *ds) { return shmctl(id, IPC_STAT, ds); }

static void show(const char *what, int id) {
    struct shmid_ds ds;
    if (stat_of(id, &ds) < 0) {
        printf("%s: %s\n", what, check_error(errno));
        return;
    }
    printf("%s: mode %o, %zu bytes, %lu attached, creator %d, last %d, key %s\n", what, ds.shm_perm.mode, ds.shm_segsz,
           (unsigned long)ds.shm_nattch, ds.shm_cpid == getpid(), ds.shm_lpid == getpid(),
           ds.shm_perm.__key == IPC_PRIVATE ? "private" : "public");
}

static long at(int id, void *addr, int flags) { return (long)shmat(id, addr, flags); }

int main(void) {
    key_t key = 0x48000000 | (getpid() & 0xffffff);

    PART("shmget");
    T(shmget(IPC_PRIVATE, 0, 0600));
    T(shmget(IPC_PRIVATE, (size_t)-1, 0600));
    T(shmget(IPC_PRIVATE, (size_t)1 << 62, 0600));
    T(shmget(key, 100, 0600));
    int id = OK(shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0640));
    T(shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0640));
    YES(shmget(key, 5000, 0600) == id);
    YES(shmget(key, 0, 0) == id);
    YES(shmget(key, 4000, IPC_CREAT | 0777) == id || errno == EACCES);
    T(shmget(key, 5001, 0600));
    show("fresh", id);

    PART("shmat");
    T(at(id, (void *)0x123, 0));
    T(at(-1, NULL, 0));
    T(at(id, NULL, SHM_REMAP));
    T(at(id, (void *)0x10, SHM_RND | SHM_REMAP));
    T(at(id, KERNEL_ADDRESS, 0));
    char *a = shmat(id, NULL, 0);
    YES(a != (void *)-1 && ((long)a & 4095) == 0);
    strcpy(a, "hello");
    a[8191] = 7;
    char *b = shmat(id, NULL, SHM_RDONLY);
    printf("%s %d\n", b, b[8191]);
    show("twice", id);
    T(mprotect(b, 4096, PROT_READ | PROT_WRITE));
    T(mprotect(b, 4096, PROT_NONE));
    T(mprotect(b, 4096, PROT_READ));
    CHILD("write to read-only", no_core_files(); b[0] = 1);
    T(at(id, a, 0));
    T(at(id, a + 4096, 0));
    YES(shmat(id, b, SHM_REMAP) == b);
    strcpy(b, "again");
    printf("%s\n", a);
    show("remapped", id);
    void *room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(room, 1 << 20));
    YES(shmat(id, (char *)room + 4096 + 123, SHM_RND) == (char *)room + 4096);
    show("rounded", id);

    PART("shmdt");
    T(shmdt(a + 1));
    T(shmdt((char *)room + 8192));
    T(shmdt(NULL));
    T(shmdt((char *)room + 4096));
    MUST(munmap(a + 4096, 4096));
    show("half", id);
    MUST(mprotect(b, 4096, PROT_READ));
    show("split", id);
    T(shmdt(b));
    show("detached", id);

    PART("fork and exec");
    CHILD("child", show("child", id); a[10] = 'x'; struct shmid_ds ds; stat_of(id, &ds); a[11] = ds.shm_nattch);
    N(a[11]);
    show("after the child", id);
    YES(a[10] == 'x');
    pid_t child = MUST(fork());
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    reap("exec", child);
    struct shmid_ds ds;
    MUST(stat_of(id, &ds));
    N(ds.shm_nattch);
    YES(ds.shm_lpid == child);

    PART("IPC_SET");
    ds.shm_perm.mode = 0604;
    T(shmctl(id, IPC_SET, &ds));
    show("set", id);
    ds.shm_perm.uid = -1;
    T(shmctl(id, IPC_SET, &ds));
    T(shmctl(id, IPC_SET, BAD));
    T(shmctl(id, IPC_STAT, BAD));
    T(shmctl(id, 77, &ds));
    T(shmctl(-1, IPC_STAT, &ds));
    T(shmctl(id, -1, &ds));
    T(shmctl(1 << 30, IPC_STAT, &ds));
    OK(shmctl(id, SHM_LOCK, NULL));
    show("locked", id);
    OK(shmctl(id, SHM_UNLOCK, NULL));
    show("unlocked", id);

    PART("others");
    if (getuid() == 0) {
        CHILD("nobody", MUST(setgid(65534)); MUST(setuid(65534)); T(at(id, NULL, 0)); OK(at(id, NULL, SHM_RDONLY));
              T(shmget(key, 0, 0200)); YES(shmget(key, 0, 0400) == id); T(shmctl(id, IPC_RMID, NULL));
              T(shmctl(id, IPC_SET, &ds)); T(at(id, NULL, SHM_EXEC | SHM_RDONLY)); T(shmctl(id, SHM_LOCK, NULL)));
    } else
        puts("not root");

    PART("removal");
    T(shmctl(id, IPC_RMID, NULL));
    show("removed", id);
    T(shmget(key, 0, 0));
    T(shmctl(id, IPC_RMID, NULL));
    char *again = shmat(id, NULL, 0);
    YES(again != (void *)-1);
    show("attached after removal", id);
    T(shmdt(again));
    YES(strncmp(a, "again", 5) == 0);
    T(shmdt(a));
    show("gone", id);
    T(at(id, NULL, 0));

    PART("exit removes");
    int orphan = MUST(shmget(IPC_PRIVATE, 1, 0600));
    child = MUST(fork());
    if (child == 0) {
        shmat(orphan, NULL, 0);
        shmctl(orphan, IPC_RMID, NULL);
        _exit(0);
    }
    reap("child", child);
    show("orphan", orphan);

    PART("INFO");
    struct shminfo info;
    struct shm_info used;
    int other = MUST(shmget(IPC_PRIVATE, 12345, 0600));
    YES(shmctl(0, IPC_INFO, (void *)&info) >= 0);
    YES(info.shmmin == 1 && info.shmmni >= 1 && info.shmmax >= 12345);
    int highest = shmctl(0, SHM_INFO, (void *)&used);
    YES(highest >= 0 && used.used_ids >= 1 && used.shm_tot >= 4);
    bool found = false;
    for (int i = 0; i <= highest; i++) {
        struct shmid_ds one;
        if (shmctl(i, SHM_STAT, &one) == other) found = one.shm_segsz == 12345;
    }
    YES(found);
    MUST(shmctl(other, IPC_RMID, NULL));
    return 0;
}

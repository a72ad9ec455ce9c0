// Memory shared by processes: anonymous, files, memfd and System V.
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(void) {
    int *anonymous = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int memory = MUST(memfd_create("m", 0));
    MUST(ftruncate(memory, 8192));
    int *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    PART("atomic counting by four processes");
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = MUST(fork());
        if (children[i] == 0) {
            for (int j = 0; j < 10000; j++) {
                __atomic_fetch_add(&anonymous[0], 1, __ATOMIC_SEQ_CST);
                __atomic_fetch_add(&mapped[1024], 1, __ATOMIC_SEQ_CST);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) waitpid(children[i], NULL, 0);
    printf("%d %d\n", anonymous[0], mapped[1024]);
    int value;
    T(pread(memory, &value, 4, 4096));
    N(value);
    PART("mapped by the child, seen by the parent");
    CHILD("child", {
        int *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        again[7] = 777;
    });
    N(mapped[7]);
    PART("changed protection in the child only");
    CHILD("child", T(mprotect(anonymous, 4096, PROT_READ)));
    anonymous[1] = 1;
    N(anonymous[1]);
    PART("System V");
    int id = OK(shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600));
    if (id < 0) return 0;
    int *attached = shmat(id, NULL, 0);
    YES(attached != (void *)-1);
    CHILD("child", attached[5] = 55);
    N(attached[5]);
    struct shmid_ds info;
    T(shmctl(id, IPC_STAT, &info));
    printf("%zu bytes, %lu attached\n", info.shm_segsz, (unsigned long)info.shm_nattch);
    int *readonly = shmat(id, NULL, SHM_RDONLY);
    N(readonly[5]);
    T(shmdt(readonly));
    T(shmdt(readonly));
    T(shmctl(id, IPC_RMID, NULL));
    N(attached[5]);
    T(shmdt(attached));
    T(shmctl(id, IPC_STAT, &info));
    T(shmget(0x12345678, 4096, 0));
    T(shmat(999999, NULL, 0) == (void *)-1 ? -1 : 0);
    return 0;
}

// System V shared memory.
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(void) {
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

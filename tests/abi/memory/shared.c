// Memory shared by processes: anonymous, files and memfd.
#include "check.h"

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
    return 0;
}

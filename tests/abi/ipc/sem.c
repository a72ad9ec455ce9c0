// System V semaphores: operations, waiting, undo, the calls' errors.
#include "check.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/sem.h>

static int op(int id, int number, int change, int flags) {
    struct sembuf one = {number, change, flags};
    return semop(id, &one, 1);
}

static void values(const char *what, int id) {
    unsigned short all[3] = {0};
    if (semctl(id, 0, GETALL, all) < 0)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: %d %d %d\n", what, all[0], all[1], all[2]);
}

static void wait_for_waiters(int id, int number, int command, int count) {
    while (semctl(id, number, command) != count) sleep_ms(1);
}

static void *thread_undo(void *argument) {
    op(*(int *)argument, 2, 5, SEM_UNDO);
    return NULL;
}

static void on_alarm(int number) { (void)number; }

int main(void) {
    key_t key = 0x49000000 | (getpid() & 0xffffff);

    PART("semget");
    T(semget(IPC_PRIVATE, 0, 0600));
    T(semget(IPC_PRIVATE, -1, 0600));
    T(semget(IPC_PRIVATE, 1 << 20, 0600));
    T(semget(key, 1, 0));
    int id = OK(semget(key, 3, IPC_CREAT | IPC_EXCL | 0600));
    T(semget(key, 3, IPC_CREAT | IPC_EXCL | 0600));
    T(semget(key, 4, 0));
    YES(semget(key, 0, 0600) == id);
    values("fresh", id);

    PART("values");
    T(semctl(id, 0, SETVAL, 3));
    T(semctl(id, 0, SETVAL, 32768));
    T(semctl(id, 0, SETVAL, -1));
    T(semctl(id, 3, SETVAL, 1));
    T(semctl(id, -1, GETVAL));
    T(semctl(id, 3, GETPID));
    T(semctl(-1, 0, GETVAL));
    T(semctl(1 << 30, 0, GETVAL));
    T(semctl(id, 0, 99));
    YES(semctl(id, 0, GETPID) == getpid());
    T(semctl(id, 1, GETPID));
    unsigned short set[3] = {1, 2, 32767}, bad[3] = {1, 2, 40000};
    T(semctl(id, 0, SETALL, set));
    T(semctl(id, 0, SETALL, bad));
    T(semctl(id, 0, SETALL, BAD));
    T(semctl(id, 0, GETALL, BAD));
    values("set", id);

    PART("operations");
    T(op(id, 2, 1, 0));
    T(op(id, 0, -2, IPC_NOWAIT));
    T(op(id, 0, 0, IPC_NOWAIT));
    T(op(id, 3, 1, 0));
    T(op(id, 0, -1, 0));
    T(op(id, 0, 0, IPC_NOWAIT));
    struct sembuf several[3] = {{0, 2, 0}, {1, -1, 0}, {1, -2, IPC_NOWAIT}};
    T(semop(id, several, 3));
    values("all or nothing", id);
    T(semop(id, several, 2));
    values("both", id);
    struct sembuf same[3] = {{0, -2, 0}, {0, 0, 0}, {0, 7, 0}};
    T(semop(id, same, 3));
    values("in order", id);
    T(semop(id, NULL, 0));
    T(semop(id, BAD, 1));
    T(semop(-1, several, 1));
    T(semop(id, several, 501));
    T(semop(1 << 30, several, 1));
    struct timespec none = {0, 0}, wrong = {0, -1}, little = {0, 20000000};
    struct sembuf down = {2, -32768, 0};
    T(semctl(id, 2, SETVAL, 0));
    T(semtimedop(id, &down, 1, &none));
    T(semtimedop(id, &down, 1, &wrong));
    T(semtimedop(id, &down, 1, BAD));
    long long start = now_ms();
    T(semtimedop(id, &down, 1, &little));
    YES(now_ms() - start >= 20);

    PART("waiting");
    T(semctl(id, 0, SETVAL, 0));
    pid_t child = MUST(fork());
    if (child == 0) _exit(op(id, 0, -2, 0) ? errno : 0);
    wait_for_waiters(id, 0, GETNCNT, 1);
    T(semctl(id, 0, GETZCNT));
    T(op(id, 0, 1, 0));
    T(semctl(id, 0, GETVAL));
    T(op(id, 0, 2, 0));
    T(semctl(id, 0, GETVAL));
    T(semctl(id, 0, GETNCNT));
    YES(semctl(id, 0, GETPID) == child);
    reap("taker", child);
    child = MUST(fork());
    if (child == 0) _exit(op(id, 0, 0, 0) ? errno : 0);
    wait_for_waiters(id, 0, GETZCNT, 1);
    T(semctl(id, 0, GETNCNT));
    T(semctl(id, 0, SETVAL, 0));
    T(semctl(id, 0, GETZCNT));
    reap("waits for zero", child);
    // Two wait for different amounts: what suffices for the second passes the first.
    child = MUST(fork());
    if (child == 0) _exit(op(id, 1, -10, 0) ? errno : 0);
    wait_for_waiters(id, 1, GETNCNT, 1);
    pid_t second = MUST(fork());
    if (second == 0) _exit(op(id, 1, -2, 0) ? errno : 0);
    T(semctl(id, 1, SETVAL, 0));
    wait_for_waiters(id, 1, GETNCNT, 2);
    T(op(id, 1, 3, 0));
    reap("second", second);
    T(semctl(id, 1, GETVAL));
    T(semctl(id, 1, SETVAL, 11));
    reap("first", child);
    T(semctl(id, 1, GETVAL));

    PART("signals");
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    alarms(20);
    T(op(id, 0, -1, 0));
    alarms(0);
    T(semctl(id, 0, GETNCNT));

    PART("undo");
    T(semctl(id, 0, SETVAL, 5));
    CHILD("undo", op(id, 0, -3, SEM_UNDO); op(id, 0, 1, SEM_UNDO); N(semctl(id, 0, GETVAL)));
    T(semctl(id, 0, GETVAL));
    CHILD("forgotten by SETVAL", op(id, 0, -3, SEM_UNDO); semctl(id, 0, SETVAL, 9));
    T(semctl(id, 0, GETVAL));
    CHILD("below zero", op(id, 0, 4, SEM_UNDO); op(id, 0, -10, 0); N(semctl(id, 0, GETVAL)));
    T(semctl(id, 0, GETVAL));
    T(semctl(id, 0, SETVAL, 1));
    child = MUST(fork());
    if (child == 0) {
        op(id, 0, -1, SEM_UNDO);
        for (;;) pause();
    }
    while (semctl(id, 0, GETVAL) != 0) sleep_ms(1);
    second = MUST(fork());
    if (second == 0) _exit(op(id, 0, -1, 0) ? errno : 0);
    wait_for_waiters(id, 0, GETNCNT, 1);
    kill(child, SIGKILL);
    reap("holder", child);
    reap("heir", second);
    CHILD("not given to a child", op(id, 0, 2, SEM_UNDO); if (fork() == 0) _exit(0); wait(NULL);
          N(semctl(id, 0, GETVAL)));
    T(semctl(id, 0, GETVAL));
    T(semctl(id, 2, SETVAL, 0));
    child = MUST(fork());
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, thread_undo, &id);
        pthread_join(thread, NULL);
        N(semctl(id, 2, GETVAL));
        _exit(0);
    }
    reap("a thread's undo", child);
    T(semctl(id, 2, GETVAL));
    T(op(id, 2, 30000, SEM_UNDO));
    T(op(id, 2, -30000, 0));
    T(op(id, 2, 3000, SEM_UNDO));
    T(semctl(id, 2, GETVAL));

    PART("status");
    struct semid_ds ds;
    T(semctl(id, 0, IPC_STAT, &ds));
    printf("%lu semaphores, mode %o, key %d\n", (unsigned long)ds.sem_nsems, ds.sem_perm.mode, ds.sem_perm.__key == key);
    YES(ds.sem_otime > 0 && ds.sem_ctime > 0);
    ds.sem_perm.mode = 0404;
    T(semctl(id, 0, IPC_SET, &ds));
    T(semctl(id, 0, IPC_STAT, &ds));
    printf("mode %o\n", ds.sem_perm.mode);
    T(semctl(id, 0, IPC_STAT, BAD));
    T(semctl(id, 0, IPC_SET, BAD));
    if (getuid() == 0) {
        CHILD("nobody", MUST(setgid(65534)); MUST(setuid(65534)); T(op(id, 0, 1, 0)); OK(semctl(id, 0, GETVAL));
              T(semctl(id, 0, SETVAL, 1)); T(semctl(id, 0, SETALL, set)); T(semctl(id, 0, IPC_RMID));
              T(semget(key, 0, 0200)); T(op(id, 2, 0, IPC_NOWAIT)));
    } else
        puts("not root");
    struct seminfo info;
    int highest = semctl(0, 0, SEM_INFO, &info);
    YES(highest >= 0 && info.semusz >= 1 && info.semaem >= 3);
    YES(semctl(0, 0, IPC_INFO, &info) >= 0 && info.semvmx == 32767);
    bool found = false;
    for (int i = 0; i <= highest; i++)
        if (semctl(i, 0, SEM_STAT, &ds) == id) found = ds.sem_nsems == 3;
    YES(found);

    PART("removal");
    child = MUST(fork());
    if (child == 0) _exit(op(id, 0, -32767, 0) ? errno : 0);
    wait_for_waiters(id, 0, GETNCNT, 1);
    T(semctl(id, 0, IPC_RMID));
    int status;
    waitpid(child, &status, 0);
    YES(WEXITSTATUS(status) == EIDRM);
    T(semctl(id, 0, GETVAL));
    T(op(id, 0, 1, 0));
    T(semget(key, 0, 0));
    return 0;
}

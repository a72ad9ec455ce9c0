// exec and exit while other threads run: they all end, the process id stays.
// cflags: -pthread
#include "check.h"
#include <pthread.h>

static void *sleeper(void *x) {
    for (;;) pause();
    return x;
}
static void *spinner(void *x) {
    for (;;) {}
    return x;
}
static void *executor(void *x) {
    sleep_ms(20);
    char *arguments[] = {"sh", "-c", "echo pid kept: $([ $$ = $KEEP ] && echo yes)", NULL}, environment[32];
    sprintf(environment, "KEEP=%d", getpid());
    execve("/bin/sh", arguments, (char *[]){environment, NULL});
    return x;
}
static void *exiter(void *x) {
    sleep_ms(20);
    syscall(SYS_exit_group, 23);
    return x;
}
static void *last(void *x) {
    sleep_ms(50);
    puts("the last thread");
    return x;
}

int main(void) {
    pthread_t thread;
    CHILD("exec by the first thread", {
        for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, sleeper, NULL);
        sleep_ms(20);
        execl("/bin/sh", "sh", "-c", "echo executed", NULL);
    });
    CHILD("exec by another thread", {
        pthread_create(&thread, NULL, executor, NULL);
        sleeper(NULL);
    });
    CHILD("exit_group by another thread", {
        pthread_create(&thread, NULL, spinner, NULL);
        pthread_create(&thread, NULL, exiter, NULL);
        sleeper(NULL);
    });
    CHILD("return from main", {
        pthread_create(&thread, NULL, spinner, NULL);
        exit(24);
    });
    CHILD("the first thread ends first", {
        pthread_create(&thread, NULL, last, NULL);
        pthread_exit(NULL);
    });
    CHILD("the first thread's raw exit", {
        pthread_create(&thread, NULL, last, NULL);
        syscall(SYS_exit, 9);
    });
    CHILD("fork in a thread copies only it", {
        pthread_create(&thread, NULL, sleeper, NULL);
        pid_t child = fork();
        if (child == 0) {
            printf("threads: ");
            fflush(stdout);
            execl("/bin/sh", "sh", "-c", "echo one", NULL);
        }
        reap("grandchild", child);
    });
    return 0;
}

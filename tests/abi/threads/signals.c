// Signals and threads: directed ones, process-wide ones, masks of each thread.
// cflags: -pthread
#include "check.h"
#include <pthread.h>

static pthread_t main_thread, taker;
static volatile int where, count;
static void handler(int number) {
    (void)number;
    where = pthread_equal(pthread_self(), main_thread) ? 1 : pthread_equal(pthread_self(), taker) ? 2 : 3;
    count++;
}
static void wait_count(int wanted) {
    for (int i = 0; i < 3000 && count < wanted; i++) sleep_ms(1);
}
static volatile int stop;
static void *idle(void *x) {
    while (!stop) sleep_ms(5);
    return x;
}
static void *spin(void *x) {
    while (!stop) {}
    return x;
}
static void *blocked_read(void *fd) {
    char byte;
    long got = read(*(int *)fd, &byte, 1);
    return (void *)(got == -1 ? -(long)errno : got);
}
static void *waiter(void *x) {
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigwait(&set, &number);
    return (void *)(long)number;
}

int main(void) {
    main_thread = pthread_self();
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&taker, NULL, idle, NULL);
    PART("directed");
    pthread_kill(taker, SIGUSR1);
    wait_count(1);
    N(where);
    pthread_kill(main_thread, SIGUSR1);
    wait_count(2);
    N(where);
    PART("to the process, blocked in the first thread");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    wait_count(3);
    N(where);
    PART("a thread that only computes");
    stop = 1;
    pthread_join(taker, NULL);
    stop = 0;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_create(&taker, NULL, spin, NULL);
    pthread_kill(taker, SIGUSR1);
    wait_count(4);
    N(where);
    stop = 1;
    pthread_join(taker, NULL);
    PART("interrupting another thread's read");
    int p[2];
    MUST(pipe(p));
    pthread_t reader;
    pthread_create(&reader, NULL, blocked_read, &p[0]);
    sleep_ms(30);
    pthread_kill(reader, SIGUSR1);
    void *result;
    pthread_join(reader, &result);
    puts(check_error(-(long)result));
    PART("sigwait in another thread");
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&reader, NULL, waiter, NULL);
    sleep_ms(20);
    kill(getpid(), SIGUSR2);
    pthread_join(reader, &result);
    YES((long)result == SIGUSR2);
    N(pthread_kill(main_thread, 0));
    N(pthread_kill(main_thread, 99) == EINVAL);
    PART("a fatal signal ends all threads");
    CHILD("child", {
        stop = 0;
        pthread_create(&reader, NULL, spin, NULL);
        sleep_ms(10);
        pthread_kill(reader, SIGKILL);
        for (;;) pause();
    });
    PART("stopping stops all threads");
    int *ticks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = MUST(fork());
    if (child == 0) {
        stop = 0;
        pthread_create(&reader, NULL, idle, NULL);
        for (;;) {
            __atomic_fetch_add(ticks, 1, __ATOMIC_SEQ_CST);
            sleep_ms(1);
        }
    }
    sleep_ms(50);
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    int before = *ticks;
    sleep_ms(50);
    YES(before > 0 && *ticks == before);
    kill(child, SIGCONT);
    sleep_ms(100);
    YES(*ticks > before);
    kill(child, SIGKILL);
    reap("child", child);
    return 0;
}

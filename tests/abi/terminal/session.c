// A terminal and its session: signals from keys, background reads and writes, a new size, hang-ups.
#include "check.h"
#include <pty.h>
#include <termios.h>

static int master;

static volatile sig_atomic_t got[65];
static void note(int signal) { got[signal]++; }

static char seen[4096];
static size_t length;

// Waits for a text and forgets it and what came before.
static void wait_for(const char *text) {
    struct pollfd poll_fd = {master, POLLIN, 0};
    while (!strstr(seen, text) && poll(&poll_fd, 1, 2000) > 0) {
        ssize_t n = read(master, seen + length, sizeof seen - 1 - length);
        if (n <= 0) break;
        length += n;
        seen[length] = 0;
    }
    char *found = strstr(seen, text);
    printf("%s: %s\n", text, found ? "seen" : "missing");
    if (found) {
        length = strlen(found + strlen(text));
        memmove(seen, found + strlen(text), length + 1);
    }
}

static void say(const char *text) { if (write(1, text, strlen(text)) < 0) _exit(9); }

static volatile sig_atomic_t handled;

static void handle(int signal) {
    handled++;
    signal == SIGINT     ? say("[interrupt]")
    : signal == SIGQUIT  ? say("[quit]")
    : signal == SIGWINCH ? say("[window]")
                         : say("[other]");
}

static void keys(void) {
    int session, group;
    session = tcgetsid(0) == getpid();
    group = tcgetpgrp(0) == getpgrp();
    say(session && group ? "mine" : "not mine");
    struct sigaction action = {.sa_handler = handle};
    // Delivered in sigsuspend only, where one that comes early is not missed.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
    sigaction(SIGWINCH, &action, NULL);
    say("[ready]");
    while (handled < 3) sigsuspend(&none);
    say("[done]");
    _exit(7);
}

static void background(void) {
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        char byte;
        ssize_t n = read(0, &byte, 1);
        _exit(n == 1 ? byte : 99);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    say(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN ? "[ttin]" : "[?]");
    tcsetpgrp(0, child);
    kill(child, SIGCONT);
    say("[type]");
    waitpid(child, &status, 0);
    say(WIFEXITED(status) && WEXITSTATUS(status) == 'k' ? "[key]" : "[??]");
    tcsetpgrp(0, getpgrp());
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_DFL);
        struct termios t;
        tcgetattr(0, &t);
        tcsetattr(0, TCSANOW, &t);
        _exit(1);
    }
    waitpid(child, &status, WUNTRACED);
    say(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTOU ? "[ttou]" : "[???]");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpgrp());
        say("[stop me]");
        pause();
    }
    waitpid(child, &status, WUNTRACED);
    say(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTSTP ? "[tstp]" : "[????]");
    kill(child, SIGKILL);
    _exit(0);
}

static void open_tty(void) {
    signal(SIGHUP, SIG_IGN);
    int tty = open("/dev/tty", O_RDWR);
    say(tty >= 0 && isatty(tty) ? "[tty]" : "[no tty]");
    ioctl(tty, TIOCNOTTY);
    int again = open("/dev/tty", O_RDWR);
    say(again < 0 && errno == ENXIO ? "[given up]" : "[still]");
    _exit(0);
}

static pid_t start(void (*run)(void)) {
    length = 0;
    seen[0] = 0;
    pid_t child = forkpty(&master, NULL, NULL, NULL);
    if (child == 0) {
        run();
        _exit(0);
    }
    return child;
}

static void finish(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("ended by signal %d\n", WTERMSIG(status));
    else
        printf("ended with %d\n", WEXITSTATUS(status));
    close(master);
}

static void sleep_on(void) {
    say("[asleep]");
    pause();
}

static void lead(void) {
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGHUP, &action, NULL);
    say("[leading]");
    char byte;
    ssize_t n = read(0, &byte, 1);
    while (!got[SIGHUP]) usleep(1000);
    _exit(n <= 0 && write(1, "x", 1) == -1 && errno == EIO ? 3 : 4);
}

int main(void) {
    PART("keys");
    pid_t child = start(keys);
    wait_for("mine[ready]");
    T(write(master, "\003", 1));
    wait_for("[interrupt]");
    T(write(master, "\034", 1));
    wait_for("[quit]");
    struct winsize size = {10, 20, 0, 0};
    T(ioctl(master, TIOCSWINSZ, &size));
    wait_for("[done]");
    finish(child);

    PART("default actions");
    child = start(sleep_on);
    wait_for("[asleep]");
    T(write(master, "\003", 1));
    finish(child);

    PART("background");
    child = start(background);
    wait_for("[ttin]");
    wait_for("[type]");
    T(write(master, "k\n", 2));
    wait_for("[key]");
    wait_for("[ttou]");
    wait_for("[stop me]");
    T(write(master, "\032", 1));
    wait_for("[tstp]");
    finish(child);

    PART("controlling");
    child = start(open_tty);
    wait_for("[tty]");
    finish(child);

    PART("hang-up");
    child = start(sleep_on);
    wait_for("[asleep]");
    close(master);
    finish(child);
    child = start(lead);
    wait_for("[leading]");
    close(master);
    finish(child);
}

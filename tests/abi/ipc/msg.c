// System V message queues.
#include "check.h"
#include <sys/ipc.h>
#include <sys/msg.h>

struct message {
    long kind;
    char text[9000];
};

static struct message out, in;

static int send_(int id, long kind, const char *text, int flags) {
    out.kind = kind;
    strcpy(out.text, text);
    return msgsnd(id, &out, strlen(text), flags);
}

static void receive(const char *what, int id, size_t room, long kind, int flags) {
    memset(&in, 0, sizeof in);
    errno = 0;
    ssize_t got = msgrcv(id, &in, room, kind, flags);
    if (got < 0)
        printf("%s: %s\n", what, check_error(errno));
    else
        printf("%s: %zd bytes of type %ld: %s\n", what, got, in.kind, in.text);
}

static void show(const char *what, int id) {
    struct msqid_ds ds;
    if (msgctl(id, IPC_STAT, &ds) < 0) {
        printf("%s: %s\n", what, check_error(errno));
        return;
    }
    printf("%s: mode %o, %lu messages, %lu bytes, at most %lu, sender %d, receiver %d\n", what, ds.msg_perm.mode,
           (unsigned long)ds.msg_qnum, (unsigned long)ds.__msg_cbytes, (unsigned long)ds.msg_qbytes,
           ds.msg_lspid == getpid(), ds.msg_lrpid == getpid());
}

static void on_alarm(int number) { (void)number; }

int main(void) {
    key_t key = 0x4a000000 | (getpid() & 0xffffff);

    PART("msgget");
    T(msgget(key, 0600));
    int id = OK(msgget(key, IPC_CREAT | IPC_EXCL | 0620));
    T(msgget(key, IPC_CREAT | IPC_EXCL | 0620));
    YES(msgget(key, 0600) == id);
    struct msqid_ds ds;
    MUST(msgctl(id, IPC_STAT, &ds));
    // The room of a new queue is a setting.
    ds.msg_qbytes = 1000;
    T(msgctl(id, IPC_SET, &ds));
    show("fresh", id);

    PART("types");
    T(send_(id, 5, "five", 0));
    T(send_(id, 3, "three", 0));
    T(send_(id, 9, "nine", 0));
    T(send_(id, 3, "three again", 0));
    T(send_(id, 7, "seven", 0));
    T(send_(id, 7, "", 0));
    show("six", id);
    receive("type 3", id, 100, 3, 0);
    receive("first", id, 100, 0, 0);
    receive("up to 8", id, 100, -8, 0);
    receive("up to 2", id, 100, -2, IPC_NOWAIT);
    receive("not 9", id, 100, 9, MSG_EXCEPT);
    receive("too long", id, 2, 9, 0);
    receive("cut off", id, 2, 9, MSG_NOERROR);
    receive("empty", id, 0, 0, 0);
    receive("none", id, 100, 0, IPC_NOWAIT);
    show("empty", id);

    PART("errors");
    T(send_(id, 0, "x", 0));
    T(send_(id, -1, "x", 0));
    T(send_(-1, 1, "x", 0));
    T(send_(1 << 30, 1, "x", 0));
    T(msgsnd(id, BAD, 1, 0));
    T(msgsnd(id, &out, -1, 0));
    T(msgsnd(id, &out, 1 << 20, 0));
    T(msgrcv(id, &in, -1, 0, IPC_NOWAIT));
    T(msgrcv(-1, &in, 1, 0, 0));
    T(msgrcv(1 << 30, &in, 1, 0, 0));
    T(msgctl(id, 99, &ds));
    T(msgctl(-1, IPC_STAT, &ds));
    T(msgctl(id, IPC_STAT, BAD));
    T(msgctl(id, IPC_SET, BAD));
    T(send_(id, 1, "lost", 0));
    T(msgrcv(id, BAD, 100, 0, 0));
    show("after a bad address", id);

    PART("full");
    out.kind = 1;
    T(msgsnd(id, &out, 600, 0));
    T(msgsnd(id, &out, 600, IPC_NOWAIT));
    T(msgsnd(id, &out, 400, IPC_NOWAIT));
    T(msgsnd(id, &out, 0, IPC_NOWAIT));
    show("full", id);
    pid_t child = MUST(fork());
    if (child == 0) _exit(send_(id, 4, "waited", 0) ? errno : 0);
    sleep_ms(20);
    T(msgrcv(id, &in, 1000, 0, 0));
    reap("sender", child);
    YES((msgctl(id, IPC_STAT, &ds), ds.msg_lspid) == child);
    T(msgrcv(id, &in, 1000, 0, 0));
    T(msgrcv(id, &in, 1000, 0, 0));
    receive("waited", id, 1000, 0, 0);

    PART("waiting");
    child = MUST(fork());
    if (child == 0) {
        receive("child", id, 100, 42, 0);
        _exit(0);
    }
    sleep_ms(10);
    MUST(send_(id, 41, "other", 0));
    MUST(send_(id, 42, "this", 0));
    reap("receiver", child);
    receive("other", id, 100, 0, 0);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    alarms(20);
    receive("interrupted", id, 100, 0, 0);
    alarms(0);

    PART("others");
    if (getuid() == 0) {
        CHILD("nobody", MUST(setgid(65534)); MUST(setuid(65534)); T(send_(id, 1, "x", 0));
              T(msgrcv(id, &in, 10, 0, IPC_NOWAIT)); T(msgget(key, 0400)); T(msgctl(id, IPC_STAT, &ds));
              T(msgctl(id, IPC_RMID, NULL)); T(msgctl(id, IPC_SET, &ds)));
    } else
        puts("not root");

    PART("status");
    struct msginfo info;
    int highest = msgctl(0, MSG_INFO, (void *)&info);
    YES(highest >= 0 && info.msgpool >= 1);
    YES(msgctl(0, IPC_INFO, (void *)&info) >= 0 && info.msgmax > 0 && info.msgmni > 0);
    N(info.msgseg);
    N(info.msgssz);
    bool found = false;
    for (int i = 0; i <= highest; i++)
        if (msgctl(i, MSG_STAT, &ds) == id) found = ds.msg_qbytes == 1000;
    YES(found);

    PART("removal");
    child = MUST(fork());
    if (child == 0) _exit(msgrcv(id, &in, 10, 0, 0) < 0 ? errno : 0);
    sleep_ms(20);
    T(msgctl(id, IPC_RMID, NULL));
    int status;
    waitpid(child, &status, 0);
    YES(WEXITSTATUS(status) == EIDRM || WEXITSTATUS(status) == EINVAL);
    T(send_(id, 1, "x", 0));
    T(msgctl(id, IPC_STAT, &ds));
    return 0;
}

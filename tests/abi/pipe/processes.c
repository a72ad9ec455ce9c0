// Pipes between processes: waiting readers and writers, large transfers, atomic small writes, chains.
#include "check.h"

int main(void) {
    int p[2], q[2];
    static char data[1 << 20], back[1 << 20];
    for (size_t i = 0; i < sizeof data; i++) data[i] = i * 31 + i / 977;
    PART("a megabyte through a child and back");
    MUST(pipe(p));
    MUST(pipe(q));
    pid_t child = MUST(fork());
    if (child == 0) {
        close(p[1]);
        close(q[0]);
        char buffer[3333];
        long got;
        while ((got = read(p[0], buffer, sizeof buffer)) > 0)
            for (long at = 0; at < got;) at += write(q[1], buffer + at, got - at);
        _exit(0);
    }
    close(p[0]);
    close(q[1]);
    pid_t writer = MUST(fork());
    if (writer == 0) {
        close(q[0]);
        for (size_t at = 0; at < sizeof data;) at += write(p[1], data + at, sizeof data - at);
        _exit(0);
    }
    close(p[1]);
    size_t total = 0;
    long got;
    while ((got = read(q[0], back + total, sizeof back - total)) > 0) total += got;
    N(total);
    YES(memcmp(data, back, sizeof data) == 0);
    reap("child", child);
    reap("writer", writer);
    PART("four writers do not mix small writes");
    MUST(pipe(p));
    for (int i = 0; i < 4; i++)
        if (MUST(fork()) == 0) {
            char record[500];
            memset(record, 'a' + i, sizeof record);
            for (int j = 0; j < 200; j++) write(p[1], record, sizeof record);
            _exit(0);
        }
    close(p[1]);
    int counts[4] = {0}, mixed = 0;
    char record[500];
    for (;;) {
        size_t have = 0;
        while (have < sizeof record && (got = read(p[0], record + have, sizeof record - have)) > 0) have += got;
        if (have < sizeof record) break;
        for (int i = 1; i < 500; i++) mixed += record[i] != record[0];
        counts[record[0] - 'a']++;
    }
    printf("%d %d %d %d mixed %d\n", counts[0], counts[1], counts[2], counts[3], mixed);
    while (wait(NULL) > 0) {}
    PART("a reader blocked until the last writer closes");
    MUST(pipe(p));
    child = MUST(fork());
    if (child == 0) {
        close(p[0]);
        sleep_ms(50);
        _exit(0);
    }
    close(p[1]);
    T(read(p[0], record, 1));
    reap("child", child);
    PART("a writer blocked until the reader leaves");
    MUST(pipe(p));
    signal(SIGPIPE, SIG_IGN);
    child = MUST(fork());
    if (child == 0) {
        close(p[1]);
        sleep_ms(50);
        _exit(0);
    }
    close(p[0]);
    T(write(p[1], data, sizeof data));
    T(write(p[1], data, sizeof data));
    reap("child", child);
    PART("a chain of ten");
    MUST(pipe(p));
    int in = p[0];
    write(p[1], "token", 5);
    close(p[1]);
    for (int i = 0; i < 10; i++) {
        MUST(pipe(q));
        if (MUST(fork()) == 0) {
            char buffer[64];
            close(q[0]);
            long n = read(in, buffer, 32);
            buffer[n++] = '0' + i;
            write(q[1], buffer, n);
            _exit(0);
        }
        close(in);
        close(q[1]);
        in = q[0];
    }
    char result[64] = {0};
    T(read(in, result, 64));
    puts(result);
    while (wait(NULL) > 0) {}
    PART("ping-pong");
    MUST(pipe(p));
    MUST(pipe(q));
    child = MUST(fork());
    if (child == 0) {
        int value;
        while (read(p[0], &value, 4) == 4 && value >= 0) {
            value++;
            write(q[1], &value, 4);
        }
        _exit(0);
    }
    int value = 0;
    for (int i = 0; i < 500; i++) {
        write(p[1], &value, 4);
        read(q[0], &value, 4);
    }
    N(value);
    value = -1;
    write(p[1], &value, 4);
    reap("child", child);
    return 0;
}

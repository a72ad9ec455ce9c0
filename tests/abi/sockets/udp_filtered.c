// A filter drops the first of several datagrams: the next ones are there all the same, however they are spread in time.
#include "inet.h"
#include <linux/filter.h>

int main(void) {
    int r = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)), s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in a = in4("127.0.0.1", 0);
    MUST(bind(r, AS(a)));
    a = in4("127.0.0.1", port_of(r));
    MUST(connect(s, AS(a)));
    // Takes datagrams of four bytes; the header of UDP counts.
    struct sock_filter length[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 8 + 4, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {COUNT(length), length};
    MUST(setsockopt(r, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    int missed = 0, more = 0;
    for (int i = 0; i < 3000; i++) {
        char data[8];
        MUST(send(s, "abc", 3, 0));
        for (volatile int pause = 0; pause < i % 50 * 400; pause++) continue;
        MUST(send(s, "abcd", 4, 0)), MUST(send(s, "abcde", 5, 0));
        while (recv(r, data, sizeof data, 0) != 4) missed++, usleep(10);
        more += recv(r, data, sizeof data, 0) >= 0;
    }
    N(missed);
    N(more);
    return 0;
}

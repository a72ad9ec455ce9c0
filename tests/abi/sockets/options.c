// Every option of SOL_SOCKET on every family and kind of socket: its errors, and what becomes of its length.
#include "check.h"
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static const struct kind {
    const char *name;
    int family, kind, pair;
} kinds[] = {
    {"unix stream", AF_UNIX, SOCK_STREAM, 0},       {"unix datagrams", AF_UNIX, SOCK_DGRAM, 0},
    {"unix packets", AF_UNIX, SOCK_SEQPACKET, 0},   {"unix pair", AF_UNIX, SOCK_STREAM, 1},
    {"tcp", AF_INET, SOCK_STREAM, 0},               {"udp", AF_INET, SOCK_DGRAM, 0},
    {"tcp6", AF_INET6, SOCK_STREAM, 0},             {"udp6", AF_INET6, SOCK_DGRAM, 0},
    {"netlink", AF_NETLINK, SOCK_RAW, 0},
};
// Options whose values differ from run to run.
static int varies(int option) {
    switch (option) {
    case SO_PEERCRED:
    case SO_COOKIE:
    case SO_NETNS_COOKIE:
    case SO_PEERGROUPS:
    case 77: // SO_PEERPIDFD
        return 1;
    default:
        return 0;
    }
}
// Where the answers for one kind of socket go.
static FILE *out;
static int fresh(const struct kind *k) {
    int p[2];
    if (!k->pair) return MUST(socket(k->family, k->kind, 0));
    MUST(socketpair(k->family, k->kind, 0, p));
    close(p[1]);
    return p[0];
}
static void get(const struct kind *k, int option) {
    static const int lengths[] = {0, 1, 4, 8, 16, 200, -1};
    int s = fresh(k);
    fprintf(out, "get %d:", option);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        unsigned char value[256];
        memset(value, 0x5a, sizeof value);
        socklen_t length = lengths[i];
        int failed = getsockopt(s, SOL_SOCKET, option, value, &length);
        fprintf(out, " [%d] ", lengths[i]);
        if (failed) fprintf(out, "%s", check_error(errno));
        if (failed && length == (socklen_t)lengths[i]) continue;
        fprintf(out, "%d", (int)length);
        if (!varies(option) && length && length < 32) {
            fprintf(out, "=");
            for (socklen_t j = 0; j < length; j++) fprintf(out, "%02x", value[j]);
        }
        if (option == 77 && !failed) close(*(int *)value);
    }
    fprintf(out, "\n");
    fprintf(out, "no value: %s, ", getsockopt(s, SOL_SOCKET, option, BAD, &(socklen_t){4}) ? check_error(errno) : "ok");
    fprintf(out, "no length: %s\n", getsockopt(s, SOL_SOCKET, option, &(int){0}, BAD) ? check_error(errno) : "ok");
    close(s);
}
static void set(const struct kind *k, int option) {
    static const int lengths[] = {0, 1, 3, 4, 8, 16, 200, -1};
    int numbers[] = {0, 1, -1, 1000};
    // Connections have no pace in a pod, and messages no times but of arrival.
    if (option == SO_MAX_PACING_RATE && k->kind == SOCK_STREAM && k->family != AF_UNIX) return;
    if (option == SO_TIMESTAMPING_OLD || option == SO_TIMESTAMPING_NEW) numbers[3] = 24;
    for (size_t n = 0; n < COUNT(numbers); n++) {
        fprintf(out, "set %d to %d:", option, numbers[n]);
        for (size_t i = 0; i < COUNT(lengths); i++) {
            char value[256] = {0};
            memcpy(value, &numbers[n], 4);
            int s = fresh(k);
            fprintf(out, " [%d] ", lengths[i]);
            if (setsockopt(s, SOL_SOCKET, option, value, lengths[i])) {
                fprintf(out, "%s", check_error(errno));
            } else {
                unsigned char now[32];
                memset(now, 0x5a, sizeof now);
                socklen_t length = sizeof now;
                if (getsockopt(s, SOL_SOCKET, option, now, &length)) fprintf(out, "ok, %s", check_error(errno));
                else if (varies(option)) fprintf(out, "ok");
                else
                    for (socklen_t j = 0; j < length && j < 32; j++) fprintf(out, "%02x", now[j]);
            }
            close(s);
        }
        fprintf(out, "\n");
    }
    int s = fresh(k);
    fprintf(out, "no value: %s\n", setsockopt(s, SOL_SOCKET, option, BAD, 4) ? check_error(errno) : "ok");
    close(s);
}
int main(void) {
    for (int option = -1; option < 90; option++) {
        // A pod's filters have none of the extensions that this counts.
        if (option == SO_BPF_EXTENSIONS) continue;
        char *texts[COUNT(kinds)];
        for (size_t i = 0; i < COUNT(kinds); i++) {
            size_t size;
            out = open_memstream(&texts[i], &size);
            get(&kinds[i], option);
            set(&kinds[i], option);
            fclose(out);
        }
        // Kinds that agree are told together.
        for (size_t i = 0; i < COUNT(kinds); i++) {
            if (!texts[i]) continue;
            printf("-- %s", kinds[i].name);
            for (size_t j = i + 1; j < COUNT(kinds); j++) {
                if (!texts[j] || strcmp(texts[i], texts[j])) continue;
                printf(", %s", kinds[j].name);
                free(texts[j]);
                texts[j] = NULL;
            }
            printf("\n%s", texts[i]);
            free(texts[i]);
        }
    }
    return 0;
}

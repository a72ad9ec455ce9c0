// Loads, stores and jumps to where keel's part of the address space has no memory: SIGSEGV for the process, and the pod goes on.
#define _GNU_SOURCE
#include "guest.h"
#include <sys/resource.h>
#include <sys/wait.h>

enum { LOAD, STORE, VECTOR_STORE, JUMP, KINDS };

static void go(int kind, unsigned long address) {
    volatile char *at = (volatile char *)address;
    switch (kind) {
    case LOAD: (void)*at; break;
    case STORE: *at = 1; break;
    case VECTOR_STORE: __asm__ volatile("movups %%xmm0, (%0)" : : "r"(at) : "memory"); break;
    case JUMP: ((void (*)(void))address)(); break;
    }
}

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const unsigned long base = DIRECT, mib = 1 << 20, gib = 1 << 30;
    // RAM that the pod may get and has not, above its limit, the window that it has not, stacks, nothing at all.
    const unsigned long places[] = {250 * mib, 700 * mib, 3 * gib, 64 * gib, 127 * gib, 140 * gib, 191 * gib, 200 * gib, 300 * gib, 511 * gib};
    int bad = 0;
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            pid_t child = fork();
            if (child == 0) {
                go(kind, base + places[i] + 0x12340);
                _exit(0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) {
                fprintf(stderr, "%lu MiB, kind %d: status %x\n", places[i] / mib, kind, status);
                bad = 1;
            }
        }
    return bad;
}

// What a program needs to go behind keel's back: the places of abi/src/layout.rs and the ring of abi/src/ring.rs.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIRECT 0x7f8000000000ul
#define PERCPU (DIRECT + 0x20000)
#define IDT (PERCPU + 0x1000)
#define RING_GPA 0x60000ul
#define BOOT_TABLES (DIRECT + 0x70000)
#define KEEL (DIRECT + 0x200000)
#define WINDOW_GPA (128ul << 30)
#define ENTRIES 128

enum { DOORBELL = 0x510, IDLE, SERVE, PANIC };

struct submission {
    uint32_t op, flags;
    uint64_t id, args[6], in, out;
    uint32_t in_len, out_len;
};
struct completion {
    uint64_t id;
    int64_t result;
    uint64_t extra[2];
};
struct segment {
    uint64_t gpa, len;
};
struct ring {
    volatile uint32_t sub_head, comp_tail, server, kicks;
    uint64_t pad0[6];
    volatile uint32_t sub_tail, comp_head, tick_wanted, poll_wanted;
    volatile uint64_t deadline;
    volatile uint32_t kick_wanted, waiting;
    volatile uint64_t ram_used;
    uint64_t pad1[3];
    uint64_t clocks[8];
    volatile struct submission sub[ENTRIES];
    volatile struct completion comp[ENTRIES];
};
_Static_assert(__builtin_offsetof(struct ring, sub) == 192, "as in abi/src/ring.rs");
static struct ring *const ring = (struct ring *)(DIRECT + RING_GPA);

static inline void out(int port) { __asm__ volatile("outb %%al, %%dx" ::"d"(port), "a"(0) : "memory"); }

static uint64_t seed = 88172645463325252ull;
static inline uint64_t chance(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

// Guest-physical memory that keel does not use: the hole below its image, behind the boot tables.
#define ROOM_GPA 0x100000ul
#define ROOM ((char *)(DIRECT + ROOM_GPA))

// One request, as keel would make it; the result.
static uint64_t extra[2];
__attribute__((unused)) static long request(struct submission s) {
    s.id = 0xabcdef;
    ring->sub[ring->sub_tail % ENTRIES] = s;
    uint32_t before = ring->comp_tail;
    ring->sub_tail++;
    for (int i = 0; i < 1000 && ring->comp_tail == before; i++) out(SERVE);
    for (uint32_t at = before; at != ring->comp_tail; at++) {
        volatile struct completion *c = &ring->comp[at % ENTRIES];
        if (c->id == s.id) {
            extra[0] = c->extra[0], extra[1] = c->extra[1];
            long result = c->result;
            ring->comp_head = ring->comp_tail;
            return result;
        }
    }
    return -9999;
}

static int failures;
#define EXPECT(call, expected)                                                                                         \
    do {                                                                                                               \
        long got = (call);                                                                                             \
        if (got != (expected)) {                                                                                       \
            fprintf(stderr, "line %d: %ld instead of %ld\n", __LINE__, got, (long)(expected));                         \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

struct attack {
    const char *name;
    void (*run)(void);
};
static inline int attack(const struct attack *list, int argc, char **argv) {
    for (; argc > 1 && list->name; list++)
        if (!strcmp(list->name, argv[1])) {
            list->run();
            return failures ? 1 : 0;
        }
    return 99;
}

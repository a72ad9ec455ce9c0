// Nonsense in the ring, and requests for what is not the pod's.
#include "guest.h"

enum { NOP, EXIT, CRASH, LOG, GROW_RAM = 5, GROW_WINDOW, RELEASE };
enum { STREAM_READ = 16, STREAM_WRITE, STREAM_POLL, CANCEL, STREAM_STAT = 24, SIGNAL_WAIT };
enum { WALK = 32, READ_DIR, OPEN, CLOSE, READ, WRITE, HANDLE_ATTR, TRUNCATE, MAP = 42, UNMAP, READ_LINK, MKDIR, UNLINK = 49, FETCH = 57 };

static void fill(void) {
    volatile uint64_t *words = (volatile uint64_t *)ring->sub;
    for (size_t i = 0; i < sizeof ring->sub / 8; i++) words[i] = chance();
    for (int i = 0; i < ENTRIES; i++) {
        ring->sub[i].op = chance() % 70;
        if (ring->sub[i].op == EXIT || ring->sub[i].op == CRASH) ring->sub[i].op = NOP;
        if (chance() % 2) ring->sub[i].flags = chance() % 4;
        if (chance() % 2) ring->sub[i].in = chance() % (24 << 20), ring->sub[i].in_len = chance() % 9000;
        // Not into keel: it shall live on.
        ring->sub[i].out = chance() % 4 ? ROOM_GPA : ring->sub[i].out | 1ul << 63;
        ring->sub[i].out_len = chance() % 5000;
        // Arguments that an operation does not have are refused.
        int count = chance() % 7;
        for (int a = 0; a < 6; a++)
            if (a >= count || chance() % 2) ring->sub[i].args[a] = a < count ? chance() % 5 : 0;
        if (ring->sub[i].op == RELEASE) ring->sub[i].args[0] |= 1; // no page
    }
}

static void garbage(void) {
    for (int i = 0; i < 300; i++) {
        fill();
        ring->sub_tail += chance() % ENTRIES;
        out(SERVE);
        ring->comp_head = ring->comp_tail;
    }
}

static void wrapping(void) {
    for (;;) {
        ring->sub_tail = ring->sub_head - 1;
        out(SERVE);
        ring->comp_head = ring->comp_tail;
    }
}

static void no_completions_taken(void) {
    for (;;) {
        for (int i = 0; i < ENTRIES; i++) ring->sub[i] = (struct submission){.op = NOP};
        ring->sub_tail += ENTRIES - 1;
        ring->comp_head = ring->comp_tail - ENTRIES;
        out(SERVE);
    }
}

// The helper of the monitor reads while this writes.
static void racing(void) {
    ring->poll_wanted = 1;
    out(DOORBELL);
    for (;;) {
        ring->sub[chance() % ENTRIES].op = chance() % 70 | 32;
        ((volatile uint64_t *)ring->sub)[chance() % (sizeof ring->sub / 8)] = chance() & 0xffff;
        ring->sub_tail++;
        ring->comp_head = ring->comp_tail;
        ring->poll_wanted = 1;
        if (chance() % 64 == 0) ring->sub_head = chance();
        if (chance() % 64 == 0) ring->ram_used = chance() >> chance() % 64;
        if (chance() % 64 == 0) ring->sub_tail = ring->sub_head + chance() % ENTRIES;
        if (!ring->server) out(DOORBELL);
    }
}

// The helper serves for ever, and the time limit ends the pod all the same.
static void endless(void) {
    ring->poll_wanted = 1;
    for (int i = 0; i < ENTRIES; i++) ring->sub[i] = (struct submission){.op = NOP};
    out(DOORBELL);
    for (;;) {
        ring->sub_tail = ring->sub_head + 100;
        ring->comp_head = ring->comp_tail;
        ring->poll_wanted = 1;
        if (!ring->server) out(DOORBELL);
    }
}

// The payload of a request is the ring itself.
static void self_reference(void) {
    for (int i = 0; i < 200; i++) {
        uint64_t place = RING_GPA + chance() % sizeof(struct ring);
        struct submission s = {.op = STREAM_STAT, .out = place, .out_len = chance() % 300};
        ring->sub[ring->sub_tail % ENTRIES] = s;
        ring->sub_tail++;
        out(SERVE);
        s = (struct submission){.op = READ_DIR, .args = {1}, .in = place, .in_len = chance() % 600, .flags = 3};
        s.out = RING_GPA + 128, s.out_len = chance() % 512;
        ring->sub[ring->sub_tail % ENTRIES] = s;
        ring->sub_tail = ring->sub_head + 1;
        out(SERVE);
        ring->comp_head = ring->comp_tail;
    }
}

static void outside(void) {
    static const uint64_t places[] = {1ul << 40, ~0ul, ~0ul - 4095, 100ul << 30, WINDOW_GPA + (60ul << 30), 1ul << 63};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        EXPECT(request((struct submission){.op = STREAM_STAT, .out = places[i], .out_len = 4096}), -EFAULT);
        EXPECT(request((struct submission){.op = LOG, .in = places[i], .in_len = 4096}), -EFAULT);
        EXPECT(request((struct submission){.op = WALK, .args = {1}, .in = places[i], .in_len = 3, .flags = 1}), -EFAULT);
        *(struct segment *)ROOM = (struct segment){places[i], ~0ul};
        EXPECT(request((struct submission){.op = STREAM_STAT, .out = ROOM_GPA, .out_len = 1, .flags = 2}), -EFAULT);
    }
    EXPECT(request((struct submission){.op = STREAM_STAT, .out = ROOM_GPA, .out_len = 513, .flags = 2}), -EINVAL);
    EXPECT(request((struct submission){.op = STREAM_STAT, .out = ROOM_GPA, .out_len = ~0u, .flags = 2}), -EINVAL);
    EXPECT(request((struct submission){.op = STREAM_STAT, .out = 0, .out_len = ~0u}), -EFAULT);
    EXPECT(request((struct submission){.op = 4711}), -ENOSYS);
    EXPECT(request((struct submission){.op = ~0u}), -ENOSYS);
    EXPECT(request((struct submission){.op = RELEASE, .args = {~0ul - 4095, 8192}}), -EINVAL);
    EXPECT(request((struct submission){.op = RELEASE, .args = {0, 1ul << 50}}), -EINVAL);
    EXPECT(request((struct submission){.op = UNMAP, .args = {0, 4096}}), -EINVAL);
    EXPECT(request((struct submission){.op = UNMAP, .args = {WINDOW_GPA + (3ul << 30), 1ul << 30}}), -EINVAL);
    EXPECT(request((struct submission){.op = GROW_RAM, .args = {~0ul}}) >= -ENOMEM, 1);
    EXPECT(request((struct submission){.op = GROW_WINDOW, .args = {~0ul}}) >= -ENOMEM, 1);
    // All memory, five hundred times.
    struct segment *list = (struct segment *)ROOM;
    for (int i = 0; i < 512; i++) list[i] = (struct segment){0, 16 << 20};
    EXPECT(request((struct submission){.op = LOG, .in = ROOM_GPA, .in_len = 512, .flags = 1}), 0);
    EXPECT(request((struct submission){.op = MKDIR, .args = {1}, .in = ROOM_GPA, .in_len = 512, .flags = 1}), -E2BIG);
}

static long on_path(uint32_t op, uint64_t export, uint64_t a1, const char *path) {
    strcpy(ROOM, path);
    struct submission s = {.op = op, .args = {export, a1}, .in = ROOM_GPA, .in_len = strlen(path)};
    s.out = ROOM_GPA + 8192, s.out_len = 8192;
    return request(s);
}

static void other_files(void) {
    for (uint64_t export = 1; export < 4; export++) {
        static const int ops[] = {WALK, READ_DIR, OPEN, READ_LINK, MKDIR, UNLINK, FETCH};
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            int op = ops[i];
            EXPECT(on_path(op, export, op == OPEN, "../etc/passwd"), -EINVAL);
            EXPECT(on_path(op, export, op == OPEN, "/etc/passwd"), -EINVAL);
            EXPECT(on_path(op, export, op == OPEN, "a/../../b"), -EINVAL);
        }
        // Whatever it is, nothing is written: none of these was granted so.
        EXPECT(on_path(OPEN, export, 2 | 4, "hull-was-here") < 0, 1);
        EXPECT(on_path(MKDIR, export, 0755, "hull-was-here"), -EROFS);
        EXPECT(on_path(UNLINK, export, 0, "passwd"), -EROFS);
        // A file of the host that only root may read, and roots do run this test.
        EXPECT(on_path(OPEN, export, 1, "shadow") < 0, 1);
        EXPECT(on_path(FETCH, export, 0, "shadow") < 0, 1);
    }
    for (uint64_t export = 50; export; export <<= 1) EXPECT(on_path(WALK, export, 0, "passwd"), -EINVAL);
    for (int i = 0; i < 2000; i++) {
        uint64_t handle = chance() << 32 | chance() % 100;
        if (chance() % 2) handle = chance();
        EXPECT(request((struct submission){.op = CLOSE, .args = {handle | 1ul << 62}}), -EBADF);
        EXPECT(request((struct submission){.op = READ, .args = {handle | 1ul << 62}}), -EBADF);
    }
}

static void many_waiting(void) {
    int busy = 0;
    for (int i = 0; i < 1000; i++) {
        ring->sub[ring->sub_tail % ENTRIES] =
            (struct submission){.op = STREAM_POLL, .id = i}; // for no event
        uint32_t before = ring->comp_tail;
        ring->sub_tail++;
        out(SERVE);
        busy += ring->comp_tail != before && ring->comp[before % ENTRIES].result == -EBUSY;
        ring->comp_head = ring->comp_tail;
    }
    EXPECT(busy > 700, 1);
}

// As many handles as it gets, and each page of the window by itself.
static void many_handles(void) {
    long result = -1;
    uint64_t last = 0, export = 0;
    while (result < 0 && ++export < 9) result = on_path(OPEN, export, 1, "passwd");
    for (int count = 0; count < 40000 && result >= 0; count++) {
        last = extra[0];
        result = on_path(OPEN, export, 1, "passwd");
    }
    EXPECT(result, -EMFILE);
    EXPECT(last != 0, 1);
    request((struct submission){.op = GROW_WINDOW, .args = {1ul << 30}});
    long mapped = 0;
    for (uint64_t page = 1; page < 1ul << 13; page += 2) {
        result = request((struct submission){.op = MAP, .args = {last, 0, 4096, WINDOW_GPA + (page << 12)}});
        if (result < 0) break;
        mapped++;
    }
    EXPECT(result == 0 || result == -ENOMEM || result == -EINVAL, 1);
    EXPECT(mapped > 100, 1);
    // It goes on to serve.
    EXPECT(request((struct submission){.op = NOP}), 0);
    _exit(failures ? 1 : 0);
}

// Leaves signals to `hull` that never came, as if it should stop: its time limit would stop with it.
static void stop_hull(void) {
    // What keel itself waits for comes first.
    for (int id = 0; id < 3000; id++) request((struct submission){.op = CANCEL, .args = {id}});
    for (int signal = 1; signal < 65; signal++) {
        EXPECT(request((struct submission){.op = SIGNAL_WAIT, .args = {signal}}), -EINVAL);
        request((struct submission){.op = CANCEL, .args = {0xabcdef}});
    }
    _exit(failures ? 1 : 0);
}

// Maps memory where keel would map it.
static void map_directly(uint64_t start, uint64_t end) {
    const uint64_t address = 0x000ffffffffff000, large = 0x87;
    volatile uint64_t *root = (uint64_t *)BOOT_TABLES, *upper = (uint64_t *)(DIRECT + (root[255] & address));
    for (uint64_t at = start; at < end; at += 2 << 20) {
        volatile uint64_t *table = (uint64_t *)(DIRECT + (upper[at >> 30] & address));
        table[at >> 21 & 511] = at | large;
    }
}

// Takes all memory of the host that it can get: RAM, handles, directory streams, pending requests, pages of the window that are lost.
// Says so, and waits. The pod has 64 MiB; the writable export has a file `cut` and a directory `many`.
static void memory(void) {
    while (request((struct submission){.op = GROW_RAM, .args = {~0ul}}) > 0) {}
    while (request((struct submission){.op = GROW_WINDOW, .args = {256ul << 20}}) > 0) {}
    map_directly(0, 64 << 20);
    map_directly(WINDOW_GPA, WINDOW_GPA + (64ul << 30));
    uint64_t export = 1, file, end = 96ul << 20;
    while (export < 40 && on_path(OPEN, export, 1 | 2, "cut") < 0) export++;
    EXPECT(export < 40, 1);
    file = extra[0];
    long result = 0;
    int streams = 0, handles = 0;
    for (; streams < 1000 && result >= 0; streams++) {
        strcpy(ROOM, "many");
        result = request((struct submission){
            .op = READ_DIR, .args = {export}, .in = ROOM_GPA, .in_len = 4, .out = ROOM_GPA + 8192, .out_len = 1000});
    }
    EXPECT(result, -EMFILE);
    for (result = 0; handles < 40000 && result >= 0; handles++) result = on_path(OPEN, export, 1, "cut");
    EXPECT(result, -EMFILE);
    EXPECT(request((struct submission){.op = TRUNCATE, .args = {file, end}}), 0);
    EXPECT(request((struct submission){.op = MAP, .args = {file, 0, end, WINDOW_GPA + (1ul << 30), 1}}), 0);
    EXPECT(request((struct submission){.op = MAP, .args = {file, 0, end + 4096, WINDOW_GPA + (2ul << 30), 0}}), -ENXIO);
    EXPECT(request((struct submission){.op = TRUNCATE, .args = {file, 0}}), 0);
    for (uint64_t at = 0; at < end; at += 4096) *(volatile char *)(DIRECT + WINDOW_GPA + (1ul << 30) + at) = 1;
    // Page tables for all of the window.
    for (uint64_t at = 0; at < 4ul << 30; at += 2 << 20)
        if (at >> 30 != 1) (void)*(volatile char *)(DIRECT + WINDOW_GPA + at);
    for (volatile char *at = (char *)KEEL; at < (char *)DIRECT + (64 << 20); at += 4096) *at = *at;
    EXPECT(streams > 200 && handles > 500, 1);
    if (failures) _exit(1);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}

static void give_away_everything(void) {
    for (uint64_t at = 0; at < 64ul << 20; at += 4096) {
        ring->sub[ring->sub_tail % ENTRIES] = (struct submission){.op = RELEASE, .args = {4 << 20, 20 << 20}};
        ring->sub_tail++;
        out(SERVE);
        ring->sub[ring->sub_tail % ENTRIES] = (struct submission){.op = RELEASE, .args = {0, 24 << 20}};
        ring->sub_tail++;
        out(SERVE);
    }
}

static void strange_words(void) {
    ring->deadline = 1;
    out(IDLE);
    ring->deadline = ~0ul - 1;
    ring->ram_used = ~0ul;
    ring->comp_head = ring->comp_tail;
    // Terminal escapes and invalid UTF-8 in what the user is told.
    strcpy(ROOM, "\033]0;title\007\033[2Jwords \xff\xfe\x80 end");
    request((struct submission){.op = LOG, .in = ROOM_GPA, .in_len = strlen(ROOM)});
    strcpy(ROOM, "0x7f8000200000 0x7fffffffffffffff 0x0 0xg \033[31m last words");
    for (;;) {
        ring->sub[ring->sub_tail % ENTRIES] = (struct submission){.op = CRASH, .in = ROOM_GPA, .in_len = strlen(ROOM)};
        ring->sub_tail++;
        out(SERVE);
    }
}

int main(int argc, char **argv) {
    static const struct attack list[] = {
        {"garbage", garbage},
        {"wrapping", wrapping},
        {"no-completions-taken", no_completions_taken},
        {"racing", racing},
        {"endless", endless},
        {"self-reference", self_reference},
        {"outside", outside},
        {"other-files", other_files},
        {"many-waiting", many_waiting},
        {"many-handles", many_handles},
        {"stop-hull", stop_hull},
        {"memory", memory},
        {"give-away-everything", give_away_everything},
        {"strange-words", strange_words},
        {0},
    };
    return attack(list, argc, argv);
}

// Programs that turn against keel and the machine.
#include "guest.h"

static void jump_into_keel(void) {
    for (int i = 0; i < 200; i++) {
        uint64_t to = KEEL + 0x1000 + chance() % 0x40000;
        if (fork() == 0) {
            __asm__ volatile("call *%0" ::"r"(to) : "memory");
            _exit(0);
        }
        int status;
        wait(&status);
    }
}

static void overwrite_keel(void) {
    for (volatile uint64_t *at = (void *)KEEL; at < (uint64_t *)(KEEL + (2 << 20)); at++) *at = chance();
    for (;;) getppid();
}

static void overwrite_keel_slowly(void) {
    for (;;) {
        ((volatile uint8_t *)KEEL)[chance() % (20 << 20)] = chance();
        if (chance() % 256 == 0) getppid();
        if (chance() % 256 == 0) free(malloc(1 << 20));
    }
}

static uint64_t vector(int number) {
    volatile uint16_t *gate = (void *)(IDT + 16 * number);
    return gate[0] | (uint64_t)gate[3] << 16 | (uint64_t) * (volatile uint32_t *)(gate + 4) << 32;
}

// Another root of the page tables, by code of its own there: mov cr3, rdi; iretq.
static void load_cr3(uint64_t root) {
    memcpy((void *)vector(3), "\x0f\x22\xdf\x48\xcf", 5);
    __asm__ volatile("int3" ::"D"(root) : "memory");
}

static void other_page_tables(void) { load_cr3(0x123000); }
static void page_tables_outside(void) { load_cr3(1ul << 40); }
static void wrong_page_tables(void) { load_cr3(~0ul); }

// Every large page of keel's map leads elsewhere.
static void map_nowhere(void) {
    volatile uint64_t *table = (void *)(BOOT_TABLES + 0x2000);
    for (int i = 4; i < 512; i++) table[i] = ((100ul << 30) + ((uint64_t)i << 21)) | 0x87;
    load_cr3(0x70000);
    for (;;) *(volatile char *)(DIRECT + (40 << 20)) = 1;
}

// Ring 0 is the program's for the asking: it puts its code there.
static void ring0(const char *code, size_t len) {
    memcpy((void *)vector(3), code, len);
    __asm__ volatile("int3" ::: "memory");
}

static void halt(void) { ring0("\xfa\xf4\xeb\xfe", 4); }            // cli; hlt; jmp .
static void halt_with_interrupts(void) { ring0("\xfb\xf4\xeb\xfd", 4); } // sti; hlt; jmp hlt
static void spin_in_ring0(void) { ring0("\xfa\xeb\xfe", 3); }       // cli; jmp .
static void no_paging(void) { ring0("\x0f\x20\xc0\x25\xff\xff\xff\x7f\x0f\x22\xc0\xeb\xfe", 13); }
static void write_msr(void) { ring0("\xb9\x80\x00\x00\xc0\x31\xc0\x31\xd2\x0f\x30\xeb\xfe", 13); } // EFER = 0
// No register is a guest's to read, not even the time stamp counter: where it can, it spins.
static void read_msr(void) { ring0("\xb9\x10\x00\x00\x00\x0f\x32\xeb\xfe", 9); }
static void hypercall(void) { ring0("\x0f\x01\xc1\x0f\x01\xd9\xeb\xfe", 8); }
static void read_ports(void) { ring0("\x31\xd2\xec\x42\xeb\xfc", 6); } // every port
static void reset_ports(void) { ring0("\xb0\xfe\xe6\x64\xb0\x06\x66\xba\xf9\x0c\xee\xeb\xfe", 13); }

static void no_tables(void) {
    memset((void *)PERCPU, 0, 0x4000);
    for (;;) __asm__ volatile("int3");
}

static void ports(void) {
    for (int i = 0; i < 3000; i++) {
        *(volatile uint64_t *)&ring->deadline = 1; // or IDLE would wait for ever
        out(DOORBELL + chance() % 3);
    }
    static const int kinds[] = {DOORBELL, SERVE};
    for (int i = 0; i < 3000; i++) out(kinds[i % 2]);
}

static void string_port(void) {
    uint64_t count = 20000;
    void *from = ROOM;
    __asm__ volatile("rep outsb" : "+S"(from), "+c"(count) : "d"(SERVE) : "memory");
    from = ROOM;
    count = 20000;
    __asm__ volatile("rep insb" : "+D"(from), "+c"(count) : "d"(DOORBELL) : "memory");
}

static void panic_port(void) {
    for (;;) out(PANIC);
}

static void spin(void) {
    for (;;) __asm__ volatile("");
}

static void spin_with_signals_blocked(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    for (;;) getppid();
}

// What a program may not do must be its own signal, as on the host.
static void privileged(void) {
    static const char *const code[] = {"\xf4", "\xfa", "\xfb", "\x0f\x08", "\x0f\x06", "\x0f\x20\xd8", "\x0f\x22\xd8",
        "\x0f\x30", "\x0f\x32", "\x0f\x01\x10", "\x0f\x01\x18", "\xe6\x80", "\xe4\x80", "\xee", "\xec", "\xef",
        "\x0f\x01\x38", "\x0f\x23\xc0"};
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof code / sizeof *code; i++) {
        memset(page, 0xcc, 64);
        memcpy(page, code[i], strlen(code[i]) ? strlen(code[i]) : 1);
        if (fork() == 0) {
            __asm__ volatile("xor %%edx, %%edx\n mov $0x80, %%dx\n jmp *%0" ::"r"(page) : "rdx");
        }
        int status;
        wait(&status);
        EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGSEGV);
    }
}

int main(int argc, char **argv) {
    static const struct attack list[] = {
        {"jump-into-keel", jump_into_keel},
        {"overwrite-keel", overwrite_keel},
        {"overwrite-keel-slowly", overwrite_keel_slowly},
        {"other-page-tables", other_page_tables},
        {"page-tables-outside", page_tables_outside},
        {"wrong-page-tables", wrong_page_tables},
        {"map-nowhere", map_nowhere},
        {"halt", halt},
        {"halt-with-interrupts", halt_with_interrupts},
        {"spin-in-ring0", spin_in_ring0},
        {"no-paging", no_paging},
        {"write-msr", write_msr},
        {"read-msr", read_msr},
        {"hypercall", hypercall},
        {"read-ports", read_ports},
        {"reset-ports", reset_ports},
        {"no-tables", no_tables},
        {"ports", ports},
        {"string-port", string_port},
        {"panic-port", panic_port},
        {"spin", spin},
        {"spin-with-signals-blocked", spin_with_signals_blocked},
        {"privileged", privileged},
        {0},
    };
    return attack(list, argc, argv);
}

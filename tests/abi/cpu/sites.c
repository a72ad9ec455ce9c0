// System call instructions in many surroundings: what follows them, what jumps to and behind them. Each function runs
// several times, so that a kernel that rewrites a site after its first run shows its faults.
#include "check.h"

#define SITE(name, body) asm(".text\n.p2align 4\n.globl " #name "\n" #name ":\n" body "\n"); extern long name(long number, long a, long b);

// Argument: number in rdi, arguments in rsi and rdx.
#define LOAD "mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi;"

SITE(site_ret, LOAD "syscall; ret")
SITE(site_cmp_ja, LOAD "syscall; cmp $-4096, %rax; ja 1f; ret; 1: neg %rax; ret")
SITE(site_test_js, LOAD "syscall; test %rax, %rax; js 1f; ret; 1: mov $-1, %rax; ret")
SITE(site_jmp, LOAD "syscall; jmp 1f; ud2; 1: ret")
SITE(site_jmp_long, LOAD "syscall; .byte 0xe9; .long 1f-2f; 2: ud2; 1: ret")
SITE(site_jz, LOAD "syscall; jz 1f; nop; 1: ret")
SITE(site_call, LOAD "sub $8, %rsp; syscall; call helper; add $8, %rsp; ret")
SITE(site_call_register, LOAD "push %rbx; lea helper(%rip), %rbx; syscall; call *%rbx; pop %rbx; ret")
SITE(site_lea, LOAD "syscall; lea words(%rip), %rdx; add 8(%rdx), %rax; ret")
SITE(site_load, LOAD "syscall; mov words(%rip), %rdx; add %rdx, %rax; ret")
SITE(site_add_memory, LOAD "syscall; addq words+8(%rip), %rax; ret")
SITE(site_pop, LOAD "push %rbx; mov $5, %ebx; syscall; pop %rbx; ret")
SITE(site_push, LOAD "syscall; push %rax; push %rbx; pop %rbx; pop %rax; ret")
SITE(site_leave, "push %rbp; mov %rsp, %rbp;" LOAD "syscall; leave; ret")
SITE(site_add_sp, LOAD "sub $24, %rsp; syscall; add $24, %rsp; ret")
SITE(site_use_sp, LOAD "movq $77, -8(%rsp); syscall; add -8(%rsp), %rax; ret")
SITE(site_use_rcx, LOAD "syscall; mov %rcx, %rdx; lea 1f(%rip), %rsi; sub %rsi, %rdx; add $3, %rdx; 1: mov %rdx, %rax; ret")
SITE(site_back_to_back, LOAD "push %rax; syscall; mov (%rsp), %rax; syscall; mov (%rsp), %rax; syscall; add $8, %rsp; ret")
SITE(site_adjacent, "mov $110, %eax; syscall; syscall; syscall; mov $110, %eax; syscall; ret")
// The second call begins within the bytes that a jump in place of the first one takes; or its number's load does.
SITE(site_near, LOAD "push %rbx; mov %eax, %ebx; syscall; mov %ebx, %eax; syscall; pop %rbx; ret")
SITE(site_number_behind, LOAD "syscall; mov $110, %eax; syscall; ret")
SITE(site_number_near, LOAD "push %rbx; mov %eax, %ebx; syscall; mov %ebx, %edx; mov $110, %eax; syscall; pop %rbx; ret")
// The same, continued at the second by a jump that nobody can foresee.
SITE(site_near_landing, LOAD "push %rbx; mov %eax, %ebx; lea 1f(%rip), %r9; xor %r8d, %r8d; syscall; mov %ebx, %eax; 1: syscall; test %r8d, %r8d; jne 2f; inc %r8d; mov %ebx, %eax; jmp *%r9; 2: pop %rbx; ret")
SITE(site_nops, LOAD "syscall; nop; nop; nop; nop; nop; ret")
SITE(site_long_nop, LOAD "syscall; .byte 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0; ret")
SITE(site_long_next, LOAD "syscall; movabs $0x1122334455667788, %rdx; ret")
SITE(site_xchg, LOAD "syscall; xchg %rax, %rdx; xchg %rdx, %rax; ret")
SITE(site_prefix, LOAD "syscall; rep ret")
SITE(site_lock, LOAD "syscall; lock addq $0, words+16(%rip); ret")
SITE(site_string, LOAD "mov %rax, %r8; syscall; mov $0, %ecx; rep stosb; ret")
SITE(site_flags, LOAD "stc; syscall; jc 1f; mov $-77, %rax; 1: ret")
SITE(site_setc, LOAD "stc; syscall; setc %dl; movzbl %dl, %edx; lea 0x500000(%rdx), %rax; ret")
SITE(site_cmov, LOAD "syscall; test %rax, %rax; mov $0, %edx; cmovns %rax, %rdx; mov %rdx, %rax; ret")
SITE(site_xmm, LOAD "movq words+8(%rip), %xmm0; syscall; movq %xmm0, %rdx; add %rdx, %rax; ret")
SITE(site_loop, LOAD "mov %rax, %r8; mov $3, %r9d; 1: mov %r8, %rax; syscall; dec %r9d; jnz 1b; ret")
// The instruction right behind the site is itself a jump's target.
SITE(site_target_behind, LOAD "mov $0, %r8d; jmp 2f; 1: ret; 2: syscall; 3: cmp $2, %r8d; je 1b; inc %r8d; jmp 3b")
// The second instruction behind it is one.
SITE(site_target_second, LOAD "xor %r8d, %r8d; syscall; inc %r8d; 3: inc %r8d; cmp $6, %r8d; jl 3b; cmp $6, %r8d; je 4f; mov $-99, %rax; 4: ret")
// A jump straight onto the site, once with the number loaded and once more.
SITE(site_target_itself, LOAD "mov %rax, %r8; xor %r9d, %r9d; jmp 1f; 2: mov %r8, %rax; inc %r9d; 1: syscall; cmp $2, %r9d; jl 2b; ret")
// The number is loaded right before.
SITE(site_mov_before, "mov $110, %eax; syscall; ret")
SITE(site_xor_before, "xor %eax, %eax; mov $110, %al; syscall; ret")
SITE(site_jump_over_mov, "mov $39, %eax; jmp 1f; mov $110, %eax; 1: syscall; sub %rax, %rax; ret")
// The bytes 0f 05 inside another instruction.
SITE(site_false, LOAD "syscall; mov $0x050f050f, %edx; ret")
SITE(site_data, LOAD "syscall; jmp 1f; .byte 0x0f, 0x05, 0x0f; 1: ret")
// Right at the end of a page, and its last byte on the next.
asm(".text\n.p2align 12\n.skip 4096-8\n.globl site_page_end\nsite_page_end:\nmov $110, %eax\nnop\nsyscall\nret\n");
asm(".text\n.p2align 12\n.skip 4096-6\n.globl site_page_cross\nsite_page_cross:\nmov $110, %eax\nsyscall\nret\n");
asm(".text\n.p2align 12\n.skip 4096-9\n.globl site_page_after\nsite_page_after:\nmov $110, %eax\nsyscall\nmov %rax, %rdx\nmov %rdx, %rax\nret\n");
extern long site_page_end(void), site_page_cross(void), site_page_after(void);
asm(".text\nhelper: mov %rax, %rdx; inc %rdx; mov %rdx, %rax; dec %rax; ret\n.data\n.p2align 4\nwords: .quad 1000, 2000, 3000\n.text\n");

int main(void) {
    long parent = getppid();
#define RUN(site)                                                                                                                            \
    do {                                                                                                                                     \
        printf(#site ":");                                                                                                                   \
        for (int i = 0; i < 4; i++) {                                                                                                        \
            long value = site(SYS_getppid, 0, 0), bad = site(SYS_close, -1, 0);                                                              \
            if (value >= parent && value <= parent + 4000 && (value - parent) % 1000 == 0) printf(" parent+%ld", value - parent);            \
            else if (value - parent == 77) printf(" parent+77");                                                                             \
            else printf(" %s", value == 0 ? "zero" : value == 1 ? "one" : value == 3 ? "three" : value == 0x500001 ? "carry" : value < 0 ? "negative" : "other");          \
            printf("/%ld", bad == parent ? 12345 : bad);                                                                                     \
        }                                                                                                                                    \
        puts("");                                                                                                                            \
    } while (0)
    RUN(site_ret);
    RUN(site_cmp_ja);
    RUN(site_test_js);
    RUN(site_jmp);
    RUN(site_jmp_long);
    RUN(site_jz);
    RUN(site_call);
    RUN(site_call_register);
    RUN(site_lea);
    RUN(site_load);
    RUN(site_add_memory);
    RUN(site_pop);
    RUN(site_push);
    RUN(site_leave);
    RUN(site_add_sp);
    RUN(site_use_sp);
    RUN(site_use_rcx);
    RUN(site_back_to_back);
    RUN(site_adjacent);
    RUN(site_near);
    RUN(site_number_behind);
    RUN(site_number_near);
    RUN(site_near_landing);
    RUN(site_nops);
    RUN(site_long_nop);
    RUN(site_long_next);
    RUN(site_xchg);
    RUN(site_prefix);
    RUN(site_lock);
    RUN(site_string);
    RUN(site_flags);
    RUN(site_setc);
    RUN(site_cmov);
    RUN(site_xmm);
    RUN(site_loop);
    RUN(site_target_behind);
    RUN(site_target_second);
    RUN(site_target_itself);
    RUN(site_mov_before);
    RUN(site_xor_before);
    RUN(site_jump_over_mov);
    RUN(site_false);
    RUN(site_data);
    for (int i = 0; i < 4; i++) printf("%d %d %d\n", site_page_end() == parent, site_page_cross() == parent, site_page_after() == parent);
    return 0;
}

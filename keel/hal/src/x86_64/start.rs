//! The header of keel's image, and the first instructions of its virtual CPUs.
//!
//! The monitor finds the entry points in the header and starts each virtual CPU in ring 0 with its descriptor tables loaded.
#![allow(unsafe_code)]

use super::percpu::KSTACK_TOP;
use abi::layout::selector;
use core::arch::global_asm;

global_asm!(
    r#"
    .section .keel_header,"a",@progbits
    .quad 0x4c45454b4c4c5548        /* "HULLKEEL" */
    .long {version}
    .long 0
    .quad keel_start
    .quad keel_lstar
    .quad __bss_end
    .quad keel_start_cpu

    .section .text.entry,"ax",@progbits
    .code64
/* The first virtual CPU: ring 0, rdi = boot information; on to CPL 3 at once. */
    .globl keel_start
keel_start:
    mov eax, {tss}              /* QEMU's own emulator looks for the TSS type that only LTR leaves */
    ltr ax
    lea rsp, [rip + keel_boot_stack_end]
    mov rax, rsp
    push {user_ss}
    push rax
    push 0x202
    push {user_cs}
    lea rax, [rip + 1f]
    push rax
    iretq
1:  xor ebp, ebp
    call {boot}
    ud2

/* A further virtual CPU: ring 0; its kernel stack is that of its idle thread. */
    .globl keel_start_cpu
keel_start_cpu:
    mov eax, {tss}
    ltr ax
    mov rax, gs:[{kstack}]
    sub rax, {start_room}       /* below what the first switch to the idle thread finds */
    lea rsp, [rax - 64]
    push {user_ss}
    push rax
    push 0x202
    push {user_cs}
    lea rax, [rip + 1f]
    push rax
    iretq
1:  xor ebp, ebp
    call {start_cpu}
    ud2

    .section .bss.entry,"aw",@nobits
    .balign 16
keel_boot_stack:
    .skip 32768
keel_boot_stack_end:
    .text
"#,
    version = const abi::VERSION,
    boot = sym crate::boot::rust_boot,
    start_cpu = sym crate::hooks::rust_start_cpu,
    start_room = const crate::thread::START_ROOM,
    kstack = const KSTACK_TOP,
    user_ss = const selector::USER_DS,
    user_cs = const selector::USER_CS,
    tss = const selector::TSS,
);

const _: () = assert!(abi::layout::KEEL_IMAGE.is_multiple_of(abi::layout::LARGE_PAGE_SIZE));

//! Switching kernel stacks.
#![allow(unsafe_code)]

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.entry,"ax",@progbits
    .globl keel_switch
keel_switch:            /* rdi: where to save rsp, rsi: rsp to go on with */
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, rsi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
    .text
"#
);

unsafe extern "C" {
    /// Stores the stack pointer to `save` and continues at the stack pointer `to`, which an earlier switch stored or
    /// [`first_switch_to`] prepared.
    pub(crate) fn keel_switch(save: *mut usize, to: usize);
}

/// Initial stack contents from the stack pointer up, for a first switch that continues at `entry`.
pub(crate) const fn first_switch_to(entry: usize) -> [usize; 7] {
    [0, 0, 0, 0, 0, 0, entry]
}

//! The two operations that keel can't do at CPL 3, executed in ring 0.
//!
//! `int3` is the cheapest way to ring 0, and programs use it too: so keel changes its IDT gate for the operation. The
//! first 16 bits of a gate are the low 16 bits of the handler's address, and both handlers must be in the same 64 KiB,
//! which `keel.ld` checks. No program runs on this virtual CPU meanwhile.
#![allow(unsafe_code)]

use super::percpu::gs_offset;
use abi::layout::percpu;
use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.entry,"ax",@progbits
    /* What the `int3` does: its gate leads here meanwhile. */
    .globl keel_ring0_load_cr3
    .globl keel_ring0_invalidate_page
keel_ring0_load_cr3:
    mov cr3, rdi
    iretq
keel_ring0_invalidate_page:
    invlpg [rdi]
    iretq

    .macro ring0 name
    .globl keel_\name
keel_\name:             /* rdi: root table or address */
    lea rax, [rip + keel_ring0_\name]
    mov gs:[{gate3}], ax
    int3
    lea rax, [rip + keel_vectors + 16*3]
    mov gs:[{gate3}], ax
    ret
    .endm
    ring0 load_cr3
    ring0 invalidate_page
    .text
"#,
    gate3 = const gs_offset(percpu::IDT + 3 * 16),
);

unsafe extern "C" {
    fn keel_load_cr3(root: usize);
    fn keel_invalidate_page(address: usize);
}

/// Loads a root table, which flushes the TLB.
///
/// # Safety
/// It is a root table that maps keel.
pub(crate) unsafe fn load_root(root: usize) {
    // SAFETY: the routine traps into ring 0, which loads CR3 and returns; the caller guarantees the table.
    unsafe { keel_load_cr3(root) }
}

/// Invalidates the TLB entry of a page.
pub(crate) fn invalidate_page(address: usize) {
    // SAFETY: the routine traps into ring 0, which executes INVLPG and returns.
    unsafe { keel_invalidate_page(address) }
}

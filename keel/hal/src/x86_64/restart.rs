//! Restartable ranges: code of keel where an exception or an interrupt is expected, and the address to continue at.
//!
//! This is the only list of them. [`super::vectors`] searches it by the kind of event, in this order.
#![allow(unsafe_code)]

use core::arch::global_asm;

/// Size of an entry: start, end, address to continue at.
pub(super) const ENTRY_BYTES: usize = 24;

global_asm!(
    r#"
    .section .rodata.restart,"a",@progbits
    .balign 8
    .macro group name
    .globl keel_restart_\name
keel_restart_\name:
    .endm
    .macro group_end name
    .globl keel_restart_\name\()_end
keel_restart_\name\()_end:
    .endm
    .macro range first, end, to
    .quad \first, \end, \to
    .endm
    .macro instruction at, to
    .quad \at, \at + 1, \to
    .endm

    /* A page fault of an access to program memory: the access stops. Goes on there with all other registers unchanged. */
    group page_fault
    range keel_user_access, keel_user_access_end, keel_user_access_stopped
    group_end page_fault

    /* An interrupt after the test for pending work: the way out begins anew. All of them lie between `keel_leaving_first`
       and `keel_leaving_last`. */
    group interrupt
    range keel_leaving, keel_leaving_end, keel_leave_again
    range keel_leaving_fast, keel_leaving_fast_end, keel_leave_again
    range keel_leaving_quick, keel_leaving_quick_end, keel_leave_quick_again
    group_end interrupt

    /* A debug exception of a program's single step that reached the gate: the call is made, then the step ends. */
    group step
    instruction keel_gate, keel_gate_stepped
    instruction keel_gate_full, keel_gate_stepped
    group_end step

    /* A general protection fault at the last instruction of a way out. Goes on in the handler, which makes it the program's. */
    group protection
    instruction keel_jump_quick, keel_jumped_nowhere
    instruction keel_jump_fast, keel_jumped_nowhere
    instruction keel_iretq, keel_iretq_refused
    group_end protection
    .text
"#
);

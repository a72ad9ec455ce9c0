//! Initial code of threads, and entry into keel, as functions.
#![allow(unsafe_code)]

use super::harness::{self, End};
use super::percpu;
use crate::hooks::Hooks;
use crate::trap::TrapFrame;
use core::arch::global_asm;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

global_asm!(
    r#"
    .section .text.entry,"ax",@progbits
keel_hosted_thread:         /* rsp: the trap frame, aligned to 16 bytes */
    mov rdi, rsp
    call {thread}
    ud2
keel_hosted_boot:
    call {boot}
    ud2
    .globl keel_hosted_thread
    .globl keel_hosted_boot
    .text
"#,
    thread = sym run_thread,
    boot = sym run_boot,
);

unsafe extern "C" {
    fn keel_hosted_thread();
    fn keel_hosted_boot();
}

static HOOKS: OnceLock<&'static Hooks> = OnceLock::new();

pub(super) fn set_hooks(hooks: &'static Hooks) {
    assert!(HOOKS.set(hooks).is_ok(), "a machine boots once");
}

pub(super) fn hooks() -> &'static Hooks {
    HOOKS.get().expect("a machine without a kernel runs no threads")
}

/// Return address of a new thread's first switch.
pub(crate) fn thread_entry_address() -> usize {
    keel_hosted_thread as *const () as usize
}

/// Return address of an idle thread's first switch. Unused with one virtual CPU.
pub(crate) fn idle_entry_address() -> usize {
    unreachable!("a second virtual CPU")
}

/// Return address of the first switch to the boot stack.
pub(super) fn boot_entry_address() -> usize {
    keel_hosted_boot as *const () as usize
}

/// Runs code of keel; a panic ends the machine.
fn in_keel<R>(f: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(panic) => harness::end(End::Panicked(panic)),
    }
}

/// The return path: handles pending work until there is none.
fn leave(frame: *mut TrapFrame) {
    while percpu::work_pending() {
        // SAFETY: the frame is at the top of this thread's stack, and is not borrowed elsewhere now.
        (hooks().resume)(unsafe { &mut *frame });
    }
}

/// Enters keel with a frame, and leaves it again.
///
/// # Safety
/// The frame is that of the running thread, at the top of its stack, and is not borrowed.
pub(super) unsafe fn enter<R>(frame: *mut TrapFrame, f: impl FnOnce(&Hooks, &mut TrapFrame) -> R) -> R {
    in_keel(|| {
        // SAFETY: guaranteed by the caller.
        let result = f(hooks(), unsafe { &mut *frame });
        leave(frame);
        result
    })
}

extern "C" fn run_thread(frame: *mut TrapFrame) -> ! {
    // SAFETY: `Thread::new` put the frame at the top of this stack, which now runs first.
    unsafe { enter(frame, |hooks, frame| (hooks.thread_start)(frame)) };
    // SAFETY: as above.
    harness::run_program(unsafe { harness::Cpu::new(frame) })
}

extern "C" fn run_boot() -> ! {
    in_keel(|| (hooks().boot)(crate::boot::boot_info()))
}

//! Threads of keel: each has a kernel stack; switches are explicit.
#![allow(unsafe_code)]

use crate::fpu::SavedState;
use crate::instructions;
use crate::stacks::{self, STACK_BYTES};
use crate::switch::{first_switch_to, keel_switch};
use crate::trap::TrapFrame;
use core::cell::{Cell, UnsafeCell};

/// Free space at the top of an idle thread's stack, for the start of a virtual CPU.
#[cfg(not(feature = "hosted"))]
pub(crate) const START_ROOM: usize = STACK_BYTES / 2;

/// Kernel stack and saved state of one thread. Its [`TrapFrame`] is at the top of the stack.
#[derive(Debug)]
pub struct Thread {
    stack: usize,
    rsp: Cell<usize>,
    fs_base: Cell<u64>,
    running: Cell<bool>,
    fpu: UnsafeCell<SavedState>,
}

impl Thread {
    /// A thread that, at the first switch to it, calls the kernel's `thread_start` hook with a copy of `frame`. `None`
    /// if out of memory.
    pub fn new(frame: &TrapFrame) -> Option<Self> {
        Self::starting_at(frame, crate::gate::thread_entry_address())
    }

    /// The idle thread of a virtual CPU: calls the kernel's `idle` hook. `None` if out of memory.
    pub fn idle() -> Option<Self> {
        Self::starting_at(&TrapFrame::new(0, 0), crate::gate::idle_entry_address())
    }

    fn starting_at(frame: &TrapFrame, entry: usize) -> Option<Self> {
        let fpu = SavedState::new()?;
        let stack = stacks::take()?;
        let top = stack + STACK_BYTES - size_of::<TrapFrame>();
        let words = first_switch_to(entry);
        let rsp = top - size_of_val(&words);
        // SAFETY: the stack was just allocated and has no other user; the writes are inside it and aligned (the frame's
        // size is a multiple of 16).
        unsafe {
            (top as *mut TrapFrame).write(frame.clone());
            (rsp as *mut [usize; 7]).write(words);
        }
        Some(Self {
            stack,
            rsp: Cell::new(rsp),
            fs_base: Cell::new(0),
            running: Cell::new(false),
            fpu: UnsafeCell::new(fpu),
        })
    }

    pub(crate) fn top(&self) -> usize {
        self.stack + STACK_BYTES
    }

    /// The program's registers at its entry into keel; `None` if the thread is running.
    pub fn registers(&self) -> Option<TrapFrame> {
        if self.running.get() {
            return None;
        }
        let frame = (self.top() - size_of::<TrapFrame>()) as *const TrapFrame;
        // SAFETY: the frame is at the top of the thread's own stack, which `Thread::new` filled; under the big lock
        // there is no writer to the stack of a thread that does not run.
        Some(unsafe { (*frame).clone() })
    }

    /// The extended registers at its entry into keel: an XSAVE image (standard format); `None` if the thread is
    /// running.
    pub fn extended_state(&self) -> Option<alloc::vec::Vec<u8>> {
        let frame = self.registers()?;
        // SAFETY: under the big lock the area of a thread that does not run has no other user.
        unsafe { (*self.fpu.get()).image(&frame) }
    }

    /// Base of the FS segment (thread-local storage).
    pub fn set_fs_base(&self, base: u64) {
        self.fs_base.set(base);
        if self.running.get() {
            instructions::set_fs_base(base);
        }
    }

    /// The FS base: read from the CPU if `self` is running.
    pub fn fs_base(&self) -> u64 {
        if self.running.get() { instructions::fs_base() } else { self.fs_base.get() }
    }

    /// Copies the extended register state (x87, MXCSR, vectors) of the running thread `from` into
    /// this new thread (clone, fork). The low xmm halves are part of the trap frame.
    pub fn inherit_fpu(&self, _from: &Thread) {
        // SAFETY: this thread isn't running, so its area has no other user; `from`'s state is live.
        unsafe { (*self.fpu.get()).save() }
    }

    /// Resets the extended register state to that of a new program (execve).
    pub fn reset_fpu(&self) {
        // SAFETY: under the big lock the area has no other user.
        let area = unsafe { &mut *self.fpu.get() };
        area.reset();
        if self.running.get() {
            area.restore();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // The scheduler drops a thread only after another one runs: a running thread would free its own stack.
        // stack under its own feet.
        assert!(!self.running.get(), "a running thread was dropped");
        stacks::give(self.stack);
    }
}

/// Switches from `from` (the running thread; `None` for the boot context, which never resumes) to `to`. Returns when
/// another thread switches back. The caller first activates `to`'s address space, and keeps both threads alive
/// meanwhile.
///
/// No `RefCell` borrow may be held across this call.
///
/// # Panics
/// Inside of [`crate::sync::grace::read`].
pub fn switch(from: Option<&Thread>, to: &Thread) {
    assert!(!crate::sync::grace::is_reading(), "a switch while published values are read");
    let mut boot_rsp = 0;
    let save = match from {
        Some(thread) => {
            thread.fs_base.set(instructions::fs_base());
            thread.running.set(false);
            // SAFETY: the area belongs to the thread whose state is live.
            unsafe { (*thread.fpu.get()).save() };
            thread.rsp.as_ptr()
        }
        None => &raw mut boot_rsp,
    };
    to.running.set(true);
    to.set_fs_base(to.fs_base.get());
    // SAFETY: `to` isn't running, so its area holds its state.
    unsafe { (*to.fpu.get()).restore() };
    crate::percpu::set_kernel_stack(to.top());
    // SAFETY: `to.rsp` was written by `Thread::new` or by an earlier switch away from it and points
    // into its live stack.
    unsafe { keel_switch(save, to.rsp.get()) }
}

/// Like [`switch`], but drops the handles of both threads first, so that the stack of a thread that sleeps long, or
/// ends, keeps no other thread alive.
///
/// # Panics
/// If no other borrow of the two exists.
pub fn hand_over(from: alloc::rc::Rc<Thread>, to: alloc::rc::Rc<Thread>) {
    use alloc::rc::Rc;
    assert!(Rc::strong_count(&from) > 1 && Rc::strong_count(&to) > 1, "a thread without an owner");
    let (from_ptr, to_ptr) = (Rc::as_ptr(&from), Rc::as_ptr(&to));
    drop(from);
    drop(to);
    // SAFETY: the dropped handles were not the last ones (checked above), and the scheduler keeps
    // both threads until the other one runs.
    unsafe { switch(Some(&*from_ptr), &*to_ptr) }
}

//! Threads of keel: a kernel stack each, switched to and from explicitly.

use crate::trap::TrapFrame;

/// Kernel stack and saved state of one thread. Its [`TrapFrame`] lies at the stack's top.
#[derive(Debug)]
pub struct Thread {
    _todo: (),
}

impl Thread {
    /// A thread that, when switched to first, calls the kernel's `thread_start` hook with a copy of
    /// `frame`. `None` when memory is used up.
    pub fn new(_frame: &TrapFrame) -> Option<Self> { todo!() }

    /// Base of the FS segment (thread-local storage) while the thread is switched out.
    pub fn set_fs_base(&self, _base: u64) { todo!() }

    /// The FS base: live from the CPU if `self` is running.
    pub fn fs_base(&self) -> u64 { todo!() }

    /// Copies the extended register state (x87, MXCSR, vectors) of the running thread `from` into
    /// this new thread (clone, fork).
    pub fn inherit_fpu(&self, _from: &Thread) { todo!() }

    /// Resets the extended register state to that of a new program (execve).
    pub fn reset_fpu(&self) { todo!() }

    /// Runs `f` on the thread's trap frame, e.g. of a thread that is stopped inside keel.
    pub fn with_frame<R>(&self, _f: impl FnOnce(&mut TrapFrame) -> R) -> R { todo!() }
}

/// Leaves `from` (the running thread; `None` for the boot context) and continues `to`. Returns when
/// somebody switches back. The caller makes `to`'s address space active first.
///
/// No `RefCell` borrow may be held across this call.
pub fn switch(_from: Option<&Thread>, _to: &Thread) { todo!() }

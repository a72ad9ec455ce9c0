//! Blocking: queues of waiters, and the one function that parks a thread.

use alloc::rc::{Rc, Weak};
use uapi::{Errno, Result};

/// Somebody to tell when a queue is woken. Must not block and must not call back into the queue.
pub trait Wake {
    /// Told; returns whether that counts as one wake-up for [`WaitQueue::wake`].
    fn wake(&self) -> bool;
}

/// Waiters for one condition, first come first served.
#[derive(Default)]
pub struct WaitQueue {
    _todo: (),
}

impl core::fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { _todo: () }
    }
    /// Wakes up to `count` waiters; returns how many.
    pub fn wake(&self, _count: usize) -> usize {
        0
    }
    /// Wakes all.
    pub fn wake_all(&self) {}
    /// Keeps telling `who` at every wake until the weak pointer dies (epoll).
    pub fn subscribe(&self, _who: Weak<dyn Wake>) {}
    /// Stops telling `who`.
    pub fn unsubscribe(&self, _who: &Weak<dyn Wake>) {}
}

/// What may end a wait early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Any signal that the thread does not block: ERESTARTSYS.
    BySignal,
    /// Only one that kills: ERESTARTSYS.
    ByKill,
    /// Nothing.
    Never,
}

/// Parks the current thread until `ready` gives a value. `ready` is asked first, and again after
/// each wake of one of `queues`. ETIMEDOUT after `deadline_ns` (`CLOCK_MONOTONIC`), ERESTARTSYS
/// when a signal ended it. Hold no borrows; `ready` runs in keel and must not block.
pub fn wait_until<T>(
    _queues: &[Rc<WaitQueue>],
    _deadline_ns: Option<u64>,
    _interrupt: Interrupt,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T> {
    ready().ok_or(Errno::ENOSYS)
}

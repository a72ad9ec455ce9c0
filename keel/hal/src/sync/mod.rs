//! Locks and counts that cost plain loads and stores while one virtual CPU is awake.
//!
//! [`several`]: whether another virtual CPU was ever started; it never goes back. Until then an operation here is
//! a load, a test and a store; afterwards it is a locked instruction. The virtual CPU that starts the second one does so
//! from within keel, with what it holds marked as held, so the change needs no further care.
//!
//! Each lock has a [`Rank`]. A virtual CPU takes locks in descending rank only; builds with the feature `lock-ranks`
//! check that at each acquisition. A lock is not held across a switch of threads, an access to program memory or a
//! request to the monitor; but for an address space's, whose holder may ask for more RAM and stop programs under the big lock.

mod count;
pub mod grace;
pub mod loan;
pub mod numbers;
mod rank;
mod spin;
mod sum;
#[cfg(not(loom))]
pub mod waits;

pub use count::Count;
pub use rank::Rank;
pub use spin::{Guard, SpinLock};
pub use sum::Sum;

use crate::cell::Padded;
pub(crate) use crate::relax;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Another virtual CPU was started. Never reset.
pub(crate) static SEVERAL: Padded<AtomicBool> = Padded::new(AtomicBool::new(false));

/// Whether more than one virtual CPU is awake.
#[inline(always)]
pub fn several() -> bool {
    SEVERAL.load(Relaxed)
}

/// Whether locks and counts need locked instructions: unit tests use them from several threads of the host.
#[inline(always)]
fn shared() -> bool {
    cfg!(feature = "hosted") || several()
}

/// Another virtual CPU is about to be started.
#[cfg_attr(loom, allow(dead_code, reason = "models have a flag of their own"))]
pub(crate) fn set_several() {
    SEVERAL.store(true, SeqCst);
}

/// The atomics that the primitives are made of: loom's where their models run.
mod atomic {
    #[cfg(not(loom))]
    pub(super) use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
}

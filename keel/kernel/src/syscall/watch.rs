//! Whether system calls must be looked at one by one: somebody traces or filters them.
//!
//! One word for all reasons, so that calls cost nothing more where nobody does.

use core::cell::Cell;
use hal::cell::Global;

static REASONS: Global<Cell<usize>> = Global::new(Cell::new(0));

/// Whether there is a reason.
#[inline(always)]
pub fn is_on() -> bool {
    REASONS.get() != 0
}

/// A reason; gone when it is dropped.
#[derive(Debug)]
pub struct Reason(());

impl Reason {
    /// One more.
    pub fn new() -> Self {
        REASONS.set(REASONS.get() + 1);
        Self(())
    }

    /// Stays for ever.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Default for Reason {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Reason {
    fn drop(&mut self) {
        REASONS.set(REASONS.get() - 1);
    }
}

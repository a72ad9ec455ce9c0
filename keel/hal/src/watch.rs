//! Whether system calls must be checked one by one: one word for all reasons, so that calls cost nothing without one.

use crate::cell::Padded;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Set while memory is scarce; the lower bits count the other reasons.
const SCARCE: usize = 1 << (usize::BITS - 1);

static REASONS: Padded<AtomicUsize> = Padded::new(AtomicUsize::new(0));

/// Whether there is a reason.
#[inline(always)]
pub fn is_on() -> bool {
    REASONS.load(Relaxed) != 0
}

/// Whether memory is scarce.
#[inline(always)]
pub fn is_scarce() -> bool {
    REASONS.load(Relaxed) & SCARCE != 0
}

/// Sets or clears the reason of scarce memory; under the frame allocator's lock.
pub(crate) fn set_scarce(scarce: bool) {
    if is_scarce() == scarce {
        return;
    }
    if scarce {
        REASONS.fetch_or(SCARCE, Relaxed);
    } else {
        REASONS.fetch_and(!SCARCE, Relaxed);
    }
}

/// Adds a reason, until [`remove`].
pub fn add() {
    REASONS.fetch_add(1, Relaxed);
}

/// Removes a reason.
pub fn remove() {
    REASONS.fetch_sub(1, Relaxed);
}

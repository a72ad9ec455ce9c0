//! Whether system calls must be looked at one by one: one word for all reasons, so that calls cost nothing more where
//! there is none.

use crate::cell::Global;
use core::cell::Cell;

/// Set while memory is scarce; below it the number of other reasons.
const SCARCE: usize = 1 << (usize::BITS - 1);

static REASONS: Global<Cell<usize>> = Global::new(Cell::new(0));

/// Whether there is a reason.
#[inline(always)]
pub fn is_on() -> bool {
    REASONS.get() != 0
}

/// Whether memory is scarce.
#[inline(always)]
pub fn is_scarce() -> bool {
    REASONS.get() & SCARCE != 0
}

#[cfg(not(feature = "hosted"))]
pub(crate) fn set_scarce(scarce: bool) {
    REASONS.set(REASONS.get() & !SCARCE | if scarce { SCARCE } else { 0 });
}

/// One more reason, until [`remove`].
pub fn add() {
    REASONS.set(REASONS.get() + 1);
}

/// One reason less.
pub fn remove() {
    REASONS.set(REASONS.get() - 1);
}

//! Reclaimable memory: the page cache.

use core::cell::Cell;
use hal::cell::Global;

/// Frees up to this many pages; returns the number.
type Shrink = fn(usize) -> usize;

static PAGE_CACHE: Global<Cell<Shrink>> = Global::new(Cell::new(|_| 0));

/// Registers the function that shrinks the page cache (boot).
pub fn register(shrink: Shrink) {
    PAGE_CACHE.set(shrink);
}

/// Frees up to `pages` pages of the page cache; returns the number.
pub fn shrink(pages: usize) -> usize {
    (PAGE_CACHE.get())(pages)
}

//! Memory that can be had back: cached file content.

use core::cell::Cell;
use hal::cell::Global;

/// Gives up to so many pages back; returns how many.
type Shrink = fn(usize) -> usize;

static PAGE_CACHE: Global<Cell<Shrink>> = Global::new(Cell::new(|_| 0));

/// Names the function that gives pages of the page cache back (boot).
pub fn register(shrink: Shrink) {
    PAGE_CACHE.set(shrink);
}

/// Gives up to `pages` pages of cached file content back; returns how many.
pub fn shrink(pages: usize) -> usize {
    (PAGE_CACHE.get())(pages)
}

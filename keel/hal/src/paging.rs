//! Page tables of one address space.

use crate::frame::Frame;
use bitflags::bitflags;

bitflags! {
    /// What a mapping allows. A page without `READ` is not mapped at all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Prot: u8 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
        /// Instruction fetches.
        const EXEC = 4;
    }
}

/// A present page.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The frame (a counted handle).
    pub frame: Frame,
    /// What the table allows now.
    pub prot: Prot,
    /// Written since mapped (or since [`AddressSpace::clear_dirty`]).
    pub dirty: bool,
}

/// The page tables of a program's half of memory. Keel's own part is shared by all of them.
///
/// A present entry holds one reference of its frame. Changes that only add permissions need no
/// flush; after changes that take any away, call [`AddressSpace::flush`] before relying on them.
#[derive(Debug)]
pub struct AddressSpace {
    _todo: (),
}

impl AddressSpace {
    /// Empty tables; `None` when memory is used up.
    pub fn new() -> Option<Self> { todo!() }

    /// Maps a page (4 KiB aligned `va` below `USER_TOP`), replacing what was there.
    /// `None` when memory for a table is used up.
    pub fn map(&mut self, _va: usize, _frame: Frame, _prot: Prot) -> Option<()> { todo!() }

    /// Looks a page up.
    pub fn get(&self, _va: usize) -> Option<Mapping> { todo!() }

    /// Removes one page.
    pub fn unmap(&mut self, _va: usize) -> Option<Mapping> { todo!() }

    /// Removes all pages of `[start, end)`, skipping absent tables quickly.
    pub fn unmap_range(&mut self, _start: usize, _end: usize, _each: impl FnMut(usize, Mapping)) { todo!() }

    /// Changes permissions of the present pages of `[start, end)`: `f(va, mapping)` gives the new
    /// ones (empty: unmap).
    pub fn update_range(&mut self, _start: usize, _end: usize, _f: impl FnMut(usize, &Mapping) -> Prot) { todo!() }

    /// Calls `f` for each present page of `[start, end)`.
    pub fn for_each(&self, _start: usize, _end: usize, _f: impl FnMut(usize, &Mapping)) { todo!() }

    /// Clears the dirty bit of a page (no flush).
    pub fn clear_dirty(&mut self, _va: usize) { todo!() }

    /// Makes this the CPU's address space; nothing if it is already.
    pub fn activate(&self) { todo!() }

    /// Forgets cached translations if this space is active; the next activation does otherwise.
    pub fn flush(&self) { todo!() }

    /// Forgets one cached translation if this space is active.
    pub fn flush_page(&self, _va: usize) { todo!() }
}

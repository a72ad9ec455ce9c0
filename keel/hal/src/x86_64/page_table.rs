//! The format of page tables (SDM volume 3, 4.5).
#![allow(unsafe_code)]

use crate::direct_map;
use crate::frame::FRAME_SIZE;
use crate::mapping::Prot;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

pub(crate) const PRESENT: u64 = 1;
pub(crate) const WRITABLE: u64 = 2;
pub(crate) const USER: u64 = 4;
pub(crate) const ACCESSED: u64 = 0x20;
pub(crate) const DIRTY: u64 = 0x40;
/// In a page directory entry: maps a large page.
pub(crate) const LARGE: u64 = 0x80;
/// Software bit of a non-present entry: it holds a frame that the program may not access now.
const HIDDEN: u64 = 0x200;
/// The entry holds a frame.
pub(crate) const OCCUPIED: u64 = PRESENT | HIDDEN;
pub(crate) const NO_EXEC: u64 = 1 << 63;
pub(crate) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
pub(crate) const ENTRIES: usize = 512;

/// An entry of a table. Keel changes it under its space's lock; processors set its accessed and dirty bits at any time,
/// so it is atomic. No such bit can be lost, even without locked instructions: [`entry_of`] sets the accessed bit, and
/// the dirty bit of writable entries.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Entry(AtomicU64);

impl Entry {
    /// Its value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Replaces it; returns the old value.
    pub(crate) fn replace(&self, value: u64) -> u64 {
        let old = self.get();
        self.set(value);
        old
    }
}

/// A table of 512 entries in the direct map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(pub(crate) u64);

impl Table {
    /// The entry of this index.
    pub(crate) fn entry(self, index: usize) -> &'static Entry {
        debug_assert!(index < ENTRIES);
        // SAFETY: `self.0` is the address of a live table (from an entry or the root), and entries are atomics.
        unsafe { &*((direct_map::address(self.0) + index * 8) as *const Entry) }
    }

    /// The table of an entry.
    pub(crate) fn child(self, index: usize) -> Option<Self> {
        let entry = self.entry(index).get();
        (entry & PRESENT != 0).then_some(Self(entry & ADDRESS))
    }
}

/// The entry for a table.
pub(crate) const fn entry_of_table(table: Table) -> u64 {
    table.0 | PRESENT | WRITABLE | USER
}

/// Index into the table of a level (0: page table).
pub(crate) const fn index(va: usize, level: usize) -> usize {
    va >> (12 + 9 * level) & (ENTRIES - 1)
}

/// The entry for a frame.
pub(crate) fn entry_of(gpa: u64, prot: Prot) -> u64 {
    if !prot.contains(Prot::READ) {
        return gpa | HIDDEN;
    }
    // Accessed from the start: a page is mapped because it is about to be used, and KVM without hardware support then
    // maps it together with its neighbours.
    let mut entry = gpa | PRESENT | USER | ACCESSED;
    if prot.contains(Prot::WRITE) {
        entry |= WRITABLE | DIRTY;
    }
    if !prot.contains(Prot::EXEC) {
        entry |= NO_EXEC;
    }
    entry
}

/// Rights of an entry.
pub(crate) fn prot_of(entry: u64) -> Prot {
    if entry & PRESENT == 0 {
        return Prot::empty();
    }
    let mut prot = Prot::READ;
    prot.set(Prot::WRITE, entry & WRITABLE != 0);
    prot.set(Prot::EXEC, entry & NO_EXEC == 0);
    prot
}

/// The entry of small page `i` of a large one.
pub(crate) fn part(large: u64, i: usize) -> u64 {
    (large & !LARGE) + (i * FRAME_SIZE) as u64
}

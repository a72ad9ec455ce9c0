//! The direct map: all RAM and the window are at fixed addresses in every address space.
//!
//! Only memory that exists is mapped: a program that went astray to the rest gets SIGSEGV.

use crate::page_table::{LARGE, PRESENT, Table, USER, WRITABLE, index};
use abi::layout::{BOOT_TABLES, DIRECT_BASE, LARGE_PAGE_SIZE};

/// The address of a byte of guest-physical memory.
#[inline(always)]
pub(crate) const fn address(gpa: u64) -> usize {
    DIRECT_BASE + gpa as usize
}

/// The guest-physical address of a byte in the direct map.
#[inline(always)]
pub(crate) const fn gpa(address: usize) -> u64 {
    (address - DIRECT_BASE) as u64
}

/// Whether the address is in or above the direct map, where keel's memory is.
pub(crate) const fn is_above_programs(address: usize) -> bool {
    address >= DIRECT_BASE
}

/// RAM or the window has grown from `start` to `end` (guest-physical): maps it, in all spaces, which share these tables.
/// Boot has made the tables, and mapped the RAM of that time.
pub(crate) fn extend(start: u64, end: u64) {
    let first = start / LARGE_PAGE_SIZE as u64 * LARGE_PAGE_SIZE as u64;
    for gpa in (first..end).step_by(LARGE_PAGE_SIZE) {
        let va = address(gpa);
        let upper = Table(BOOT_TABLES as u64).child(index(va, 3));
        if let Some(table) = upper.and_then(|upper| upper.child(index(va, 2))) {
            table.entry(index(va, 1)).set(gpa | PRESENT | WRITABLE | USER | LARGE);
        }
    }
}

/// Called before RAM is used. Does nothing: boot did the work.
#[inline(always)]
pub(crate) const fn prepare() {}

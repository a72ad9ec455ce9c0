//! keel's pages outside of the direct map, which all spaces share.

use crate::mapping::Prot;
use crate::page_table::{ADDRESS, Entry, PRESENT, Table, entry_of, index};
use crate::paging::child_or_new;
use abi::layout::BOOT_TABLES;

/// Maps a page of keel outside of the direct map, in all spaces, which share these tables. `None` if there is no memory
/// for a table.
pub(super) fn map_keel_page(va: usize, gpa: u64) -> Option<()> {
    let mut table = Table(BOOT_TABLES as u64);
    for level in (1..4).rev() {
        table = child_or_new(table, index(va, level))?;
    }
    table.entry(index(va, 0)).set(entry_of(gpa, Prot::READ | Prot::WRITE));
    Some(())
}

/// The entry of a page of keel outside of the direct map.
fn keel_entry(va: usize) -> Option<&'static Entry> {
    let mut table = Table(BOOT_TABLES as u64);
    for level in (1..4).rev() {
        table = table.child(index(va, level))?;
    }
    Some(table.entry(index(va, 0)))
}

/// Guest-physical address of a page of keel outside of the direct map.
pub(super) fn keel_page(va: usize) -> Option<u64> {
    let value = keel_entry(va)?.get();
    (value & PRESENT != 0).then_some(value & ADDRESS)
}

/// Unmaps a page of keel outside of the direct map, without a TLB flush.
pub(super) fn unmap_keel_page(va: usize) {
    if let Some(entry) = keel_entry(va) {
        entry.set(0);
    }
}

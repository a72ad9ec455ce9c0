//! The direct map: all RAM and the window are at fixed addresses in every address space.

use abi::layout::DIRECT_BASE;

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

/// Called before RAM is used. Does nothing: boot did the work.
#[inline(always)]
pub(crate) const fn prepare() {}

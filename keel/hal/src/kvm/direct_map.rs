//! The direct map: all memory that the monitor gives, and the window, lie at fixed addresses in every address space.

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

/// Whether the address lies in the direct map or above it, where keel's other memory is.
pub(crate) const fn is_above_programs(address: usize) -> bool {
    address >= DIRECT_BASE
}

/// Called before RAM is used. Boot set it up.
#[inline(always)]
pub(crate) const fn prepare() {}

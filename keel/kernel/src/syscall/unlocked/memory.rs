//! Calls that change private anonymous mappings.

use crate::mm::area::{Area, AreaFlags};
use crate::mm::{Space, page_range, page_up};
use crate::syscall::mm::calls::prot_of;
use crate::task::try_borrow_current;
use abi::layout::PAGE_SIZE;
use hal::hooks::Unlocked;
use hal::sync::grace;
use uapi::raw::general as g;

/// Calls `f` with the memory of the thread.
#[inline(always)]
fn with_space<R>(f: impl FnOnce(&Space) -> Option<R>) -> Option<R> {
    let current = try_borrow_current()?;
    let task = current.as_ref()?;
    grace::read(|reading| f(task.unlocked_space.get(reading)?))
}

/// mmap(2), munmap(2) and madvise(2).
pub(super) fn attempt(number: u32, [address, len, third, flags, _, offset]: [u64; 6]) -> Option<(isize, Unlocked)> {
    let (address, len, third) = (address as usize, len as usize, third as u32);
    let result = match number {
        g::__NR_mmap => map(address, len, third, flags as u32, offset)? as isize,
        g::__NR_munmap if address.is_multiple_of(PAGE_SIZE) && len != 0 => {
            let range = page_range(address, len)?;
            with_space(|space| space.unmap(range.start, range.end))?;
            0
        }
        g::__NR_madvise if matches!(third, g::MADV_DONTNEED | g::MADV_FREE) && address.is_multiple_of(PAGE_SIZE) => {
            let range = page_range(address, len).filter(|range| !range.is_empty())?;
            with_space(|space| space.discard(range.start, range.end))?;
            0
        }
        _ => return None,
    };
    Some((result, Unlocked::Served))
}

fn map(address: usize, len: usize, prot: u32, flags: u32, offset: u64) -> Option<usize> {
    const PLAIN: u32 = g::MAP_PRIVATE | g::MAP_ANONYMOUS;
    const HARMLESS: u32 = g::MAP_NORESERVE | g::MAP_STACK;
    if flags & !HARMLESS != PLAIN || len == 0 || !offset.is_multiple_of(PAGE_SIZE as u64) {
        return None;
    }
    let mut area = Area::anonymous(prot_of(prot));
    area.flags.set(AreaFlags::NO_RESERVE, flags & g::MAP_NORESERVE != 0);
    area.flags.set(AreaFlags::NO_HUGE, flags & g::MAP_STACK != 0);
    let len = page_up(len)?;
    with_space(|space| space.map(address, len, area))
}

//! The MMU: walks keel's page tables, and caches translations until they are invalidated.
#![allow(unsafe_code)]

use super::percpu::set_fault_address;
use crate::cell::Global;
use crate::direct_map;
use crate::frame::FRAME_SIZE;
use crate::page_table::{ACCESSED, ADDRESS, DIRTY, Entry, LARGE, NO_EXEC, PRESENT, USER, WRITABLE, index, part};
use crate::paging::active_root;
use core::cell::RefCell;
use std::collections::BTreeMap;

/// Kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Fetch,
}

/// Bits of a page fault's error code (SDM volume 3, 4.7).
const CODE_PRESENT: u64 = 1;
const CODE_WRITE: u64 = 2;
const CODE_USER: u64 = 4;
const CODE_FETCH: u64 = 16;

/// The TLB: entries of pages, as at their first use, by address.
static CACHE: Global<RefCell<BTreeMap<usize, u64>>> = Global::new(RefCell::new(BTreeMap::new()));

/// The entry that translates an address, of a directory for a large page; `None` without one.
fn walk(address: usize) -> Option<&'static Entry> {
    let mut table = active_root();
    for level in (1..4).rev() {
        let entry = table.entry(index(address, level));
        if entry.get() & LARGE != 0 && entry.get() & PRESENT != 0 {
            return Some(entry);
        }
        table = table.child(index(address, level))?;
    }
    Some(table.entry(index(address, 0))).filter(|entry| entry.get() & PRESENT != 0)
}

/// The entry converted to one of a small page.
fn small(entry: u64, address: usize) -> u64 {
    if entry & LARGE != 0 { part(entry, index(address, 0)) } else { entry }
}

fn allows(entry: u64, access: Access) -> bool {
    entry & USER != 0
        && match access {
            Access::Read => true,
            Access::Write => entry & WRITABLE != 0,
            Access::Fetch => entry & NO_EXEC == 0,
        }
}

/// Address in the process of a byte of the active space, or the error code of the page fault.
///
/// # Panics
/// If a cached translation differs from the tables: keel has not flushed it. A processor may use either; the result
/// must not depend on that.
pub(super) fn translate(address: usize, access: Access) -> Result<usize, u64> {
    let page = address & !(FRAME_SIZE - 1);
    let entry = walk(address);
    if let Some(cached) = CACHE.borrow().get(&page) {
        let now = entry.map_or(0, |entry| small(entry.get(), address));
        let lost = cached & !now & (WRITABLE | USER) | now & !cached & NO_EXEC;
        let stale = now & ADDRESS & !NO_EXEC != cached & ADDRESS || lost != 0;
        assert!(!stale, "a translation of {page:#x} was not invalidated: {cached:#x}, and the table has {now:#x}");
    }
    let write = if access == Access::Write { CODE_WRITE } else { 0 };
    let fetch = if access == Access::Fetch { CODE_FETCH } else { 0 };
    let Some(entry) = entry.filter(|entry| allows(entry.get(), access)) else {
        // A page fault invalidates the translation of its page (SDM volume 3, 4.10.4.1).
        CACHE.borrow_mut().remove(&page);
        let present = if entry.is_some() { CODE_PRESENT } else { 0 };
        return Err(present | CODE_USER | write | fetch);
    };
    let used = ACCESSED | if access == Access::Write { DIRTY } else { 0 };
    entry.set(entry.get() | used);
    let entry = small(entry.get(), address);
    CACHE.borrow_mut().insert(page, entry);
    Ok(direct_map::address(entry & ADDRESS) + address % FRAME_SIZE)
}

/// Calls `f` for each part of `[address, address + len)` within one page: its address in the process, and the offset
/// from the start. Returns the number of bytes not done because of a page fault.
fn pieces(address: usize, len: usize, access: Access, mut f: impl FnMut(*mut u8, usize, usize)) -> usize {
    let mut done = 0;
    while done < len {
        let at = address + done;
        let Ok(place) = translate(at, access) else {
            set_fault_address(at);
            break;
        };
        let n = (FRAME_SIZE - at % FRAME_SIZE).min(len - done);
        f(place as *mut u8, done, n);
        done += n;
    }
    len - done
}

/// Ring-0 operations, for a machine without rings.
pub(crate) mod privileged {
    use super::*;

    /// Loads a root table, which flushes the TLB.
    ///
    /// # Safety
    /// It is a root table.
    pub(crate) unsafe fn load_root(_root: usize) {
        CACHE.borrow_mut().clear();
    }

    /// Invalidates the TLB entry of a page.
    pub(crate) fn invalidate_page(address: usize) {
        CACHE.borrow_mut().remove(&(address & !(FRAME_SIZE - 1)));
    }
}

/// Accesses of keel to program memory.
pub(crate) mod user_copy {
    use super::*;
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::SeqCst;

    /// Copies `len` bytes from the program; returns the number of bytes not copied.
    ///
    /// # Safety
    /// `to` is valid for `len` bytes.
    pub(crate) unsafe fn keel_user_copy_in(to: usize, from: usize, len: usize) -> usize {
        pieces(from, len, Access::Read, |place, done, n| {
            // SAFETY: the piece is in a mapped frame; the caller guarantees the other side.
            unsafe { core::ptr::copy(place, (to + done) as *mut u8, n) };
        })
    }

    /// Copies `len` bytes to the program; returns the number of bytes not copied.
    ///
    /// # Safety
    /// `from` is valid for `len` bytes.
    pub(crate) unsafe fn keel_user_copy_out(to: usize, from: usize, len: usize) -> usize {
        pieces(to, len, Access::Write, |place, done, n| {
            // SAFETY: as in `keel_user_copy_in`.
            unsafe { core::ptr::copy((from + done) as *const u8, place, n) };
        })
    }

    /// Zeroes `len` bytes; returns the number of bytes not zeroed.
    ///
    /// # Safety
    /// As for the others, which access memory of keel.
    pub(crate) unsafe fn keel_user_clear(to: usize, _unused: usize, len: usize) -> usize {
        pieces(to, len, Access::Write, |place, _, n| {
            // SAFETY: as in `keel_user_copy_in`.
            unsafe { core::ptr::write_bytes(place, 0, n) };
        })
    }

    fn word(address: usize, access: Access) -> Option<&'static AtomicU32> {
        match translate(address, access) {
            // SAFETY: the aligned word is in a mapped frame.
            Ok(place) => Some(unsafe { &*(place as *const AtomicU32) }),
            Err(_) => {
                set_fault_address(address);
                None
            }
        }
    }

    /// Reads an aligned word; returns 0, or non-zero after a fault.
    ///
    /// # Safety
    /// `result` is valid for a word.
    pub(crate) unsafe fn keel_user_load(address: usize, result: *mut u32) -> usize {
        let Some(word) = word(address, Access::Read) else { return 1 };
        // SAFETY: guaranteed by the caller.
        unsafe { result.write(word.load(SeqCst)) };
        0
    }

    /// Compare-and-exchange of an aligned word; returns 0, or non-zero after a fault.
    ///
    /// # Safety
    /// `result` is valid for a word.
    pub(crate) unsafe fn keel_user_cmpxchg(
        address: usize,
        result: *mut u32,
        old: u32,
        _unused: u32,
        new: u32,
    ) -> usize {
        let Some(word) = word(address, Access::Write) else { return 1 };
        let before = match word.compare_exchange(old, new, SeqCst, SeqCst) {
            Ok(before) | Err(before) => before,
        };
        // SAFETY: guaranteed by the caller.
        unsafe { result.write(before) };
        0
    }

    /// Copies bytes up to a zero byte, at most `len`; returns the number of bytes not copied because of a fault.
    ///
    /// # Safety
    /// `to` is valid for `len` bytes.
    pub(crate) unsafe fn keel_user_string(to: *mut u8, from: usize, len: usize) -> usize {
        for done in 0..len {
            let mut byte = 0u8;
            // SAFETY: the byte is a local.
            if unsafe { keel_user_copy_in(&raw mut byte as usize, from + done, 1) } != 0 {
                return len - done;
            }
            // SAFETY: guaranteed by the caller.
            unsafe { to.add(done).write(byte) };
            if byte == 0 {
                break;
            }
        }
        0
    }
}

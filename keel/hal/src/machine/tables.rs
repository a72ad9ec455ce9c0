//! Memory of page tables.
//!
//! KVM without hardware support watches tables: it emulates every store to one, also after it went to other use, and shows
//! the 2 MiB around it in small pages only, a fault for each eight. So tables lie apart as far as they can, in the
//! memory below keel's image, and those that are not in use wait for the next use.
#![allow(unsafe_code)]

use crate::buddy::{give_block, has_for_programs, take_block};
use crate::cell::Global;
use crate::direct_map;
use crate::frame::FRAME_SIZE;
use abi::layout::KEEL_IMAGE;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Tables of zeros below the image that wait for use; has room for all.
static LOW_WAITING: Global<RefCell<Vec<u64>>> = Global::new(RefCell::new(Vec::new()));
/// Others.
static WAITING: Global<RefCell<Vec<u64>>> = Global::new(RefCell::new(Vec::new()));
/// Most others.
const MOST_WAITING: usize = 64;
/// Memory below the image that was never used; 0: not looked at yet.
static LOW: Global<Cell<u64>> = Global::new(Cell::new(0));

const fn is_low(gpa: u64) -> bool {
    gpa < KEEL_IMAGE as u64
}

/// Takes the next piece of memory below the image.
fn take_low() -> Option<u64> {
    if LOW.get() == 0 {
        let start = crate::boot::boot_info().low_start;
        let count = (KEEL_IMAGE as u64).saturating_sub(start) as usize / FRAME_SIZE;
        let has_room = LOW_WAITING.borrow_mut().try_reserve_exact(count).is_ok();
        LOW.set(if has_room { start } else { KEEL_IMAGE as u64 });
    }
    let gpa = LOW.get();
    is_low(gpa).then(|| {
        LOW.set(gpa + FRAME_SIZE as u64);
        gpa
    })
}

/// Takes a table of zeros, by its guest-physical address; `None` if there is no memory.
pub(crate) fn take() -> Option<u64> {
    let kept = LOW_WAITING.borrow_mut().pop();
    if kept.is_some() {
        return kept;
    }
    let new = take_low();
    let kept = if new.is_none() { WAITING.borrow_mut().pop() } else { None };
    if kept.is_some() {
        return kept;
    }
    let gpa = match new {
        Some(gpa) => gpa,
        None if has_for_programs() => take_block(0)?,
        None => return None,
    };
    // SAFETY: the frame was just taken: nobody else uses it, and the direct map covers RAM.
    unsafe { core::ptr::write_bytes(direct_map::address(gpa) as *mut u8, 0, FRAME_SIZE) };
    Some(gpa)
}

/// Gives a table back, which is zero again.
pub(crate) fn give(gpa: u64) {
    if is_low(gpa) {
        LOW_WAITING.borrow_mut().push(gpa);
        return;
    }
    let mut waiting = WAITING.borrow_mut();
    if waiting.len() < MOST_WAITING && waiting.try_reserve(1).is_ok() {
        waiting.push(gpa);
    } else {
        give_block(gpa, 0);
    }
}

//! Kernel stacks: memory of the process, with a page below each that nothing may touch.
#![allow(unsafe_code)]

use crate::cell::Global;
use abi::layout::PAGE_SIZE;
use core::cell::RefCell;
use std::vec::Vec;

/// Bytes of a stack: programs of tests run on it as well, in builds without optimisation. The host gives it memory as it is
/// touched.
pub(crate) const STACK_BYTES: usize = 1 << 20;

static FREE: Global<RefCell<Vec<usize>>> = Global::new(RefCell::new(Vec::new()));

/// Takes a stack: its lowest address. `None` if the host has no memory for one.
pub(crate) fn take() -> Option<usize> {
    if let Some(stack) = FREE.borrow_mut().pop() {
        return Some(stack);
    }
    let bytes = STACK_BYTES + PAGE_SIZE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, of which nobody may touch the first page.
    unsafe {
        let area = libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if area == libc::MAP_FAILED || libc::mprotect(area, PAGE_SIZE, libc::PROT_NONE) != 0 {
            return None;
        }
        Some(area as usize + PAGE_SIZE)
    }
}

/// Gives a stack back that no thread uses any more.
pub(crate) fn give(stack: usize) {
    FREE.borrow_mut().push(stack);
}

/// Stacks lie in no area of their own.
pub(crate) const fn is_in_area(_address: usize) -> bool {
    false
}

/// The guest-physical address of a byte of a stack, as of all other memory.
pub(crate) fn gpa_of(address: usize) -> u64 {
    crate::direct_map::gpa(address)
}

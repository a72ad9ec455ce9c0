//! Kernel stacks: mappings of the process, each with a guard page below.
#![allow(unsafe_code)]

use crate::cell::Global;
use abi::layout::PAGE_SIZE;
use core::cell::RefCell;
use std::vec::Vec;

/// Size of a stack: programs of tests run on it too, in builds without optimisation. The host populates it at the first
/// touch.
pub(crate) const STACK_BYTES: usize = 1 << 20;

static FREE: Global<RefCell<Vec<usize>>> = Global::new(RefCell::new(Vec::new()));

/// Allocates a stack; returns its lowest address. `None` if the host has no memory.
pub(crate) fn take() -> Option<usize> {
    if let Some(stack) = FREE.borrow_mut().pop() {
        return Some(stack);
    }
    let bytes = STACK_BYTES + PAGE_SIZE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, whose first page is inaccessible.
    unsafe {
        let area = libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if area == libc::MAP_FAILED || libc::mprotect(area, PAGE_SIZE, libc::PROT_NONE) != 0 {
            return None;
        }
        Some(area as usize + PAGE_SIZE)
    }
}

/// Frees a stack that no thread uses any more.
pub(crate) fn give(stack: usize) {
    FREE.borrow_mut().push(stack);
}

/// There is no separate stack area.
pub(crate) const fn is_in_area(_address: usize) -> bool {
    false
}

/// The guest-physical address of a byte of a stack, as of all other memory.
pub(crate) fn gpa_of(address: usize) -> u64 {
    crate::direct_map::gpa(address)
}

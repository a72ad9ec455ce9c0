//! Kernel stacks: in a separate area of keel's slot above the direct map, with unmapped guard pages below each. An
//! overflow raises a page fault there, and its report runs on a separate stack.
//!
//! The direct map has large pages only; unmapping a page of it would split one, and map the memory around the stack
//! with small pages. Only stacks are in this area. A freed stack stays mapped for the next thread, because a new one
//! costs a store to a live table and a fault; more than [`MOST_KEPT`] are unmapped together, with one flush.

use super::own_pages;
use crate::buddy::{give_block, is_small, take_block};
use crate::cell::Global;
use crate::paging;
use abi::layout::{PAGE_SIZE, STACK_AREA, STACK_AREA_SIZE};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Kernel stacks are 2^3 pages: 32 KiB.
const ORDER: usize = 3;
/// Bytes of a stack.
pub(crate) const STACK_BYTES: usize = PAGE_SIZE << ORDER;
/// Distance between stacks: the other half is never mapped.
const STRIDE: usize = 2 * STACK_BYTES;
/// Maximum number of free mapped stacks.
const MOST_KEPT: usize = 64;
/// The same in a small pod.
const MOST_IN_SMALL: usize = 4;

/// Lowest addresses of free mapped stacks.
static WAITING: Global<RefCell<Vec<usize>>> = Global::new(RefCell::new(Vec::new()));
/// Unmapped places.
static EMPTY: Global<RefCell<Vec<usize>>> = Global::new(RefCell::new(Vec::new()));
/// The first unused place.
static FRESH: Global<Cell<usize>> = Global::new(Cell::new(STACK_AREA));

/// Allocates a stack; returns its lowest address. `None` if out of memory.
pub(crate) fn take() -> Option<usize> {
    if let Some(stack) = WAITING.borrow_mut().pop() {
        return Some(stack);
    }
    let empty = EMPTY.borrow_mut().pop();
    let place = match empty {
        Some(place) => place,
        None => FRESH.get(),
    };
    let mapped = map(place);
    match (mapped, empty) {
        // The list has room for the entry that was just removed.
        (None, Some(place)) => EMPTY.borrow_mut().push(place),
        (Some(_), None) => FRESH.set(place + STRIDE),
        _ => {}
    }
    mapped
}

/// Maps memory at a place.
fn map(place: usize) -> Option<usize> {
    if place + STRIDE > STACK_AREA + STACK_AREA_SIZE {
        return None;
    }
    let stack = place + STACK_BYTES;
    let gpa = take_block(ORDER)?;
    for offset in (0..STACK_BYTES).step_by(PAGE_SIZE) {
        // All pages of a stack are in one table, so mapping the first one allocates it for all.
        if own_pages::map_keel_page(stack + offset, gpa + offset as u64).is_none() {
            give_block(gpa, ORDER);
            return None;
        }
    }
    Some(stack)
}

/// Frees a stack that no thread uses any more.
pub(crate) fn give(stack: usize) {
    let mut waiting = WAITING.borrow_mut();
    if waiting.capacity() == 0 && waiting.try_reserve_exact(MOST_KEPT).is_err() {
        drop(waiting);
        return release(&[stack]);
    }
    let most = if is_small() { MOST_IN_SMALL } else { MOST_KEPT };
    if waiting.len() < most {
        return waiting.push(stack);
    }
    let mut old = [stack; MOST_KEPT / 2 + 1];
    for (place, kept) in old.iter_mut().skip(1).zip(waiting.drain(most / 2..)) {
        *place = kept;
    }
    drop(waiting);
    release(&old[..=most / 2]);
}

/// Unmaps and frees stacks.
fn release(stacks: &[usize]) {
    // No other virtual CPU uses one of them; each flushes its TLB before it uses another one.
    crate::smp::stop_others();
    let mut blocks = [None; MOST_KEPT];
    for (block, stack) in blocks.iter_mut().zip(stacks) {
        *block = own_pages::keel_page(*stack);
        for offset in (0..STACK_BYTES).step_by(PAGE_SIZE) {
            own_pages::unmap_keel_page(stack + offset);
        }
    }
    paging::reload();
    for gpa in blocks.into_iter().flatten() {
        give_block(gpa, ORDER);
    }
    let mut empty = EMPTY.borrow_mut();
    if empty.try_reserve(stacks.len()).is_ok() {
        empty.extend(stacks.iter().map(|stack| stack - STACK_BYTES));
    }
}

/// Guest-physical address of a byte of a stack; 0 if it is not mapped.
pub(crate) fn gpa_of(address: usize) -> u64 {
    own_pages::keel_page(address & !(PAGE_SIZE - 1)).map_or(0, |page| page + (address & (PAGE_SIZE - 1)) as u64)
}

/// Whether 16 bytes of a stack are mapped there.
pub(crate) fn holds(address: usize) -> bool {
    [address, address.wrapping_add(8)].iter().all(|at| is_in_area(*at) && gpa_of(*at) != 0)
}

/// Whether this is an address in the area, of a stack or a guard page.
pub(crate) fn is_in_area(address: usize) -> bool {
    (STACK_AREA..STACK_AREA + STACK_AREA_SIZE).contains(&address)
}

const _: () = assert!(STRIDE.is_multiple_of(STACK_BYTES) && STACK_AREA.is_multiple_of(STRIDE));

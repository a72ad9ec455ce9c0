//! Kernel stacks: an area of virtual memory of their own, in keel's slot above the direct map, where nothing is mapped below
//! each stack. One that overflows raises a page fault there, and the report of it has a stack of its own.
//!
//! The direct map has large pages only; taking a page out of it would split one, and everything beside the stack would be shown in small
//! pages. Here only the stacks are. A stack that was given back stays mapped for the next thread, because a new one costs
//! a store to a table in use and a fault; more than [`MOST_KEPT`] are unmapped together, with one flush.

use super::own_pages;
use crate::buddy::{give_block, take_block};
use crate::cell::Global;
use crate::paging;
use abi::layout::{PAGE_SIZE, STACK_AREA, STACK_AREA_SIZE};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Kernel stacks are 2^3 pages: 32 KiB.
const ORDER: usize = 3;
/// Bytes of a stack.
pub(crate) const STACK_BYTES: usize = PAGE_SIZE << ORDER;
/// Bytes from one to the next: as much again is never mapped.
const STRIDE: usize = 2 * STACK_BYTES;
/// Stacks that wait for use.
const MOST_KEPT: usize = 64;

/// Lowest addresses of mapped stacks that are free.
static WAITING: Global<RefCell<Vec<usize>>> = Global::new(RefCell::new(Vec::new()));
/// Places without memory.
static EMPTY: Global<RefCell<Vec<usize>>> = Global::new(RefCell::new(Vec::new()));
/// The first place that was never used.
static FRESH: Global<Cell<usize>> = Global::new(Cell::new(STACK_AREA));

/// Takes a stack: its lowest address. `None` if there is no memory for one.
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
        // The list has room for what was just taken out of it.
        (None, Some(place)) => EMPTY.borrow_mut().push(place),
        (Some(_), None) => FRESH.set(place + STRIDE),
        _ => {}
    }
    mapped
}

/// Puts memory into a place.
fn map(place: usize) -> Option<usize> {
    if place + STRIDE > STACK_AREA + STACK_AREA_SIZE {
        return None;
    }
    let stack = place + STACK_BYTES;
    let gpa = take_block(ORDER)?;
    for offset in (0..STACK_BYTES).step_by(PAGE_SIZE) {
        // All pages of a stack lie in one table: none or all of them can be mapped.
        if own_pages::map_keel_page(stack + offset, gpa + offset as u64).is_none() {
            give_block(gpa, ORDER);
            return None;
        }
    }
    Some(stack)
}

/// Gives a stack back that no thread uses any more.
pub(crate) fn give(stack: usize) {
    let mut waiting = WAITING.borrow_mut();
    if waiting.capacity() == 0 && waiting.try_reserve_exact(MOST_KEPT).is_err() {
        drop(waiting);
        return release(&[stack]);
    }
    if waiting.len() < MOST_KEPT {
        return waiting.push(stack);
    }
    let mut old = [stack; MOST_KEPT / 2 + 1];
    for (place, kept) in old.iter_mut().skip(1).zip(waiting.drain(MOST_KEPT / 2..)) {
        *place = kept;
    }
    drop(waiting);
    release(&old);
}

/// Takes the memory of stacks away.
fn release(stacks: &[usize]) {
    // No other virtual CPU uses one of them; each forgets where they were before it takes another one.
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

/// Guest-physical address of a byte of a stack; 0 if none is there.
pub(crate) fn gpa_of(address: usize) -> u64 {
    own_pages::keel_page(address & !(PAGE_SIZE - 1)).map_or(0, |page| page + (address & (PAGE_SIZE - 1)) as u64)
}

/// Whether 16 bytes of a stack lie there.
pub(crate) fn holds(address: usize) -> bool {
    [address, address.wrapping_add(8)].iter().all(|at| is_in_area(*at) && gpa_of(*at) != 0)
}

/// Whether this is an address in the area, of a stack or below one.
pub(crate) fn is_in_area(address: usize) -> bool {
    (STACK_AREA..STACK_AREA + STACK_AREA_SIZE).contains(&address)
}

const _: () = assert!(STRIDE.is_multiple_of(STACK_BYTES) && STACK_AREA.is_multiple_of(STRIDE));

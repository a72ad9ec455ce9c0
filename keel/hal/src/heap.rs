//! Keel's heap: size classes over blocks of frames.
//!
//! Small objects come from free lists that are filled a block at a time and never shrink; larger
//! ones are blocks of frames of their own.

use crate::cell::Global;
use crate::frame_kvm::{give_block, take_block};
use abi::layout::{DIRECT_BASE, PAGE_SIZE};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::null_mut;

const CLASSES: [usize; 14] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
/// Order of the blocks that fill the free lists: 16 KiB.
const REFILL_ORDER: usize = 2;

struct Heap {
    free: [Cell<*mut u8>; CLASSES.len()],
}

static HEAP: Global<Heap> = Global::new(Heap { free: [const { Cell::new(null_mut()) }; CLASSES.len()] });

/// Class by (size - 1) / 16 for sizes up to 2048.
static CLASS_OF: [u8; 128] = {
    let mut table = [0u8; 128];
    let mut i = 0;
    while i < 128 {
        let size = (i + 1) * 16;
        let mut class = 0;
        while CLASSES[class] < size {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// The class that serves a layout, or `None` for one that gets frames of its own.
fn class_of(layout: Layout) -> Option<usize> {
    // Objects of a class lie at multiples of its size from a page boundary, so only classes that
    // are multiples of the alignment keep it; rounding the size up to the alignment picks one for
    // alignments up to 64 (48 and its multiples are multiples of 16 only).
    let size = if layout.align() > 16 { layout.size().max(layout.align()).next_power_of_two() } else { layout.size() };
    if size == 0 || size > 2048 { None } else { Some(CLASS_OF[(size - 1) / 16] as usize) }
}

fn order_of(layout: Layout) -> usize {
    let pages = layout.size().max(layout.align()).max(1).div_ceil(PAGE_SIZE);
    pages.next_power_of_two().trailing_zeros() as usize
}

struct KeelHeap;

#[global_allocator]
static GLOBAL: KeelHeap = KeelHeap;

// SAFETY: blocks come from the frame allocator, are disjoint, large enough and aligned (classes at
// multiples of their size in a page-aligned block, powers of two for larger alignments); the heap is
// used under the big lock.
unsafe impl GlobalAlloc for KeelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            return take_block(order_of(layout)).map_or(null_mut(), |gpa| (DIRECT_BASE + gpa as usize) as *mut u8);
        };
        let head = &HEAP.free[class];
        if head.get().is_null() {
            // Memory may be in small pieces by now.
            let Some((gpa, order)) = (0..=REFILL_ORDER).rev().find_map(|order| Some((take_block(order)?, order)))
            else {
                return null_mut();
            };
            let block = DIRECT_BASE + gpa as usize;
            let size = CLASSES[class];
            for i in (0..(PAGE_SIZE << order) / size).rev() {
                let object = (block + i * size) as *mut u8;
                // SAFETY: inside the block that was just taken; free objects hold the list's link.
                unsafe { object.cast::<*mut u8>().write(head.get()) };
                head.set(object);
            }
        }
        let object = head.get();
        // SAFETY: a free object holds the link to the next one.
        head.set(unsafe { object.cast::<*mut u8>().read() });
        object
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) => {
                let head = &HEAP.free[class];
                // SAFETY: the caller gives back an object of this class; it is free now.
                unsafe { object.cast::<*mut u8>().write(head.get()) };
                head.set(object);
            }
            None => give_block((object as usize - DIRECT_BASE) as u64, order_of(layout)),
        }
    }
}

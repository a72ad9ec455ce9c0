//! Keel's heap: size classes over blocks of frames.
//!
//! Small objects come from free lists that are filled a frame at a time; when memory runs out, the frames without any
//! object in use go back ([`trim`]). Larger ones are blocks of frames of their own.

use crate::cell::Global;
use crate::frame_kvm::{give_block, heap_mark, take_block};
use abi::layout::{DIRECT_BASE, PAGE_SIZE};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::null_mut;

const CLASSES: [usize; 13] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048];
/// [`trim`] looks again when the free lists have grown by so much, and by an eighth, since it looked last: it walks them
/// as a whole.
const TRIM_STEP: usize = 128 << 10;

struct Heap {
    free: [Cell<*mut u8>; CLASSES.len()],
    /// Bytes in the free lists.
    free_bytes: Cell<usize>,
    /// From how many on [`trim`] looks again.
    trim_from: Cell<usize>,
}

static HEAP: Global<Heap> = Global::new(Heap {
    free: [const { Cell::new(null_mut()) }; CLASSES.len()],
    free_bytes: Cell::new(0),
    trim_from: Cell::new(TRIM_STEP),
});

/// The frame that a small object lies in, by guest-physical address.
fn frame_of(object: *mut u8) -> u64 {
    ((object as usize - DIRECT_BASE) & !(PAGE_SIZE - 1)) as u64
}

/// Gives the frames of free small objects back in which none is in use: their number. Nothing if not much was freed
/// since it last looked.
pub fn trim() -> usize {
    if HEAP.free_bytes.get() < HEAP.trim_from.get() {
        return 0;
    }
    let trimmed = (0..CLASSES.len()).map(trim_class).sum();
    let left = HEAP.free_bytes.get();
    HEAP.trim_from.set(left + TRIM_STEP.max(left / 8));
    trimmed
}

/// The objects of a free list, each with its successor read before it is given.
fn objects(first: *mut u8) -> impl Iterator<Item = *mut u8> {
    let mut next = first;
    core::iter::from_fn(move || {
        let object = next;
        if object.is_null() {
            return None;
        }
        // SAFETY: a free object holds the link to the next one.
        next = unsafe { object.cast::<*mut u8>().read() };
        Some(object)
    })
}

fn trim_class(class: usize) -> usize {
    let capacity = PAGE_SIZE / CLASSES[class];
    let is_free = |object| heap_mark(frame_of(object)).get() == capacity as u32;
    for object in objects(HEAP.free[class].get()) {
        let free = heap_mark(frame_of(object));
        free.set(free.get() + 1);
    }
    let link = |object: *mut u8, list: &mut *mut u8| {
        // SAFETY: a free object is nobody's; its link was read before.
        unsafe { object.cast::<*mut u8>().write(*list) };
        *list = object;
    };
    let (mut kept, mut gone) = (null_mut(), null_mut());
    for object in objects(HEAP.free[class].get()) {
        if !is_free(object) {
            link(object, &mut kept);
        } else if (object as usize).is_multiple_of(PAGE_SIZE) {
            link(object, &mut gone);
        }
    }
    for object in objects(kept) {
        heap_mark(frame_of(object)).set(0);
    }
    HEAP.free[class].set(kept);
    let mut frames = 0;
    for object in objects(gone) {
        heap_mark(frame_of(object)).set(0);
        give_block(frame_of(object), 0);
        frames += 1;
    }
    HEAP.free_bytes.set(HEAP.free_bytes.get() - frames * capacity * CLASSES[class]);
    frames
}

/// Takes a block, if necessary after what is not in use was given back.
fn take_block_or_trim(order: usize) -> Option<u64> {
    take_block(order).or_else(|| if trim() > 0 { take_block(order) } else { None })
}

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
            return take_block_or_trim(order_of(layout))
                .map_or(null_mut(), |gpa| (DIRECT_BASE + gpa as usize) as *mut u8);
        };
        let head = &HEAP.free[class];
        if head.get().is_null() {
            let Some(gpa) = take_block_or_trim(0) else { return null_mut() };
            let block = DIRECT_BASE + gpa as usize;
            let (size, count) = (CLASSES[class], PAGE_SIZE / CLASSES[class]);
            for i in (0..count).rev() {
                let object = (block + i * size) as *mut u8;
                // SAFETY: inside the frame that was just taken; free objects hold the list's link.
                unsafe { object.cast::<*mut u8>().write(head.get()) };
                head.set(object);
            }
            HEAP.free_bytes.set(HEAP.free_bytes.get() + count * size);
        }
        let object = head.get();
        // SAFETY: a free object holds the link to the next one.
        head.set(unsafe { object.cast::<*mut u8>().read() });
        HEAP.free_bytes.set(HEAP.free_bytes.get() - CLASSES[class]);
        object
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) => {
                let head = &HEAP.free[class];
                // SAFETY: the caller gives back an object of this class; it is free now.
                unsafe { object.cast::<*mut u8>().write(head.get()) };
                head.set(object);
                HEAP.free_bytes.set(HEAP.free_bytes.get() + CLASSES[class]);
            }
            None => give_block((object as usize - DIRECT_BASE) as u64, order_of(layout)),
        }
    }
}

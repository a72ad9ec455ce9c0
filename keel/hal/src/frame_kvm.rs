//! Frames of the virtual machine's memory: reference counts and the buddy allocator under them.
//!
//! The monitor reserves a table entry for each page that RAM may ever have; RAM itself is added in
//! slots when the allocator runs dry.

use crate::cell::Global;
use crate::frame::FRAME_SIZE;
use abi::layout::{DIRECT_BASE, WINDOW_BASE};
use abi::request::Op;
use core::cell::Cell;

/// Largest block: 2^14 frames, 64 MiB.
pub(crate) const MAX_ORDER: usize = 14;
/// Frames that what programs make any number of leaves: a 64th of the limit, at least 2 MiB. Programs' pages and page
/// tables leave half of them to keel's own heap, so that a program whose calls fail still has its stack and its data; and
/// when three quarters of them are used, a process has to end (`keel/kernel/src/syscall/memory.rs`).
const RESERVE_SHARE: u32 = 64;
const RESERVE_LEAST: u32 = 512;
const NONE: u32 = u32::MAX;
/// State of a frame that isn't the head of a free block.
const STATE_USED: u32 = 0xff;
/// Flag beside the state of the first frame of 2 MiB: something there was handed out since the host
/// added it, so it is no longer known to be zero.
const TOUCHED: u32 = 0x100;

/// Table entry of a RAM frame.
#[repr(C)]
struct Meta {
    /// References; 0 while free or owned by the heap.
    refs: Cell<u32>,
    /// Order of the free block that starts here, or [`STATE_USED`]; and [`TOUCHED`].
    state: Cell<u32>,
    next: Cell<u32>,
    prev: Cell<u32>,
}

struct Allocator {
    table: Cell<usize>,
    window_table: Cell<usize>,
    window_pages: Cell<usize>,
    /// RAM pages that exist.
    pages: Cell<u32>,
    free_pages: Cell<u32>,
    limit_pages: Cell<u32>,
    /// Frames that are left when memory is scarce.
    scarce_pages: Cell<u32>,
    heads: [Cell<u32>; MAX_ORDER + 1],
}

impl Meta {
    fn state(&self) -> u32 {
        self.state.get() & !TOUCHED
    }

    fn set_state(&self, state: u32) {
        self.state.set(self.state.get() & TOUCHED | state);
    }
}

static ALLOCATOR: Global<Allocator> = Global::new(Allocator {
    table: Cell::new(0),
    window_table: Cell::new(0),
    window_pages: Cell::new(0),
    pages: Cell::new(0),
    free_pages: Cell::new(0),
    limit_pages: Cell::new(0),
    scarce_pages: Cell::new(0),
    heads: [const { Cell::new(NONE) }; MAX_ORDER + 1],
});

impl Allocator {
    fn meta(&self, index: u32) -> &Meta {
        debug_assert!(index < self.limit_pages.get());
        // SAFETY: the monitor reserved a zeroed entry for each page below the limit; indices come
        // from the allocator itself.
        unsafe { &*((self.table.get() + index as usize * size_of::<Meta>()) as *const Meta) }
    }

    fn window_refs(&self, index: usize) -> &Cell<u32> {
        // SAFETY: as for `meta`; window frames are made only for pages that the window has.
        unsafe { &*((self.window_table.get() + index * 4) as *const Cell<u32>) }
    }

    fn push(&self, index: u32, order: usize) {
        let meta = self.meta(index);
        let head = self.heads[order].get();
        meta.set_state(order as u32);
        meta.prev.set(NONE);
        meta.next.set(head);
        if head != NONE {
            self.meta(head).prev.set(index);
        }
        self.heads[order].set(index);
    }

    fn remove(&self, index: u32, order: usize) {
        let meta = self.meta(index);
        let (prev, next) = (meta.prev.get(), meta.next.get());
        if prev == NONE {
            self.heads[order].set(next);
        } else {
            self.meta(prev).next.set(next);
        }
        if next != NONE {
            self.meta(next).prev.set(prev);
        }
        meta.set_state(STATE_USED);
    }

    /// Notes that frames are handed out; whether the 2 MiB that the first lies in were untouched.
    fn touch(&self, index: u32, order: usize) -> bool {
        let first = index >> LARGE_ORDER;
        let fresh = self.meta(first << LARGE_ORDER).state.get() & TOUCHED == 0;
        let last = (index + (1 << order) - 1) >> LARGE_ORDER;
        if fresh {
            crate::ring::set_ram_used((u64::from(last) + 1) << LARGE_ORDER << FRAME_SIZE.trailing_zeros());
        }
        for large in first..=last {
            let state = &self.meta(large << LARGE_ORDER).state;
            state.set(state.get() | TOUCHED);
        }
        fresh
    }

    /// Takes a block of 2^order frames; whether the 2 MiB that it begins in were untouched.
    fn take(&self, order: usize) -> Option<(u32, bool)> {
        let from = (order..=MAX_ORDER).find(|o| self.heads[*o].get() != NONE)?;
        let index = self.heads[from].get();
        self.remove(index, from);
        for o in (order..from).rev() {
            self.push(index + (1 << o), o);
        }
        self.free_pages.set(self.free_pages.get() - (1 << order));
        self.note_left();
        Some((index, self.touch(index, order)))
    }

    /// Pages that are free or may still be asked for.
    fn left(&self) -> u32 {
        self.free_pages.get() + (self.limit_pages.get() - self.pages.get())
    }

    /// Tells whether memory is scarce now: after each change of the number of free frames.
    fn note_left(&self) {
        crate::watch::set_scarce(self.left() < self.scarce_pages.get());
    }

    /// Gives a block back, merging it with free neighbours.
    fn give(&self, mut index: u32, mut order: usize) {
        self.free_pages.set(self.free_pages.get() + (1 << order));
        self.note_left();
        while order < MAX_ORDER {
            let buddy = index ^ (1 << order);
            if buddy + (1 << order) > self.pages.get() || self.meta(buddy).state() != order as u32 {
                break;
            }
            self.remove(buddy, order);
            index = index.min(buddy);
            order += 1;
        }
        self.push(index, order);
    }

    /// Adds the frames `[start, end)`.
    fn add(&self, start: u32, end: u32) {
        self.pages.set(self.pages.get().max(end));
        for i in start..end {
            self.meta(i).set_state(STATE_USED);
        }
        // From the top down, so that the lowest block is the first to be taken: a small pod stays in
        // few pages of the host.
        let mut at = end;
        while at > start {
            let mut order = (at.trailing_zeros() as usize).min(MAX_ORDER);
            while at - start < 1 << order {
                order -= 1;
            }
            at -= 1 << order;
            self.give(at, order);
        }
    }
}

/// Sets the allocator up (boot).
pub(crate) fn init(info: &abi::boot::BootInfo) {
    ALLOCATOR.table.set(DIRECT_BASE + info.frame_table as usize);
    ALLOCATOR.window_table.set(DIRECT_BASE + info.window_table as usize);
    ALLOCATOR.window_pages.set(info.window_limit as usize / FRAME_SIZE);
    ALLOCATOR.limit_pages.set((info.ram_limit / FRAME_SIZE as u64) as u32);
    ALLOCATOR.scarce_pages.set(RESERVE_LEAST.max(ALLOCATOR.limit_pages.get() / RESERVE_SHARE));
    let first = info.free_start.div_ceil(FRAME_SIZE as u64) as u32;
    for i in 0..first {
        ALLOCATOR.meta(i).set_state(STATE_USED);
    }
    ALLOCATOR.add(first, (info.ram_bytes / FRAME_SIZE as u64) as u32);
}

/// Takes 2^order contiguous frames, asking the monitor for more RAM if needed; guest-physical
/// address. Not counted: the caller owns them.
pub(crate) fn take_block(order: usize) -> Option<u64> {
    take_any(order).map(|(gpa, _)| gpa)
}

/// As [`take_block`], and whether the 2 MiB that the block begins in were never used before.
fn take_any(order: usize) -> Option<(u64, bool)> {
    if order > MAX_ORDER {
        return None;
    }
    loop {
        if let Some((index, fresh)) = ALLOCATOR.take(order) {
            return Some((u64::from(index) * FRAME_SIZE as u64, fresh));
        }
        let old = ALLOCATOR.pages.get();
        // New RAM begins anywhere: twice the size holds an aligned block.
        let wanted = ((2usize << order) * FRAME_SIZE) as u64;
        let reply = crate::ring::call_now(Op::GrowRam, [wanted, 0, 0, 0, 0, 0])?;
        let end = ((reply[0] / FRAME_SIZE as u64) as u32).min(ALLOCATOR.limit_pages.get());
        if end <= old {
            return None;
        }
        ALLOCATOR.add(old, end);
    }
}

/// Gives a block from [`take_block`] back.
pub(crate) fn give_block(gpa: u64, order: usize) {
    ALLOCATOR.give((gpa / FRAME_SIZE as u64) as u32, order);
}

/// RAM bytes: existing, free, limit.
pub(crate) fn usage() -> [u64; 3] {
    [ALLOCATOR.pages.get(), ALLOCATOR.free_pages.get(), ALLOCATOR.limit_pages.get()]
        .map(|p| u64::from(p) * FRAME_SIZE as u64)
}

/// Whether what is reserved for keel has to be used: what programs can make any number of must be refused.
pub fn is_scarce() -> bool {
    ALLOCATOR.left() < ALLOCATOR.scarce_pages.get()
}

/// Whether three quarters of it are used: a process has to end.
pub fn is_critical() -> bool {
    ALLOCATOR.left() < ALLOCATOR.scarce_pages.get() / 4
}

/// Whether there is memory for programs' pages and tables beyond what they leave to the heap, if necessary after that
/// gave back what it does not use.
pub(crate) fn has_for_programs() -> bool {
    let has = || ALLOCATOR.left() >= ALLOCATOR.scarce_pages.get() / 2;
    has() || crate::heap::trim() > 0 && has()
}

/// The count of references of a RAM frame that the heap owns, for its own use: 0 when it is given back.
pub(crate) fn heap_mark(gpa: u64) -> &'static Cell<u32> {
    &ALLOCATOR.meta((gpa / FRAME_SIZE as u64) as u32).refs
}

/// Order of the blocks behind large pages: 2 MiB.
const LARGE_ORDER: usize = 9;

/// 2 MiB of RAM in one aligned piece, not counted: for a large page.
#[derive(Debug)]
pub struct LargeFrame(u64);

impl LargeFrame {
    /// A large frame of zeros; `None` when there is no such piece of memory.
    pub fn alloc_zeroed() -> Option<Self> {
        let (gpa, fresh) = take_any(LARGE_ORDER)?;
        if !fresh {
            // SAFETY: the block was just taken: nobody else uses it, and the direct map covers RAM.
            unsafe { core::ptr::write_bytes((DIRECT_BASE + gpa as usize) as *mut u8, 0, FRAME_SIZE << LARGE_ORDER) };
        }
        Some(Self(gpa))
    }

    /// Gives up the handle: every one of the 512 frames now has one reference, held by a page table entry.
    pub(crate) fn into_entry(self) -> u64 {
        let gpa = self.0;
        core::mem::forget(self);
        for i in 0..1 << LARGE_ORDER {
            ALLOCATOR.meta((gpa / FRAME_SIZE as u64) as u32 + i).refs.set(1);
        }
        gpa
    }
}

impl Drop for LargeFrame {
    fn drop(&mut self) {
        give_block(self.0, LARGE_ORDER);
    }
}

/// A counted 4 KiB frame of RAM or of the window. Cloning adds a reference, dropping takes one;
/// the last one gives RAM back to the allocator (window pages become reclaimable).
#[derive(Debug)]
pub struct Frame(u64);

impl Clone for Frame {
    fn clone(&self) -> Self {
        let refs = self.counter();
        refs.set(refs.get() + 1);
        Self(self.0)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let refs = self.counter();
        let left = refs.get() - 1;
        refs.set(left);
        if left == 0 && self.0 < WINDOW_BASE as u64 {
            ALLOCATOR.give((self.0 / FRAME_SIZE as u64) as u32, 0);
        }
    }
}

impl Frame {
    fn counter(&self) -> &'static Cell<u32> {
        if self.0 >= WINDOW_BASE as u64 {
            ALLOCATOR.window_refs((self.0 as usize - WINDOW_BASE) / FRAME_SIZE)
        } else {
            &ALLOCATOR.meta((self.0 / FRAME_SIZE as u64) as u32).refs
        }
    }

    /// Virtual address in the direct map.
    pub(crate) fn address(&self) -> usize {
        DIRECT_BASE + self.0 as usize
    }

    /// A frame with any content; `None` when the pod's memory is used up but for keel's reserve.
    pub fn alloc() -> Option<Self> {
        if !has_for_programs() {
            return None;
        }
        let frame = Self(take_block(0)?);
        frame.counter().set(1);
        Some(frame)
    }

    /// A frame of zeros; `None` when memory is used up.
    pub fn alloc_zeroed() -> Option<Self> {
        let frame = Self::alloc()?;
        frame.zero(0, FRAME_SIZE);
        Some(frame)
    }

    /// A handle on a window page (DAX), by guest-physical address.
    ///
    /// Panics if the address isn't in the window: the window manager made it up.
    pub fn from_window(gpa: u64) -> Self {
        let page = (gpa as usize).checked_sub(WINDOW_BASE).map(|offset| offset / FRAME_SIZE);
        assert!(page.is_some_and(|page| page < ALLOCATOR.window_pages.get()) && gpa.is_multiple_of(FRAME_SIZE as u64));
        let frame = Self(gpa);
        let refs = frame.counter();
        refs.set(refs.get() + 1);
        frame
    }

    /// From the address in a present page table entry, taking over the entry's reference.
    pub(crate) fn from_entry(gpa: u64) -> Self {
        Self(gpa)
    }

    /// Gives up the handle without dropping the reference: a page table entry holds it now.
    pub(crate) fn into_entry(self) -> u64 {
        let gpa = self.0;
        core::mem::forget(self);
        gpa
    }

    /// Handles and mappings that hold this frame.
    pub fn refs(&self) -> usize {
        self.counter().get() as usize
    }

    /// Guest-physical address.
    pub fn gpa(&self) -> u64 {
        self.0
    }

    fn check(offset: usize, len: usize) {
        assert!(offset <= FRAME_SIZE && len <= FRAME_SIZE - offset, "beyond the end of a frame");
    }

    /// Copies out of the frame. Panics beyond its end.
    pub fn read(&self, offset: usize, dst: &mut [u8]) {
        Self::check(offset, dst.len());
        // SAFETY: the frame is mapped in the direct map as long as this handle lives, the bounds
        // were checked, and `dst` is keel memory that no frame handle covers.
        unsafe { core::ptr::copy_nonoverlapping((self.address() + offset) as *const u8, dst.as_mut_ptr(), dst.len()) }
    }

    /// Copies into the frame. Panics beyond its end.
    pub fn write(&self, offset: usize, src: &[u8]) {
        Self::check(offset, src.len());
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(src.as_ptr(), (self.address() + offset) as *mut u8, src.len()) }
    }

    /// Zeroes a part. Panics beyond its end.
    pub fn zero(&self, offset: usize, len: usize) {
        Self::check(offset, len);
        // SAFETY: as in `read`.
        unsafe { core::ptr::write_bytes((self.address() + offset) as *mut u8, 0, len) }
    }

    /// Copies a whole frame.
    pub fn copy_from(&self, other: &Self) {
        if self.0 != other.0 {
            // SAFETY: as in `read`; the two frames are different, so they don't overlap.
            unsafe {
                core::ptr::copy_nonoverlapping(other.address() as *const u8, self.address() as *mut u8, FRAME_SIZE)
            }
        }
    }

    /// Same frame?
    pub fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

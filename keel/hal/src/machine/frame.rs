//! Refcounted frames of RAM and of the window.
#![allow(unsafe_code)]

use crate::buddy::{self, LARGE_ORDER, Use, give_block, has_for_programs, take_any, take_frame};
/// Bytes of a frame.
pub const FRAME_SIZE: usize = abi::layout::PAGE_SIZE;

use crate::direct_map;
use crate::mem::{keel_copy_shared, keel_fill_shared};
use crate::sync::Count;
use abi::layout::WINDOW_BASE;

pub use crate::buddy::{
    KEPT_PIECES, RamUsage, Unused, give_kept, is_critical, is_scarce, is_short, is_small, least_unused, ram_usage,
    take_unused, unused,
};

/// 2 MiB of RAM, aligned and not refcounted: for a large page.
#[derive(Debug)]
pub struct LargeFrame(u64);

impl LargeFrame {
    /// Allocates a zeroed large frame; `None` if there is no such block.
    pub fn alloc_zeroed() -> Option<Self> {
        let (gpa, fresh) = take_any(LARGE_ORDER, Use::Program)?;
        if !fresh {
            // SAFETY: the block was just allocated and has no other user, and the direct map covers RAM.
            unsafe { core::ptr::write_bytes(direct_map::address(gpa) as *mut u8, 0, FRAME_SIZE << LARGE_ORDER) };
        }
        Some(Self(gpa))
    }

    /// Converts the handle to a page table entry: each of the 512 frames now has one reference, held by the entry.
    pub(crate) fn into_entry(self) -> u64 {
        let gpa = self.0;
        core::mem::forget(self);
        for i in 0..1 << LARGE_ORDER {
            buddy::refs(gpa + i * FRAME_SIZE as u64).set(1);
        }
        gpa
    }
}

impl Drop for LargeFrame {
    fn drop(&mut self) {
        give_block(self.0, LARGE_ORDER);
    }
}

/// A refcounted 4 KiB frame of RAM or of the window. The last reference frees RAM (or makes a window page reclaimable).
#[derive(Debug)]
pub struct Frame(u64);

impl Clone for Frame {
    fn clone(&self) -> Self {
        self.counter().add();
        Self(self.0)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.counter().remove() && self.0 < WINDOW_BASE as u64 {
            give_block(self.0, 0);
        }
    }
}

impl Frame {
    fn counter(&self) -> &'static Count {
        if self.0 >= WINDOW_BASE as u64 {
            buddy::window_refs((self.0 as usize - WINDOW_BASE) / FRAME_SIZE)
        } else {
            buddy::refs(self.0)
        }
    }

    /// Virtual address in the direct map.
    pub(crate) fn address(&self) -> usize {
        direct_map::address(self.0)
    }

    /// Allocates a frame with undefined content; `None` if only keel's reserve is left.
    pub fn alloc() -> Option<Self> {
        if !has_for_programs() {
            return None;
        }
        let frame = Self(take_frame()?);
        frame.counter().set(1);
        Some(frame)
    }

    /// Allocates a zeroed frame; `None` if out of memory.
    pub fn alloc_zeroed() -> Option<Self> {
        let frame = Self::alloc()?;
        frame.zero(0, FRAME_SIZE);
        Some(frame)
    }

    /// The window has grown from `start` to `end` (guest-physical): its pages may be used.
    pub fn window_has_grown(start: u64, end: u64) {
        direct_map::extend(start, end);
    }

    /// A handle on a window page (DAX), by guest-physical address.
    ///
    /// Panics if the address isn't in the window: the window manager passed a wrong one.
    pub fn from_window(gpa: u64) -> Self {
        let page = (gpa as usize).checked_sub(WINDOW_BASE).map(|offset| offset / FRAME_SIZE);
        assert!(page.is_some_and(|page| page < buddy::window_pages()) && gpa.is_multiple_of(FRAME_SIZE as u64));
        let frame = Self(gpa);
        frame.counter().add();
        frame
    }

    /// Takes over the reference of a page table entry.
    ///
    /// # Safety
    /// The entry's reference is transferred.
    pub(crate) unsafe fn from_entry(gpa: u64) -> Self {
        Self(gpa)
    }

    /// Transfers the reference to a page table entry.
    pub(crate) fn into_entry(self) -> u64 {
        let gpa = self.0;
        core::mem::forget(self);
        gpa
    }

    /// Number of handles and mappings of this frame. Dropped ones have accessed it for the last time.
    pub fn refs(&self) -> usize {
        let refs = self.counter().get() as usize;
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        refs
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
        // were checked, and `dst` is keel memory that no frame handle covers. Programs may change the frame meanwhile.
        unsafe { keel_copy_shared(dst.as_mut_ptr(), (self.address() + offset) as *const u8, dst.len()) };
    }

    /// Copies into the frame. Panics beyond its end.
    pub fn write(&self, offset: usize, src: &[u8]) {
        Self::check(offset, src.len());
        // SAFETY: as in `read`.
        unsafe { keel_copy_shared((self.address() + offset) as *mut u8, src.as_ptr(), src.len()) };
    }

    /// Zeroes a part. Panics beyond its end.
    pub fn zero(&self, offset: usize, len: usize) {
        Self::check(offset, len);
        // SAFETY: as in `read`.
        unsafe { keel_fill_shared((self.address() + offset) as *mut u8, 0, len) };
    }

    /// Copies a whole frame.
    pub fn copy_from(&self, other: &Self) {
        if self.0 != other.0 {
            // SAFETY: as in `read`; the two frames are different, so they don't overlap.
            unsafe { keel_copy_shared(self.address() as *mut u8, other.address() as *const u8, FRAME_SIZE) };
        }
    }

    /// Same frame?
    pub fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

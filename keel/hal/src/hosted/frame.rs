//! Counted frames on the host's heap.

use core::cell::RefCell;
use std::boxed::Box;
use std::rc::Rc;

/// Bytes of a frame.
pub const FRAME_SIZE: usize = abi::layout::PAGE_SIZE;

/// Whether memory is nearly used up; see the guest's variant.
pub fn is_scarce() -> bool {
    false
}

/// A counted frame; see the guest's variant for the contract.
#[derive(Clone, Debug)]
pub struct Frame(Rc<RefCell<Box<[u8; FRAME_SIZE]>>>);

impl Frame {
    /// A frame of zeros; `None` when memory is used up.
    pub fn alloc_zeroed() -> Option<Self> {
        Some(Self(Rc::new(RefCell::new(Box::new([0; FRAME_SIZE])))))
    }
    /// A frame with any content; `None` when memory is used up.
    pub fn alloc() -> Option<Self> {
        Self::alloc_zeroed()
    }
    /// Handles and mappings that hold this frame.
    pub fn refs(&self) -> usize {
        Rc::strong_count(&self.0)
    }
    /// Copies out of the frame. Panics beyond its end.
    pub fn read(&self, offset: usize, dst: &mut [u8]) {
        dst.copy_from_slice(&self.0.borrow()[offset..offset + dst.len()]);
    }
    /// Copies into the frame. Panics beyond its end.
    pub fn write(&self, offset: usize, src: &[u8]) {
        self.0.borrow_mut()[offset..offset + src.len()].copy_from_slice(src);
    }
    /// Zeroes a part. Panics beyond its end.
    pub fn zero(&self, offset: usize, len: usize) {
        self.0.borrow_mut()[offset..offset + len].fill(0);
    }
    /// Copies a whole frame.
    pub fn copy_from(&self, other: &Self) {
        if !Rc::ptr_eq(&self.0, &other.0) {
            self.0.borrow_mut().copy_from_slice(&other.0.borrow()[..]);
        }
    }
    /// Same frame?
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

//! Frames of the virtual machine's memory.

/// A counted 4 KiB frame of RAM or of the window. Cloning adds a reference, dropping takes one;
/// the last one gives RAM back to the allocator (window pages become reclaimable).
#[derive(Debug)]
pub struct Frame {
    _todo: (),
}

impl Clone for Frame {
    fn clone(&self) -> Self { todo!() }
}

impl Frame {
    /// A frame of zeros; `None` when the pod's memory is used up.
    pub fn alloc_zeroed() -> Option<Self> { todo!() }
    /// A frame with any content; `None` when memory is used up.
    pub fn alloc() -> Option<Self> { todo!() }
    /// A handle on a window page (DAX), by guest-physical address.
    pub fn from_window(_gpa: u64) -> Self { todo!() }
    /// Handles and mappings that hold this frame.
    pub fn refs(&self) -> usize { todo!() }
    /// Guest-physical address.
    pub fn gpa(&self) -> u64 { todo!() }
    /// Copies out of the frame. Panics beyond its end.
    pub fn read(&self, _offset: usize, _dst: &mut [u8]) { todo!() }
    /// Copies into the frame. Panics beyond its end.
    pub fn write(&self, _offset: usize, _src: &[u8]) { todo!() }
    /// Zeroes a part. Panics beyond its end.
    pub fn zero(&self, _offset: usize, _len: usize) { todo!() }
    /// Copies a whole frame.
    pub fn copy_from(&self, _other: &Self) { todo!() }
    /// Same frame?
    pub fn same(&self, _other: &Self) -> bool { todo!() }
}

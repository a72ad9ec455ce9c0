//! Raw access to program memory of the active address space.
//!
//! Nothing here resolves a fault: the access stops, reports the address, and the caller (which
//! holds no borrows) resolves it and tries again. Addresses are checked against
//! [`abi::layout::USER_TOP`].

/// An access that a page fault stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Address that is not accessible now.
    pub address: usize,
    /// Bytes done before.
    pub done: usize,
}

/// Copies from the program.
pub fn copy_in(_dst: &mut [u8], _src: usize) -> Result<(), Stopped> { todo!() }

/// Copies to the program.
pub fn copy_out(_dst: usize, _src: &[u8]) -> Result<(), Stopped> { todo!() }

/// Zeroes program memory.
pub fn clear(_dst: usize, _len: usize) -> Result<(), Stopped> { todo!() }

/// Copies from a frame to the program.
pub fn copy_frame_out(_dst: usize, _frame: &crate::frame::Frame, _offset: usize, _len: usize) -> Result<(), Stopped> { todo!() }

/// Copies from the program into a frame.
pub fn copy_frame_in(_frame: &crate::frame::Frame, _offset: usize, _src: usize, _len: usize) -> Result<(), Stopped> { todo!() }

/// Copies a string that ends in a zero byte, at most `dst.len()` bytes: `Ok(Some(n))` with the
/// terminator at `dst[n]`, `Ok(None)` if there was none in `dst.len()` bytes.
pub fn copy_in_str(_dst: &mut [u8], _src: usize) -> Result<Option<usize>, Stopped> { todo!() }

/// Reads an aligned 32-bit word atomically.
pub fn load_u32(_addr: usize) -> Result<u32, Stopped> { todo!() }

/// Compare and exchange of an aligned 32-bit word: the value before; written if it was `old`.
pub fn cmpxchg_u32(_addr: usize, _old: u32, _new: u32) -> Result<u32, Stopped> { todo!() }

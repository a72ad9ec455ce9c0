//! Raw access to program memory of the active address space.
//!
//! The functions do not resolve faults: the access ends, returns the address, and the caller (which holds no borrows)
//! resolves the fault and repeats it. Addresses are checked against [`abi::layout::USER_TOP`].
#![allow(unsafe_code)]

use crate::frame::{FRAME_SIZE, Frame};
use crate::percpu::fault_address;
use crate::user_copy::{keel_user_clear, keel_user_cmpxchg, keel_user_copy_in, keel_user_copy_out};
use crate::user_copy::{keel_user_load, keel_user_string};
use abi::layout::USER_TOP;

/// An access that a page fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Faulting address.
    pub address: usize,
    /// Bytes done before the fault.
    pub done: usize,
}

#[inline(always)]
fn check(address: usize, len: usize) -> Result<(), Stopped> {
    if address <= USER_TOP && len <= USER_TOP - address {
        return Ok(());
    }
    Err(Stopped { address: address.max(USER_TOP), done: 0 })
}

#[cold]
fn stopped(left: usize, len: usize) -> Stopped {
    Stopped { address: fault_address(), done: len - left }
}

#[inline(always)]
fn outcome(left: usize, len: usize) -> Result<(), Stopped> {
    if left == 0 { Ok(()) } else { Err(stopped(left, len)) }
}

/// Copies from the program to keel's memory at `to`.
#[inline(always)]
fn raw_in(to: usize, from: usize, len: usize) -> Result<(), Stopped> {
    // SAFETY: the program side was checked to lie below keel; a fault there ends the routine. The
    // keel side is valid for `len` bytes by the callers' slices and frames.
    outcome(unsafe { keel_user_copy_in(to, from, len) }, len)
}

/// Copies to the program from keel's memory at `from`.
#[inline(always)]
fn raw_out(to: usize, from: usize, len: usize) -> Result<(), Stopped> {
    // SAFETY: as in `raw_in`.
    outcome(unsafe { keel_user_copy_out(to, from, len) }, len)
}

/// Copies from the program.
#[inline]
pub fn copy_in(dst: &mut [u8], src: usize) -> Result<(), Stopped> {
    check(src, dst.len())?;
    raw_in(dst.as_mut_ptr() as usize, src, dst.len())
}

/// Copies to the program.
#[inline]
pub fn copy_out(dst: usize, src: &[u8]) -> Result<(), Stopped> {
    check(dst, src.len())?;
    raw_out(dst, src.as_ptr() as usize, src.len())
}

/// Copies a value from the program; all bit patterns of `T` are valid.
#[inline]
pub fn copy_in_value<T: uapi::UserAbi>(src: usize) -> Result<T, Stopped> {
    check(src, size_of::<T>())?;
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    raw_in(value.as_mut_ptr() as usize, src, size_of::<T>())?;
    // SAFETY: every byte was written, and `UserAbi` types accept any bytes.
    Ok(unsafe { value.assume_init() })
}

/// Copies a value to the program.
#[inline]
pub fn copy_out_value<T: uapi::UserAbi>(dst: usize, value: &T) -> Result<(), Stopped> {
    check(dst, size_of::<T>())?;
    raw_out(dst, core::ptr::from_ref(value) as usize, size_of::<T>())
}

/// Zeroes program memory.
pub fn clear(dst: usize, len: usize) -> Result<(), Stopped> {
    check(dst, len)?;
    // SAFETY: as in `raw_in`.
    outcome(unsafe { keel_user_clear(dst, 0, len) }, len)
}

/// Copies from a frame to the program. Panics beyond the frame's end.
pub fn copy_frame_out(dst: usize, frame: &Frame, offset: usize, len: usize) -> Result<(), Stopped> {
    assert!(offset <= FRAME_SIZE && len <= FRAME_SIZE - offset);
    check(dst, len)?;
    raw_out(dst, frame.address() + offset, len)
}

/// Copies from the program into a frame. Panics beyond the frame's end.
pub fn copy_frame_in(frame: &Frame, offset: usize, src: usize, len: usize) -> Result<(), Stopped> {
    assert!(offset <= FRAME_SIZE && len <= FRAME_SIZE - offset);
    check(src, len)?;
    raw_in(frame.address() + offset, src, len)
}

/// Copies a string that ends in a zero byte, at most `dst.len()` bytes: `Ok(Some(n))` with the
/// terminator at `dst[n]`, `Ok(None)` if there was none in `dst.len()` bytes.
pub fn copy_in_str(dst: &mut [u8], src: usize) -> Result<Option<usize>, Stopped> {
    check(src, 0)?;
    let room = dst.len().min(USER_TOP - src);
    // SAFETY: as in `raw_in`; `room` bounds both sides.
    let left = unsafe { keel_user_string(dst.as_mut_ptr(), src, room) };
    if left != 0 {
        return Err(stopped(left, room));
    }
    match dst[..room].iter().position(|b| *b == 0) {
        Some(n) => Ok(Some(n)),
        None if room < dst.len() => Err(Stopped { address: USER_TOP, done: room }),
        None => Ok(None),
    }
}

/// Reads an aligned 32-bit word atomically.
pub fn load_u32(addr: usize) -> Result<u32, Stopped> {
    check(addr, 4)?;
    let mut value = 0;
    // SAFETY: as in `raw_in`; the result is written to a local.
    if unsafe { keel_user_load(addr, &raw mut value) } == 0 { Ok(value) } else { Err(stopped(0, 0)) }
}

/// Compare-and-exchange of an aligned 32-bit word: returns the old value; writes if it was `old`.
pub fn cmpxchg_u32(addr: usize, old: u32, new: u32) -> Result<u32, Stopped> {
    check(addr, 4)?;
    let mut value = 0;
    // SAFETY: as in `raw_in`; the result is written to a local.
    if unsafe { keel_user_cmpxchg(addr, &raw mut value, old, 0, new) } == 0 { Ok(value) } else { Err(stopped(0, 0)) }
}

//! Copies of memory that programs access.
#![allow(unsafe_code)]

/// Copies `len` bytes; the two do not overlap.
///
/// # Safety
/// Both are valid for `len` bytes.
pub(crate) unsafe fn keel_copy_shared(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: guaranteed by the caller. Programs run on the same host thread, so there is no concurrent change.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
}

/// Sets `len` bytes to one value.
///
/// # Safety
/// The memory is valid for `len` bytes.
pub(crate) unsafe fn keel_fill_shared(to: *mut u8, byte: i32, len: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { core::ptr::write_bytes(to, byte as u8, len) };
}

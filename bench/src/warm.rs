//! Warms up memory of the machine.
//!
//! If the host is a virtual machine whose memory is populated on demand, a page that it has not used for long costs ten
//! times as much as others. The first side to run would pay for that.
#![allow(unsafe_code)]

use std::ptr::null_mut;

/// Bytes to touch before a program that needs much memory: more than it needs.
const BYTES: usize = 256 << 20;
const PAGE: usize = 4096;

/// Touches memory of the host, on huge pages if possible, and frees it. Does nothing if the host has less memory.
pub fn memory() {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping without other users; it is written within its bounds and unmapped again.
    unsafe {
        let start = libc::mmap(null_mut(), BYTES, prot, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return;
        }
        libc::madvise(start, BYTES, libc::MADV_HUGEPAGE);
        for offset in (0..BYTES).step_by(PAGE) {
            start.cast::<u8>().add(offset).write_volatile(1);
        }
        libc::munmap(start, BYTES);
    }
}

//! Memory that is new to the machine.
//!
//! Where the host is a virtual machine that gets memory on demand, a page that it has not used for long costs ten times what it
//! costs otherwise. The first user would pay that, the host's program or the pod.
#![allow(unsafe_code)]

use std::ptr::null_mut;

/// Bytes that are used before a program which needs much: more than it needs.
const BYTES: usize = 256 << 20;
const PAGE: usize = 4096;

/// Has the host use memory, on large pages as far as it has them, and gives it back. A host that has not so much goes without.
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

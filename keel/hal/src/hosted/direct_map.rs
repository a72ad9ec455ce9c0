//! RAM: a mapping of the process, created at the first use.
#![allow(unsafe_code)]

use super::boot;
use abi::boot::BootInfo;
use abi::layout::{BOOT_INFO, PAGE_SIZE};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Once;

/// Maximum RAM of the machine. The host populates it at the first touch.
pub(super) const RAM_LIMIT: u64 = 1 << 30;
/// RAM at boot; the rest is added by request.
const RAM_AT_BOOT: u64 = 64 << 20;
/// Bytes of the frame table for each page.
const FRAME_ENTRY: u64 = 16;
/// Guest-physical address of the frame table, after the address of keel's image.
const FRAME_TABLE: u64 = abi::layout::KEEL_IMAGE as u64;
/// Start of the memory for tables, after the root of the boot tables.
const LOW_START: u64 = (abi::layout::BOOT_TABLES + PAGE_SIZE) as u64;

static BASE: AtomicUsize = AtomicUsize::new(0);

/// Creates RAM at the first call, with the tables of the frame allocator and the boot information.
pub(crate) fn prepare() {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        // SAFETY: a new private mapping, at an address of the host's choice.
        let area = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                RAM_LIMIT as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert!(area != libc::MAP_FAILED, "the host has no address space for the machine's memory");
        BASE.store(area as usize, Relaxed);
        let info = boot::info(FRAME_TABLE, LOW_START, FRAME_TABLE + RAM_LIMIT / PAGE_SIZE as u64 * FRAME_ENTRY);
        // SAFETY: the place is in the mapping, is aligned, and has no reader yet.
        unsafe { (address(BOOT_INFO as u64) as *mut BootInfo).write(BootInfo { ram_bytes: RAM_AT_BOOT, ..info }) };
        crate::buddy::init(boot::boot_info());
        crate::clock::init(boot::boot_info());
    });
}

/// RAM has grown. Does nothing: all of it is mapped.
pub(crate) const fn extend(_start: u64, _end: u64) {}

fn base() -> usize {
    match BASE.load(Relaxed) {
        0 => {
            prepare();
            BASE.load(Relaxed)
        }
        base => base,
    }
}

/// The address of a byte of guest-physical memory; other memory of the process also has such an address, beyond the
/// limit.
pub(crate) fn address(gpa: u64) -> usize {
    base().wrapping_add(gpa as usize)
}

/// The guest-physical address of a byte of the process.
pub(crate) fn gpa(address: usize) -> u64 {
    address.wrapping_sub(base()) as u64
}

//! From the first instruction to the kernel's boot hook; boot information.
#![allow(unsafe_code)]

use crate::direct_map;
use abi::boot::{BootInfo, MAGIC, flags};
use abi::layout::BOOT_INFO;

fn info() -> &'static BootInfo {
    // SAFETY: the monitor wrote the structure before the first instruction and never again.
    unsafe { &*(direct_map::address(BOOT_INFO as u64) as *const BootInfo) }
}

pub(crate) extern "C" fn rust_boot() -> ! {
    let info = info();
    crate::init_cpu(0);
    if info.magic != MAGIC || info.version != abi::VERSION {
        crate::doorbell::panic();
    }
    crate::ring::init(info.flags);
    crate::buddy::init(info);
    crate::clock::init(info);
    crate::fpu::init(info.xcr0);
    (crate::hooks::KEEL_HOOKS.boot)(info)
}

/// The boot information.
pub fn boot_info() -> &'static BootInfo {
    info()
}

/// The serialised pod configuration.
pub fn config() -> &'static [u8] {
    let info = info();
    // SAFETY: the monitor placed the configuration there and reserved it (below `free_start`).
    unsafe { core::slice::from_raw_parts(direct_map::address(info.config_gpa) as *const u8, info.config_len as usize) }
}

/// Overflows the stack.
#[expect(unconditional_recursion, reason = "that is what it is for")]
fn deeper(depth: usize) -> usize {
    core::hint::black_box(deeper(core::hint::black_box(depth) + 1)) + 1
}

/// Fails if the monitor requested that at boot, to test reports. Programs can't request it.
pub fn fail_if_asked() {
    if info().flags & flags::FAIL_PANIC != 0 {
        panic!("as --fail-keel asks");
    }
    if info().flags & flags::FAIL_FAULT != 0 {
        crate::instructions::raise_undefined();
    }
    if info().flags & flags::FAIL_STACK != 0 {
        deeper(0);
    }
}

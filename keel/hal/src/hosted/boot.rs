//! The boot information, in place of the monitor's.
#![allow(unsafe_code)]

use super::direct_map::{self, RAM_LIMIT};
use abi::boot::{BootInfo, MAGIC, flags};
use abi::layout::BOOT_INFO;
use std::sync::OnceLock;

/// `CLOCK_REALTIME` at the machine's start, in ns: early in 2026.
const REALTIME_NS: u64 = 1_770_000_000_000_000_000;
/// `CLOCK_MONOTONIC` then.
const MONOTONIC_NS: u64 = 1_000_000_000;

static CONFIG: OnceLock<std::vec::Vec<u8>> = OnceLock::new();

/// The boot information of a machine with a frame table, tables and free memory at these addresses.
pub(super) fn info(frame_table: u64, low_start: u64, free_start: u64) -> BootInfo {
    BootInfo {
        magic: MAGIC,
        version: abi::VERSION,
        cpus: 1,
        ram_bytes: 0,
        ram_limit: RAM_LIMIT,
        free_start,
        low_start,
        low_end: abi::layout::KEEL_IMAGE as u64,
        frame_table,
        window_table: 0,
        window_limit: 0,
        config_gpa: 0,
        config_len: 0,
        tsc_khz: 1_000_000,
        tsc_base: 0,
        monotonic_base_ns: MONOTONIC_NS,
        realtime_base_ns: REALTIME_NS,
        boottime_base_ns: MONOTONIC_NS,
        seed: [7; 64],
        xcr0: super::instructions::extended_control(),
        flags: flags::NO_WINDOW | flags::TRAP_ONLY,
        processors: 1,
        reserved: 0,
    }
}

/// The boot information.
pub fn boot_info() -> &'static BootInfo {
    let place = direct_map::address(BOOT_INFO as u64) as *const BootInfo;
    // SAFETY: `direct_map::prepare` wrote it before the first use, and it does not change.
    unsafe { &*place }
}

/// The serialised pod configuration; empty before the harness boots a kernel.
pub fn config() -> &'static [u8] {
    CONFIG.get().map_or(&[], |config| config)
}

pub(super) fn set_config(config: std::vec::Vec<u8>) {
    assert!(CONFIG.set(config).is_ok(), "a machine boots once");
}

/// Reports are tested in pods.
pub fn fail_if_asked() {}

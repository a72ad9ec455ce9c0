//! Single instructions of the simulated processor.
#![allow(unsafe_code)]

use crate::cell::Global;
use core::cell::Cell;

/// Ticks, in ns, per reading of the counter.
const TICKS: u64 = 100;

std::thread_local! {
    /// The counter. Each host thread has its own, because unit tests run in parallel and advance time; the thread in
    /// the machine uses the machine's.
    static COUNTER: Cell<u64> = const { Cell::new(0) };
}

/// Base of the FS segment, in the machine.
static FS_BASE: Global<Cell<u64>> = Global::new(Cell::new(0));

/// The counter, in ns. Each reading advances it.
pub(crate) fn counter() -> u64 {
    COUNTER.with(|counter| {
        counter.set(counter.get() + TICKS);
        counter.get()
    })
}

/// Sets the counter, which must not go backwards.
pub(super) fn set_counter(ticks: u64) {
    COUNTER.with(|counter| counter.set(ticks.max(counter.get())));
}

/// Sets the base of the FS segment, the thread pointer of programs.
pub(crate) fn set_fs_base(base: u64) {
    FS_BASE.set(base);
}

/// The base of the FS segment.
pub(crate) fn fs_base() -> u64 {
    FS_BASE.get()
}

/// XCR0 of the host: extended registers are saved and loaded in the real processor.
pub(super) fn extended_control() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: XGETBV of register 0 is available if the host's kernel uses XSAVE, which Hull requires.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

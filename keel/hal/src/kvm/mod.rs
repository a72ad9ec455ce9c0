//! The platform: a virtual machine of KVM, and the monitor beside it.

pub mod boot;
pub(crate) mod direct_map;
pub(crate) mod doorbell;
mod own_pages;
pub(crate) mod stacks;

/// Waits a moment for another virtual CPU, which the host may have descheduled. `round` counts the moments.
pub(crate) fn relax(round: &mut u32) {
    /// Rounds of spinning before the host is asked to run others: some 50 us, as the exit costs half of that, and a virtual
    /// CPU seldom lacks a processor (`BootInfo::processors`).
    const ROUNDS: u32 = 1200;
    *round += 1;
    if round.is_multiple_of(ROUNDS) {
        doorbell::yield_now();
    } else {
        core::hint::spin_loop();
    }
}

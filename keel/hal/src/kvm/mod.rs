//! The platform: a KVM virtual machine, with the monitor.

pub mod boot;
pub(crate) mod direct_map;
pub(crate) mod doorbell;
mod own_pages;
pub(crate) mod stacks;

/// Spins for another virtual CPU, which the host may have preempted. `round` counts the rounds.
pub(crate) fn relax(round: &mut u32) {
    /// Rounds of spinning before keel yields the host's processor: some 50 us, because the exit costs half of that, and
    /// a virtual CPU seldom lacks a processor (`BootInfo::processors`).
    const ROUNDS: u32 = 1200;
    *round += 1;
    if round.is_multiple_of(ROUNDS) {
        doorbell::yield_now();
    } else {
        core::hint::spin_loop();
    }
}

//! The platform of unit tests: a simulated machine in a process of the host.
//!
//! RAM is a mapping of the process. Page tables are those that keel writes for the processor; a software MMU walks them
//! and caches translations until keel invalidates them. Time is a counter that advances at each reading and when the
//! machine idles, so that it is deterministic. Programs are functions of the test that run on the kernel stacks of
//! their threads and enter keel through a gate function ([`harness::Cpu`]). The machine has one virtual CPU; a test of
//! keel's kernel lets one host thread at a time use it ([`harness::Machine`]).
//!
//! Frames, time, locks and refcounts also work without a kernel, for any number of host threads: for the unit tests of
//! the crates above.

#[cfg(not(loom))]
pub mod boot;
#[cfg(not(loom))]
pub(crate) mod direct_map;
#[cfg(not(loom))]
pub(crate) mod doorbell;
#[cfg(not(loom))]
pub(crate) mod gate;
#[cfg(not(loom))]
pub mod harness;
#[cfg(not(loom))]
pub(crate) mod instructions;
#[cfg(not(loom))]
pub(crate) mod mem;
#[cfg(not(loom))]
mod mmu;
#[cfg(not(loom))]
pub mod percpu;
#[cfg(not(loom))]
pub(crate) mod stacks;

#[cfg(not(loom))]
pub(crate) use mmu::{privileged, user_copy};
#[cfg(not(loom))]
pub(crate) use percpu::init_cpu;

/// Spins for another thread. `round` counts the rounds; locks here are held only briefly.
pub(crate) fn relax(round: &mut u32) {
    *round = round.wrapping_add(1);
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    {
        /// Corresponds to many seconds.
        const MOST: u32 = 50_000_000;
        assert!(*round < MOST, "a lock is never released");
        std::thread::yield_now();
    }
}

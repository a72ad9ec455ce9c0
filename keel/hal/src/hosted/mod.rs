//! The platform of unit tests: a simulated machine in a process of the host.
//!
//! RAM is an area of the process's memory. Page tables are those that keel writes for the processor; a memory management
//! unit in software walks them and keeps translations until keel invalidates them. Time is a counter that advances with each
//! reading and whenever the machine idles, so that it depends on nothing else. Programs are functions of the test that run on the
//! kernel stacks of their threads and enter keel through a gate that is a function ([`harness::Cpu`]). The machine has one
//! virtual CPU; whoever tests keel's kernel lets one thread of the host at a time into it ([`harness::Machine`]).
//!
//! Frames, time, locks and counts serve any number of threads of the host, without a kernel: the unit tests of the crates above.

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

/// Waits a moment for another thread. `round` counts the moments; nothing here holds a lock for long.
pub(crate) fn relax(round: &mut u32) {
    *round = round.wrapping_add(1);
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    {
        /// Many seconds.
        const MOST: u32 = 50_000_000;
        assert!(*round < MOST, "a lock is never released");
        std::thread::yield_now();
    }
}

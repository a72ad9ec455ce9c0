//! The contract: what a platform and a processor give, as re-exports of the ones that were chosen.
//!
//! Everything else in this crate and above it names them through here, so another platform or processor is a folder with the
//! same names, and a line in this file. `docs/platform.md` tells what each gives and what may be assumed of it.

#[cfg(feature = "hosted")]
use crate::hosted as platform;
#[cfg(not(feature = "hosted"))]
use crate::kvm as platform;
#[cfg(all(target_arch = "x86_64", not(loom)))]
use crate::x86_64 as processor;

// The ways in and out, and what reaches the processor's own tables: a simulated machine has none of a processor.
#[cfg(all(feature = "hosted", not(loom)))]
use crate::hosted as entry;
#[cfg(all(not(feature = "hosted"), target_arch = "x86_64"))]
use crate::x86_64 as entry;

// Waiting for another virtual CPU: all that loom's models need.
pub(crate) use platform::relax;

#[cfg(not(loom))]
pub use all::*;

#[cfg(not(loom))]
mod all {
    use super::{entry, platform, processor};

    // Every platform: what was handed over at the start, where memory lies, how the monitor is reached, stacks of threads.
    pub use platform::boot;
    pub(crate) use platform::{direct_map, doorbell, stacks};
    // Page frames, time and spaces: those of a machine with RAM, a counter and page tables.
    pub use crate::machine::{clock, frame, paging};

    // Every processor: what it says about itself, extended registers, registers of programs, switching stacks.
    pub use processor::{cpu, fpu};
    pub(crate) use processor::{switch, trap_frame};
    // Data of each virtual CPU, ways in and out, access to programs' memory.
    pub use entry::percpu;
    pub(crate) use entry::{gate, init_cpu, instructions, mem, user_copy};
    // For platforms whose guest has page tables of its own.
    pub(crate) use entry::privileged;
    pub(crate) use processor::page_table;

    // How a test runs a kernel.
    #[cfg(feature = "hosted")]
    pub use platform::harness;
}

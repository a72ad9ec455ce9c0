//! The contract: the interface of a platform and a processor, as re-exports of the selected ones.
//!
//! All other code in this crate and above it uses these names, so another platform or processor is a folder with the
//! same names, and a line in this file. `docs/platform.md` describes the names and their guarantees.

#[cfg(feature = "hosted")]
use crate::hosted as platform;
#[cfg(not(feature = "hosted"))]
use crate::kvm as platform;
#[cfg(all(target_arch = "x86_64", not(loom)))]
use crate::x86_64 as processor;

// Entry code and processor tables: the simulated machine has its own.
#[cfg(all(feature = "hosted", not(loom)))]
use crate::hosted as entry;
#[cfg(all(not(feature = "hosted"), target_arch = "x86_64"))]
use crate::x86_64 as entry;

// Spinning for another virtual CPU: all that loom's models need.
pub(crate) use platform::relax;

#[cfg(not(loom))]
pub use all::*;

#[cfg(not(loom))]
mod all {
    use super::{entry, platform, processor};

    // Every platform: boot information, memory layout, communication with the monitor, thread stacks.
    pub use platform::boot;
    pub(crate) use platform::{direct_map, doorbell, stacks};
    // Page frames, time and spaces, for machines with RAM, a counter and page tables.
    pub use crate::machine::{clock, frame, paging};

    // Every processor: identification, extended registers, program registers, stack switches.
    pub use processor::{cpu, fpu};
    pub(crate) use processor::{switch, trap_frame};
    // Per-CPU data, entry and return paths, access to program memory.
    pub use entry::percpu;
    pub(crate) use entry::{gate, init_cpu, instructions, mem, user_copy};
    // For platforms with guest page tables.
    pub(crate) use entry::privileged;
    pub(crate) use processor::page_table;

    // How a test runs a kernel.
    #[cfg(feature = "hosted")]
    pub use platform::harness;
}

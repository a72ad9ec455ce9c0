//! The contract: what a platform and a processor give, as re-exports of the ones that were chosen.
//!
//! Everything else in this crate and above it names them through here, so another platform or processor is a folder with the
//! same names, and a line in this file. `docs/platform.md` tells what each gives and what may be assumed of it.

#[cfg(feature = "hosted")]
use crate::hosted as platform;
#[cfg(not(feature = "hosted"))]
use crate::kvm as platform;
#[cfg(all(not(feature = "hosted"), target_arch = "x86_64"))]
use crate::x86_64 as processor;

// Every platform: time, page frames, and waiting for another virtual CPU.
pub(crate) use platform::relax;
pub use platform::{clock, frame};

// Every platform that runs programs: what was handed over at the start, and spaces.
#[cfg(not(feature = "hosted"))]
pub use platform::{boot, paging};
// Where memory lies, how the monitor is reached, stacks of threads.
#[cfg(not(feature = "hosted"))]
pub(crate) use platform::{direct_map, doorbell, stacks};

// Every processor: what it says about itself, extended registers, data of each virtual CPU.
#[cfg(not(feature = "hosted"))]
pub use processor::{cpu, fpu, percpu};
// Ways in and out, the registers of programs, access to their memory, switching stacks.
#[cfg(not(feature = "hosted"))]
pub(crate) use processor::{gate, init_cpu, instructions, mem, switch, trap_frame, user_copy};
// For platforms whose guest has page tables of its own.
#[cfg(not(feature = "hosted"))]
pub(crate) use processor::{page_table, privileged};

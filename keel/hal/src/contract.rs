//! The contract between the platform, the processor and what is above them.

#[cfg(feature = "hosted")]
use crate::hosted as platform;
#[cfg(not(feature = "hosted"))]
use crate::kvm as platform;
#[cfg(not(feature = "hosted"))]
use crate::x86_64 as processor;

pub(crate) use platform::relax;
#[cfg(not(feature = "hosted"))]
pub use platform::{boot, paging};
pub use platform::{clock, frame};
#[cfg(not(feature = "hosted"))]
pub(crate) use platform::{direct_map, doorbell, stacks};
#[cfg(not(feature = "hosted"))]
pub use processor::{cpu, fpu, percpu};
#[cfg(not(feature = "hosted"))]
pub(crate) use processor::{gate, init_cpu, instructions, page_table, privileged, switch, trap_frame, user_copy};

//! Registers of a program at its entry into keel, and the kinds of entry.

pub use crate::trap_frame::{FaultInfo, TrapFrame};

/// How a program entered keel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Entry {
    /// A patched site jumped to the gate.
    Call = 0,
    /// A `syscall` instruction.
    Trap = 1,
    /// An exception or an interrupt.
    Fault = 2,
}

/// Whether keel must use the slow return path. Returned by the kernel's entry points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Exit {
    /// Only rax of the frame changed: the fast return suffices (patched call).
    Fast = 0,
    /// Anything in the frame may have changed: load it all.
    Full = 1,
}

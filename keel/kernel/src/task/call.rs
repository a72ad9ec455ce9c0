//! What tells system calls apart, for filters, tracers and restarts.

use hal::trap::TrapFrame;

/// The six argument registers.
pub fn arguments(frame: &TrapFrame) -> [u64; 6] {
    [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9]
}

/// Whether a result is one of the codes that ask for the call to be repeated.
#[inline(always)]
pub fn is_restart(result: isize) -> bool {
    (-516..=-512).contains(&result)
}

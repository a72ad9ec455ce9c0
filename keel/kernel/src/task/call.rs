//! What tells system calls apart, for filters, tracers and restarts.

/// Whether a result is one of the codes that ask for the call to be repeated.
#[inline(always)]
pub fn is_restart(result: isize) -> bool {
    (-516..=-512).contains(&result)
}

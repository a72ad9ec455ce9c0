//! System call results that request a restart.

/// Whether a result is one of the restart codes.
#[inline(always)]
pub fn is_restart(result: isize) -> bool {
    (-516..=-512).contains(&result)
}

//! Time: clocks, interval timers, POSIX timers, sleeping.

pub mod clock;
pub mod itimer;
pub mod posix;
pub mod sleep;

use crate::mm::user;
use uapi::{Errno, Result};

pub use crate::sched::timer::{SECOND, deadline_after, timespec, timeval, timeval_ns};

/// Reads a `struct timespec` as ns. EFAULT; EINVAL for values out of range.
pub fn read_timespec(at: usize) -> Result<u64> {
    let [seconds, nanos] = user::read::<[i64; 2]>(at)?;
    if seconds < 0 || !(0..SECOND as i64).contains(&nanos) {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64).saturating_mul(SECOND).saturating_add(nanos as u64).min(i64::MAX as u64))
}

/// Writes ns as a `struct timespec`.
pub fn write_timespec(at: usize, ns: u64) -> Result<()> {
    user::write(at, &timespec(ns))
}

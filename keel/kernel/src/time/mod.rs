//! Time: clocks, interval timers, POSIX timers, sleeping.

pub mod clock;
pub mod itimer;
pub mod posix;
pub mod sleep;

use crate::mm::user;
use uapi::{Errno, Result};

pub use crate::sched::timer::SECOND;

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

/// ns as the two words of a `struct timespec`.
pub fn timespec(ns: u64) -> [i64; 2] {
    [(ns / SECOND) as i64, (ns % SECOND) as i64]
}

/// ns as the two words of a `struct timeval`.
pub fn timeval(ns: u64) -> [i64; 2] {
    [(ns / SECOND) as i64, (ns % SECOND / 1000) as i64]
}

/// The two words of a `struct timeval` as ns. EINVAL for values out of range.
pub fn timeval_ns([seconds, micros]: [i64; 2]) -> Result<u64> {
    if seconds < 0 || !(0..1_000_000).contains(&micros) {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64).saturating_mul(SECOND).saturating_add(micros as u64 * 1000).min(i64::MAX as u64))
}

/// Monotonic deadline `ns` from now.
pub fn deadline_after(ns: u64) -> u64 {
    hal::clock::monotonic_ns().saturating_add(ns)
}

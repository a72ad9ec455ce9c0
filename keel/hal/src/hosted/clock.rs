//! The host's clocks.

use std::time::{SystemTime, UNIX_EPOCH};

/// `CLOCK_REALTIME` of the host in ns since the epoch.
pub fn realtime_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// A clock for measuring, in ns.
pub fn monotonic_ns() -> u64 {
    realtime_ns()
}

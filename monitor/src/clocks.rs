//! The host's clocks for keel, which has only the time stamp counter: see [`abi::ring::HostClocks`].

use crate::ring::RingEnd;
use crate::server::clock_ns;
use crate::vcpu::host_tsc;
use rustix::time::ClockId;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often keel is told at most.
const PERIOD: Duration = Duration::from_millis(250);
/// Ticks between two readings of the counter for which what was read between them is taken as read at one moment: a
/// few us.
const AT_ONCE: u64 = 10_000;

/// Tells keel the time.
#[derive(Debug)]
pub struct Clocks {
    /// What the guest's counter is ahead of the host's.
    tsc_offset: u64,
    last: Mutex<Option<Instant>>,
}

impl Clocks {
    /// For a guest whose counter is `tsc_offset` ahead.
    pub fn new(tsc_offset: u64) -> Self {
        Self { tsc_offset, last: Mutex::new(None) }
    }

    /// Tells keel the time unless it was told lately, another thread does it, or this one was held up at it.
    pub fn tell(&self, now: Instant, ring: &RingEnd) {
        let Ok(mut last) = self.last.try_lock() else { return };
        if last.is_some_and(|last| now.duration_since(last) < PERIOD) {
            return;
        }
        let before = host_tsc();
        let monotonic = clock_ns(ClockId::Monotonic);
        let realtime = clock_ns(ClockId::Realtime);
        let boottime = clock_ns(ClockId::Boottime);
        let took = host_tsc().wrapping_sub(before);
        if took < AT_ONCE {
            *last = Some(now);
            // The monotonic clock matters most: it was read first.
            let tsc = before.wrapping_add(took / 6).wrapping_add(self.tsc_offset);
            ring.tell_clocks(tsc, monotonic, realtime, boottime);
        }
    }
}

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

/// Readings of the clocks of which the quickest is taken.
const TRIES: usize = 5;

/// The host's clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The host's time stamp counter.
    pub tsc: u64,
    /// `CLOCK_MONOTONIC` in ns.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME` in ns since the epoch.
    pub realtime_ns: u64,
    /// `CLOCK_BOOTTIME` in ns.
    pub boottime_ns: u64,
    /// Ticks that it took.
    took: u64,
}

impl Reading {
    fn once() -> Self {
        let before = host_tsc();
        let monotonic_ns = clock_ns(ClockId::Monotonic);
        let realtime_ns = clock_ns(ClockId::Realtime);
        let boottime_ns = clock_ns(ClockId::Boottime);
        let took = host_tsc().wrapping_sub(before);
        // The monotonic clock matters most: it was read first.
        Self { tsc: before.wrapping_add(took / 6), monotonic_ns, realtime_ns, boottime_ns, took }
    }

    /// Reads them. The thread may lose its processor meanwhile, so more than once if it takes long.
    pub fn take() -> Self {
        let mut best = Self::once();
        for _ in 1..TRIES {
            if best.took < AT_ONCE {
                break;
            }
            let again = Self::once();
            if again.took < best.took {
                best = again;
            }
        }
        best
    }
}

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
        let reading = Reading::once();
        if reading.took < AT_ONCE {
            *last = Some(now);
            ring.tell_clocks(reading.tsc.wrapping_add(self.tsc_offset), &reading);
        }
    }
}

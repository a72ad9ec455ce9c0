//! Publishes the host's clocks to keel, which reads only the time stamp counter: see [`abi::ring::HostClocks`].

use crate::ring::RingEnd;
use crate::server::clock_ns;
use crate::vcpu::host_tsc;
use rustix::time::ClockId;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Minimum period between two publications.
const PERIOD: Duration = Duration::from_millis(250);
/// If two readings of the counter differ by at most this many ticks (a few us), clocks read between them count as read
/// at one moment.
const AT_ONCE: u64 = 10_000;

/// Number of readings, of which the quickest is used.
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
    /// Ticks between the first and the last reading.
    took: u64,
}

impl Reading {
    fn once() -> Self {
        let before = host_tsc();
        let monotonic_ns = clock_ns(ClockId::Monotonic);
        let realtime_ns = clock_ns(ClockId::Realtime);
        let boottime_ns = clock_ns(ClockId::Boottime);
        let took = host_tsc().wrapping_sub(before);
        // The monotonic clock, which matters most, was read first.
        Self { tsc: before.wrapping_add(took / 6), monotonic_ns, realtime_ns, boottime_ns, took }
    }

    /// Reads the clocks. Repeats a reading that took long, because the thread may have been preempted.
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

/// Publishes the host's clocks to keel.
#[derive(Debug)]
pub struct Clocks {
    /// Guest counter minus host counter.
    tsc_offset: u64,
    last: Mutex<Option<Instant>>,
}

impl Clocks {
    /// `tsc_offset`: guest counter minus host counter.
    pub fn new(tsc_offset: u64) -> Self {
        Self { tsc_offset, last: Mutex::new(None) }
    }

    /// Publishes the clocks unless that was done recently, another thread is doing it, or this thread was preempted
    /// meanwhile.
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

//! What threads read and wrote, `/proc/PID/io`.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes and calls of read(2), write(2) and their relatives. One thread, or who holds the big lock for all, counts here;
/// calls without that lock count, too.
#[derive(Debug, Default)]
pub struct IoCounters {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

/// Adds to a counter that nobody else changes.
#[inline(always)]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl IoCounters {
    /// A call read `bytes`.
    #[inline(always)]
    pub fn count_read(&self, bytes: usize) {
        add(&self.read_bytes, bytes as u64);
        add(&self.reads, 1);
    }

    /// A call wrote `bytes`.
    #[inline(always)]
    pub fn count_write(&self, bytes: usize) {
        add(&self.written_bytes, bytes as u64);
        add(&self.writes, 1);
    }

    /// Adds what another thread did.
    pub fn add(&self, other: &Self) {
        let [read_bytes, written_bytes, reads, writes] = other.values();
        add(&self.read_bytes, read_bytes);
        add(&self.written_bytes, written_bytes);
        add(&self.reads, reads);
        add(&self.writes, writes);
    }

    /// Bytes read and written, calls that read and wrote.
    pub fn values(&self) -> [u64; 4] {
        [&self.read_bytes, &self.written_bytes, &self.reads, &self.writes].map(|counter| counter.load(Relaxed))
    }
}

//! I/O counters of threads, `/proc/PID/io`.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Bytes and calls of read(2), write(2) and the like. Written by the thread itself, by the holder of the big lock, and
/// by the thread's calls without that lock.
#[derive(Debug, Default)]
pub struct IoCounters {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

/// Adds to a counter that has no other writer.
#[inline(always)]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl IoCounters {
    /// Counts a call that read `bytes`.
    #[inline(always)]
    pub fn count_read(&self, bytes: usize) {
        add(&self.read_bytes, bytes as u64);
        add(&self.reads, 1);
    }

    /// Counts a call that wrote `bytes`.
    #[inline(always)]
    pub fn count_write(&self, bytes: usize) {
        add(&self.written_bytes, bytes as u64);
        add(&self.writes, 1);
    }

    /// Adds the counters of another thread.
    pub fn add(&self, other: &Self) {
        let [read_bytes, written_bytes, reads, writes] = other.values();
        add(&self.read_bytes, read_bytes);
        add(&self.written_bytes, written_bytes);
        add(&self.reads, reads);
        add(&self.writes, writes);
    }

    /// Bytes read, bytes written, read calls, write calls.
    pub fn values(&self) -> [u64; 4] {
        [&self.read_bytes, &self.written_bytes, &self.reads, &self.writes].map(|counter| counter.load(Relaxed))
    }
}

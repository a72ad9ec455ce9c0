//! The monitor's end of the connector ring.
//!
//! The ring lies in guest memory: indices are atomics, entries are copied out once. A guest that writes invalid entries
//! gets errors; it can't make the monitor access memory outside the guest's.
#![allow(unsafe_code)]

use crate::clocks::Reading;
use crate::memory::GuestMemory;
use crate::run::Words;
use abi::ring::{Completion, ENTRIES, Submission, server_state};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Access to the ring of one pod.
#[derive(Clone, Debug)]
pub struct RingEnd {
    memory: Arc<GuestMemory>,
}

macro_rules! field {
    ($self:ident, $($name:ident).+, $ty:ty) => {{
        let ring = $self.memory.ring();
        // SAFETY: the ring lies in RAM that `memory` keeps mapped; atomics may be shared with the guest.
        unsafe { <$ty>::from_ptr((&raw const (*ring).$($name).+).cast_mut().cast()) }
    }};
}

impl RingEnd {
    /// The ring of a pod's memory, before the guest runs.
    pub fn new(memory: Arc<GuestMemory>) -> Self {
        let end = Self { memory };
        // Zero would be a deadline in the past.
        field!(end, deadline_ns, AtomicU64).store(u64::MAX, Ordering::SeqCst);
        end.set_duty_looks(u64::MAX);
        end
    }

    /// The next submission, or `None`. Only one thread at a time may call this.
    pub fn take(&self) -> Option<Submission> {
        let head_field = field!(self, sub_head, AtomicU32);
        let head = head_field.load(Ordering::Relaxed);
        let waiting = field!(self, sub_tail, AtomicU32).load(Ordering::SeqCst).wrapping_sub(head);
        if waiting == 0 {
            return None;
        }
        let ring = self.memory.ring();
        // SAFETY: the index is reduced to the queue; the guest may write meanwhile, so the copy is
        // volatile and every bit pattern is valid.
        let entry = unsafe { (&raw const (*ring).submissions[head as usize % ENTRIES]).read_volatile() };
        head_field.store(head.wrapping_add(1), Ordering::Release);
        Some(entry)
    }

    /// Whether the indices imply more submissions than the queue holds: the guest is hostile.
    pub fn is_overrun(&self) -> bool {
        let tail = field!(self, sub_tail, AtomicU32).load(Ordering::SeqCst);
        tail.wrapping_sub(field!(self, sub_head, AtomicU32).load(Ordering::Relaxed)) as usize > ENTRIES
    }

    /// Number of completions that were published, and that keel consumed; both wrap.
    pub fn completions(&self) -> (u32, u32) {
        let tail = field!(self, comp_tail, AtomicU32).load(Ordering::SeqCst);
        (tail, field!(self, comp_head, AtomicU32).load(Ordering::SeqCst))
    }

    /// Publishes a completion; `false` if the queue is full (keel will consume some first).
    pub fn complete(&self, completion: &Completion) -> bool {
        let tail_field = field!(self, comp_tail, AtomicU32);
        let tail = tail_field.load(Ordering::Relaxed);
        if tail.wrapping_sub(field!(self, comp_head, AtomicU32).load(Ordering::SeqCst)) as usize >= ENTRIES {
            return false;
        }
        let ring = self.memory.ring();
        // SAFETY: the index is reduced to the queue; there is no other writer of completions (callers hold the server's
        // lock), and the guest reads them after the release of the tail.
        unsafe { (&raw const (*ring).completions[tail as usize % ENTRIES]).cast_mut().write_volatile(*completion) };
        tail_field.store(tail.wrapping_add(1), Ordering::SeqCst);
        true
    }

    /// Replaces pages of the window that the host can't provide, and notifies keel; `false` if there are none. `at`:
    /// the faulting address, if known.
    pub fn lose_pages(&self, at: Option<u64>) -> bool {
        let any = self.memory.replace_lost_pages(at) > 0;
        if any {
            field!(self, losses, AtomicU32).fetch_add(1, Ordering::SeqCst);
        }
        any
    }

    /// Whether keel requests polling by the helper.
    pub fn poll_wanted(&self) -> bool {
        field!(self, poll_wanted, AtomicU32).load(Ordering::SeqCst) != 0
    }

    /// Whether keel requests an interrupt every tick.
    pub fn tick_wanted(&self) -> bool {
        field!(self, tick_wanted, AtomicU32).load(Ordering::SeqCst) != 0
    }

    /// Whether a completion must interrupt the running program.
    pub fn kick_wanted(&self) -> bool {
        field!(self, kick_wanted, AtomicU32).load(Ordering::SeqCst) != 0
    }

    /// Whether the virtual CPU waits in the guest for a completion that is not there yet.
    pub fn lingers(&self) -> bool {
        // In this order: keel says that it no longer waits before it consumes what it has found.
        let (published, consumed) = self.completions();
        published == consumed && field!(self, lingering, AtomicU32).load(Ordering::SeqCst) != 0
    }

    /// Publishes whether a thread sleeps until sockets or streams are ready. A hint.
    pub fn set_watching(&self, on: bool) {
        field!(self, watching, AtomicU32).store(u32::from(on), Ordering::SeqCst);
    }

    /// High-water mark of the RAM that the guest has used, guest-physical.
    pub fn ram_used(&self) -> u64 {
        field!(self, ram_used, AtomicU64).load(Ordering::SeqCst)
    }

    /// Sequence number: odd while threads wait in the run queue; changes each time.
    pub fn waiting(&self) -> u32 {
        field!(self, waiting, AtomicU32).load(Ordering::SeqCst)
    }

    /// Notifies keel that threads have waited for long.
    pub fn set_overdue(&self) {
        field!(self, overdue, AtomicU32).store(1, Ordering::SeqCst);
    }

    /// Publishes a reading of the host's clocks. Only one thread at a time may call this. `tsc` is the guest's counter
    /// at the time of the reading.
    pub fn tell_clocks(&self, tsc: u64, reading: &Reading) {
        let sequence = field!(self, clocks.sequence, AtomicU32);
        let changing = sequence.load(Ordering::Relaxed) | 1;
        sequence.store(changing, Ordering::SeqCst);
        field!(self, clocks.tsc, AtomicU64).store(tsc, Ordering::SeqCst);
        field!(self, clocks.monotonic_ns, AtomicU64).store(reading.monotonic_ns, Ordering::SeqCst);
        field!(self, clocks.realtime_ns, AtomicU64).store(reading.realtime_ns, Ordering::SeqCst);
        field!(self, clocks.boottime_ns, AtomicU64).store(reading.boottime_ns, Ordering::SeqCst);
        sequence.store(changing.wrapping_add(1), Ordering::SeqCst);
    }
}

impl Words for RingEnd {
    fn has_submission(&self) -> bool {
        field!(self, sub_tail, AtomicU32).load(Ordering::SeqCst)
            != field!(self, sub_head, AtomicU32).load(Ordering::Relaxed)
    }

    fn deadline_ns(&self) -> u64 {
        field!(self, deadline_ns, AtomicU64).load(Ordering::SeqCst)
    }

    fn set_polling(&self, on: bool) {
        let state = if on { server_state::POLLING } else { server_state::ASLEEP };
        field!(self, server, AtomicU32).store(state, Ordering::SeqCst);
    }

    fn set_helper_looks(&self, ns: u64) {
        field!(self, helper_looks_ns, AtomicU64).store(ns, Ordering::SeqCst);
    }

    fn set_duty_looks(&self, ns: u64) {
        field!(self, duty_looks_ns, AtomicU64).store(ns, Ordering::SeqCst);
    }
}

//! Measures the system time of threads.
//!
//! Two clock readings per call would cost more than many calls. So trapped calls, which are slow anyway, are measured,
//! and a sample of calls from patched sites: one of [`EVERY`], which counts for all of them.

use crate::task::with_current;
use abi::layout::MAX_CPUS;
use core::cell::Cell;
use hal::cell::{Global, Padded};
use hal::percpu;
use hal::trap::{Entry, TrapFrame};

/// One of this many calls is measured; not a power of two, because programs repeat patterns.
const EVERY: u32 = 61;

/// A call that takes longer counts only for itself: it is not typical, and the host may have preempted the virtual CPU
/// meanwhile.
const LONG_NS: u64 = 1_000_000;

/// Calls until the next measured one, on each virtual CPU.
static LEFT: Global<[Padded<Cell<u32>>; MAX_CPUS]> = Global::new([const { Padded::new(Cell::new(EVERY)) }; MAX_CPUS]);

/// The counter of this virtual CPU.
#[inline(always)]
fn left_here() -> &'static Cell<u32> {
    &LEFT[percpu::cpu_index() % MAX_CPUS]
}

/// Whether this call must be measured.
#[inline(always)]
pub fn is_due() -> bool {
    let here = left_here();
    let left = here.get().wrapping_sub(1);
    here.set(left);
    left == 0
}

/// Whether the next call must be measured, which takes the big lock.
#[inline(always)]
pub fn is_next() -> bool {
    left_here().get() <= 1
}

/// Counts a call that was served without [`is_due`].
#[inline(always)]
pub fn pass() {
    let here = left_here();
    here.set(here.get().wrapping_sub(1));
}

/// Measures a call.
pub struct Meter {
    /// Processor time of the thread before the call, ns.
    before_ns: u64,
    /// Number of calls that this one counts for; 0: not measured.
    weight: u64,
}

impl Meter {
    /// Starts before the call.
    pub fn start(frame: &TrapFrame) -> Self {
        let here = left_here();
        let due = here.get() == 0;
        if due {
            here.set(EVERY);
        }
        let weight = match () {
            () if frame.is_by(Entry::Trap) => 1,
            () if due => u64::from(EVERY),
            () => 0,
        };
        Self { before_ns: if weight == 0 { 0 } else { used_ns() }, weight }
    }

    /// Stops after the call, in the same thread.
    pub fn stop(self) {
        if self.weight == 0 {
            return;
        }
        let used = used_ns();
        let ns = used.saturating_sub(self.before_ns);
        with_current(|me| {
            if self.weight == 1 || ns > LONG_NS {
                return me.sched.was_system(ns);
            }
            // All calls since the last sample took at most the time since then.
            let since = used.saturating_sub(me.sampled_ns.replace(used));
            me.sched.was_system(ns.saturating_mul(self.weight).min(since));
        });
    }
}

fn used_ns() -> u64 {
    let usage = with_current(|me| me.sched.usage());
    usage.user_ns + usage.system_ns
}

//! How much of a thread's processor time is keel's.
//!
//! Reading a clock twice in each call would cost more than many calls. So calls that trap are measured, which take
//! long anyway, and of those from patched sites a sample: one of [`EVERY`], which stands for all of them.

use crate::task::with_current;
use abi::layout::MAX_CPUS;
use core::cell::Cell;
use hal::cell::{Global, Padded};
use hal::percpu;
use hal::trap::{Entry, TrapFrame};

/// One of so many calls is measured: no power of two, since programs repeat themselves.
const EVERY: u32 = 61;

/// A call that takes longer stands for itself only: others are no measure for it, and the host may have let the
/// virtual CPU wait meanwhile.
const LONG_NS: u64 = 1_000_000;

/// Calls until the next one that is measured, on each virtual CPU.
static LEFT: Global<[Padded<Cell<u32>>; MAX_CPUS]> = Global::new([const { Padded::new(Cell::new(EVERY)) }; MAX_CPUS]);

/// Those of this virtual CPU.
#[inline(always)]
fn left_here() -> &'static Cell<u32> {
    &LEFT[percpu::cpu_index() % MAX_CPUS]
}

/// Whether this call shall be measured.
#[inline(always)]
pub fn is_due() -> bool {
    let here = left_here();
    let left = here.get().wrapping_sub(1);
    here.set(left);
    left == 0
}

/// Whether the next call shall be measured: that takes the big lock.
#[inline(always)]
pub fn is_next() -> bool {
    left_here().get() <= 1
}

/// A call was served that needed no [`is_due`].
#[inline(always)]
pub fn pass() {
    let here = left_here();
    here.set(here.get().wrapping_sub(1));
}

/// Measures a call.
pub struct Meter {
    /// Processor time that the thread had used, ns.
    before_ns: u64,
    /// Calls that this one stands for; 0: it is not measured.
    weight: u64,
}

impl Meter {
    /// Before the call.
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

    /// After it, in the same thread.
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
            // All calls since the last sample can't have taken longer than that is ago.
            let since = used.saturating_sub(me.sampled_ns.replace(used));
            me.sched.was_system(ns.saturating_mul(self.weight).min(since));
        });
    }
}

fn used_ns() -> u64 {
    let usage = with_current(|me| me.sched.usage());
    usage.user_ns + usage.system_ns
}

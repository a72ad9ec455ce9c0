//! Pending deadlines: thread wake-ups and timers, and when the monitor interrupts a program for them.

use super::{Thread, set_tick, wake};
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::ring;
use keel_core::timerq::{TimerKey, TimerQueue};
use uapi::{Errno, Result};

/// ns of a second.
pub const SECOND: u64 = 1_000_000_000;

/// Event at a deadline.
enum Event {
    Wake(Rc<Thread>),
    Fire(Weak<Timer>),
}

static PENDING: Global<RefCell<TimerQueue<Event>>> = Global::new(RefCell::new(TimerQueue::new()));
/// Earliest time of the next interrupt of a running program.
static NEXT_INTERRUPT: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Minimum time between two interrupts for deadlines, in ns: about the cost of one, and Linux's default timer slack,
/// prctl(2).
const BETWEEN_INTERRUPTS_NS: u64 = 50_000;
/// Number of armed processor-time timers.
static CPU_TIMERS: Global<Cell<usize>> = Global::new(Cell::new(0));

/// Sets the monitor's deadline for the program that runs next.
pub(crate) fn program() {
    ring::set_deadline(earliest().map(|deadline| deadline.max(NEXT_INTERRUPT.get())));
}

/// A program was interrupted: limits the rate of further interrupts, however short the timers are.
pub(crate) fn interrupted() {
    let now = hal::clock::monotonic_ns();
    keep_clocks(now);
    NEXT_INTERRUPT.set(now + BETWEEN_INTERRUPTS_NS);
}

/// Renews the clocks' base if it is outdated; `now`: the monotonic clock.
pub(crate) fn keep_clocks(now: u64) {
    if now >= NEXT_RENEWAL.get() {
        NEXT_RENEWAL.set(now + RENEW_NS);
        hal::clock::renew();
        (RENEWED.get())();
    }
}

/// Time of the next renewal.
static NEXT_RENEWAL: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Validity of a base, in ns.
const RENEW_NS: u64 = SECOND / 2;

/// Callback at a renewal of the clocks' base: programs have a copy of it.
static RENEWED: Global<Cell<fn()>> = Global::new(Cell::new(|| ()));

/// Registers `f` to be called at each renewal of the clocks' base.
pub fn on_renewal(f: fn()) {
    RENEWED.set(f);
}

fn insert(deadline_ns: u64, event: Event) -> TimerKey {
    PENDING.borrow_mut().insert(deadline_ns, event)
}

/// Wakes a sleeping thread at a deadline (monotonic ns). The monitor is notified when another program gets the CPU, or
/// when the CPU idles.
pub(crate) fn wake_at(deadline_ns: u64, task: &Rc<Thread>) -> TimerKey {
    insert(deadline_ns, Event::Wake(task.clone()))
}

/// Cancels a wake-up.
pub(crate) fn forget(key: TimerKey) {
    // The monitor may still interrupt at that time, without effect.
    let gone = PENDING.borrow_mut().remove(key);
    drop(gone);
}

/// The earliest deadline.
pub(crate) fn earliest() -> Option<u64> {
    PENDING.borrow().earliest()
}

/// Handles expired deadlines.
pub(crate) fn run_due() {
    if earliest().is_none() {
        return;
    }
    let now = hal::clock::monotonic_ns();
    loop {
        let due = PENDING.borrow_mut().pop_due(now);
        match due {
            None => break,
            Some(Event::Wake(task)) => {
                wake(&task);
            }
            Some(Event::Fire(timer)) => {
                if let Some(timer) = timer.upgrade() {
                    timer.key.set(None);
                    (timer.callback)();
                }
            }
        }
    }
}

/// Whether a processor-time limit or timer needs the tick.
pub(crate) fn counts_cpu_time() -> bool {
    CPU_TIMERS.get() > 0
}

/// Counts an armed or disarmed processor-time timer.
pub fn watch_cpu_time(armed: bool) {
    let n = CPU_TIMERS.get();
    CPU_TIMERS.set(if armed { n + 1 } else { n.saturating_sub(1) });
    set_tick();
}

/// Calls a callback at a deadline. The callback runs in keel, in the context of any thread: it must not block and not
/// access program memory; it may re-arm the timer.
pub struct Timer {
    key: Cell<Option<TimerKey>>,
    callback: Rc<dyn Fn()>,
}

impl core::fmt::Debug for Timer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Timer").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Timer {
    /// A timer that is not armed.
    pub fn new(callback: Rc<dyn Fn()>) -> Rc<Self> {
        Rc::new(Self { key: Cell::new(None), callback })
    }

    /// Arms the timer for `deadline_ns` of the monotonic clock; replaces an earlier deadline.
    pub fn arm(self: &Rc<Self>, deadline_ns: u64) {
        self.cancel();
        self.key.set(Some(insert(deadline_ns, Event::Fire(Rc::downgrade(self)))));
        // The running program must be interrupted for it: the return path sets the deadline.
        hal::percpu::set_work_pending();
    }

    /// Whether it is armed.
    pub fn is_armed(&self) -> bool {
        self.key.get().is_some()
    }

    /// Disarms the timer.
    pub fn cancel(&self) {
        if let Some(key) = self.key.take() {
            forget(key);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
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

//! Wait and wake-up protocol of the monitor's threads.
//!
//! # Threads
//!
//! | thread | state | waits for | woken by |
//! |---|---|---|---|
//! | of a virtual CPU | *runs* | nothing (it is in the guest) | a kick: `Cpus::kick_one`, if keel wants one |
//! | | *idle* | its event | [`State::wake`], [`State::tell_idle`] |
//! | | *on duty*: idle, and the first to be so | its event, the streams, the earliest deadline | the same, and [`State::remind_duty`] |
//! | the helper | *asleep* | the doorbell, `attend`, ticks, the earliest deadline, the streams if none is on duty | keel's doorbell, [`State::call_helper`] |
//! | | *polls* | nothing | |
//!
//! # Transitions and their order
//!
//! In each pair below both sides store first and then load, and the stores and loads are sequentially consistent: at
//! least one side sees the other's store. An event stays signalled until its thread clears it, before it checks its
//! conditions: a signal between the check and the wait ends the wait.
//!
//! | one side | other side |
//! |---|---|
//! | keel submits, then rings unless a helper polls | the helper stops to poll ([`State::end_polling`]), or announces its sleep ([`State::begin_sleep`]), then looks for submissions |
//! | keel sets a deadline or wants ticks, then rings unless the helper or the virtual CPU on duty looks in time | both announce when they look next ([`State::begin_sleep`], [`State::begin_wait`]), then read the deadline again |
//! | keel sets a deadline and idles on a second virtual CPU, which reminds the one on duty of an earlier one ([`State::leave_to_duty`]) | [`State::begin_wait`], as above |
//! | a thread completes a request under the server's lock, then looks who idles ([`State::tell_idle`]) | a virtual CPU takes the duty ([`State::takes_duty`]), then looks for completions under that lock; it leaves the duty ([`State::end_idle`]), then keel looks for completions |
//! | a thread finds none on duty, then looks who idles | a virtual CPU idles ([`State::begin_idle`]), then finds one on duty and waits |
//! | the helper stops to mind the sockets ([`State::set_minds_sockets`]), then looks whether one is on duty | a virtual CPU leaves the duty ([`State::end_idle`]), then looks whether the helper minds them ([`State::minds_sockets`]) |
//! | the helper stops to attend ([`State::set_attended`]), then looks whether one is on duty | a virtual CPU leaves the duty ([`State::end_idle`]), then looks whether the helper attends ([`State::is_attended`]) |
//! | a thread lets a virtual CPU go on, then signals its event ([`State::wake`]) | the virtual CPU takes the signal, then the permission ([`State::take_wake`]) |
//!
//! `models.rs` checks the interleavings of these pairs.

use sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// Atomics: loom's in the models.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(not(loom))]
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}
use Ordering::{Relaxed, SeqCst};

/// Words of the ring that take part. All accesses are sequentially consistent.
pub trait Words {
    /// Whether a submission is pending.
    fn has_submission(&self) -> bool;
    /// keel's next deadline, `CLOCK_MONOTONIC` ns; `u64::MAX`: none.
    fn deadline_ns(&self) -> u64;
    /// Publishes whether a host thread polls the ring.
    fn set_polling(&self, on: bool);
    /// Publishes the time of the helper's next check, `CLOCK_MONOTONIC` ns; 0: soon. The helper checks once more after
    /// that before it sleeps.
    fn set_helper_looks(&self, ns: u64);
    /// Publishes when the virtual CPU on duty checks the deadline next, `CLOCK_MONOTONIC` ns; `u64::MAX`: none is on duty.
    fn set_duty_looks(&self, ns: u64);
}

/// An event that a thread waits for.
pub trait Signal {
    /// Signals it; it stays signalled until it is cleared.
    fn signal(&self);
    /// Clears the signal.
    fn clear(&self);
}

/// A virtual CPU's thread.
#[derive(Debug)]
struct Waiter<E> {
    /// Whether it waits in the monitor.
    idle: AtomicBool,
    /// Permission to re-enter the guest, now or at the next idle.
    woken: AtomicBool,
    /// Ends its wait.
    event: E,
}

/// See the module. The guest chooses the numbers of virtual CPUs: invalid ones are ignored.
#[derive(Debug)]
pub struct State<E> {
    waiters: Vec<Waiter<E>>,
    /// Number of the virtual CPU on duty plus one; 0: none.
    duty: AtomicU32,
    /// Time of the next check by the thread on duty, `CLOCK_MONOTONIC` ns.
    duty_deadline: AtomicU64,
    /// Wakes the helper for reasons other than the doorbell.
    attend: E,
    /// Whether the helper serves the tick.
    ticks: AtomicBool,
    /// `CLOCK_MONOTONIC` ns before which the helper does not poll, because the host's processors are busy.
    polls_from: AtomicU64,
    /// The helper looks at the sockets, now and then, until a virtual CPU is on duty.
    minds_sockets: AtomicBool,
    /// The helper polls the ring, or sleeps in between until sockets and streams are ready.
    attended: AtomicBool,
    /// The pod has ended: all threads leave.
    over: AtomicBool,
    /// `--timeout` passed.
    timed_out: AtomicBool,
}

impl<E: Signal> State<E> {
    /// One virtual CPU per event; `attend` wakes the helper.
    pub fn new(events: impl IntoIterator<Item = E>, attend: E) -> Self {
        let waiter = |event| Waiter { idle: AtomicBool::new(false), woken: AtomicBool::new(false), event };
        Self {
            waiters: events.into_iter().map(waiter).collect(),
            duty: AtomicU32::new(0),
            duty_deadline: AtomicU64::new(u64::MAX),
            attend,
            ticks: AtomicBool::new(false),
            polls_from: AtomicU64::new(0),
            minds_sockets: AtomicBool::new(false),
            attended: AtomicBool::new(false),
            over: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
        }
    }

    fn get(&self, index: u32) -> Option<&Waiter<E>> {
        self.waiters.get(index as usize)
    }

    fn on_duty(&self) -> Option<&Waiter<E>> {
        self.duty.load(SeqCst).checked_sub(1).and_then(|index| self.get(index))
    }
}

/// Called by a virtual CPU's thread.
impl<E: Signal> State<E> {
    /// State: runs to idle.
    pub fn begin_idle(&self, index: u32) {
        if let Some(cpu) = self.get(index) {
            cpu.idle.store(true, SeqCst);
        }
        fence(SeqCst);
    }

    /// State: idle to on duty, if none is. Returns whether this one is on duty now.
    pub fn takes_duty(&self, index: u32) -> bool {
        let taken = match self.duty.compare_exchange(0, index + 1, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(current) => current == index + 1,
        };
        fence(SeqCst);
        taken
    }

    /// Not on duty and about to wait: makes the one on duty check again if it may have missed a deadline of keel.
    pub fn leave_to_duty(&self, ring: &impl Words) {
        fence(SeqCst);
        if ring.has_submission() || ring.deadline_ns() < self.duty_deadline.load(SeqCst) {
            self.remind_duty();
        }
    }

    /// On duty and about to wait: publishes the time of the next check. Returns that deadline; `None` if keel has set
    /// another one meanwhile.
    pub fn begin_wait(&self, ring: &impl Words) -> Option<u64> {
        let deadline = ring.deadline_ns();
        self.duty_deadline.store(deadline, SeqCst);
        ring.set_duty_looks(deadline);
        fence(SeqCst);
        (ring.deadline_ns() == deadline).then_some(deadline)
    }

    /// Whether this one got permission to re-enter; clears it.
    pub fn take_wake(&self, index: u32) -> bool {
        self.get(index).is_some_and(|cpu| cpu.woken.swap(false, SeqCst))
    }

    /// The event that ends the wait of one.
    ///
    /// # Panics
    /// If the pod may not have it.
    pub fn event(&self, index: u32) -> &E {
        &self.waiters[index as usize].event
    }

    /// State: idle or on duty to runs. Returns whether it was on duty.
    pub fn end_idle(&self, index: u32, ring: &impl Words) -> bool {
        if self.duty.load(SeqCst) == index + 1 {
            // keel checks who watches its deadline whenever a program continues; this virtual CPU will do so.
            ring.set_duty_looks(u64::MAX);
        }
        if let Some(cpu) = self.get(index) {
            cpu.idle.store(false, SeqCst);
        }
        self.duty.compare_exchange(index + 1, 0, SeqCst, SeqCst).is_ok()
    }
}

/// Called by any thread, for a virtual CPU.
impl<E: Signal> State<E> {
    /// Wakes a virtual CPU that idles or is about to.
    pub fn wake(&self, index: u32) {
        if let Some(cpu) = self.get(index) {
            cpu.woken.swap(true, SeqCst);
            cpu.event.signal();
        }
    }

    /// Makes an idle virtual CPU check its conditions, without permission to re-enter.
    pub fn disturb(&self, index: u32) {
        if let Some(cpu) = self.get(index) {
            cpu.event.signal();
        }
    }

    /// Makes keel check the ring on the virtual CPU on duty or on another idle one. Returns whether there was one.
    pub fn tell_idle(&self) -> bool {
        fence(SeqCst);
        self.remind_duty() || self.wake_idle()
    }

    /// Wakes an idle virtual CPU. Returns whether there was one.
    pub fn wake_idle(&self) -> bool {
        fence(SeqCst);
        let idle = self.waiters.iter().find(|cpu| cpu.idle.load(SeqCst) && !cpu.woken.load(SeqCst));
        if let Some(cpu) = idle {
            cpu.woken.swap(true, SeqCst);
            cpu.event.signal();
        }
        idle.is_some()
    }

    /// Makes the one on duty check its conditions again. Returns whether there is one.
    pub fn remind_duty(&self) -> bool {
        self.on_duty().inspect(|cpu| cpu.event.signal()).is_some()
    }

    /// Whether one is on duty.
    pub fn has_duty(&self) -> bool {
        self.on_duty().is_some()
    }

    /// Whether the one on duty checks before `deadline_ns`.
    pub fn duty_checks_by(&self, deadline_ns: u64) -> bool {
        self.has_duty() && self.duty_deadline.load(SeqCst) <= deadline_ns
    }

    /// Whether this one waits in the monitor.
    pub fn is_idle(&self, index: usize) -> bool {
        self.waiters.get(index).is_some_and(|cpu| cpu.idle.load(SeqCst))
    }
}

/// Called by the helper.
impl<E: Signal> State<E> {
    /// About to sleep until `looks`: publishes that. Returns false if keel has posted a request or set an earlier
    /// deadline than `seen` meanwhile, or a tick `is_missing`.
    pub fn begin_sleep(&self, ring: &impl Words, seen: u64, looks: u64, is_missing: impl FnOnce() -> bool) -> bool {
        ring.set_helper_looks(looks);
        fence(SeqCst);
        let deadline = ring.deadline_ns();
        let asked_earlier = deadline != seen && deadline < looks || is_missing();
        !asked_earlier && !ring.has_submission()
    }

    /// After a wake-up: clears the signals before the checks.
    pub fn end_sleep(&self, ring: &impl Words, doorbell: &E) {
        ring.set_helper_looks(0);
        doorbell.clear();
        self.attend.clear();
        fence(SeqCst);
    }

    /// Stops polling: keel rings from now on. Returns whether a submission came before that.
    pub fn end_polling(&self, ring: &impl Words) -> bool {
        ring.set_polling(false);
        fence(SeqCst);
        ring.has_submission()
    }

    /// Records whether the helper minds the sockets. Returns whether that is right: it must if no virtual CPU is on duty.
    pub fn set_minds_sockets(&self, on: bool) -> bool {
        self.minds_sockets.store(on, SeqCst);
        fence(SeqCst);
        on || self.has_duty()
    }

    /// Whether the helper minds the sockets. Asked after [`Self::end_idle`].
    pub fn minds_sockets(&self) -> bool {
        fence(SeqCst);
        self.minds_sockets.load(SeqCst)
    }

    /// Records whether the helper attends to the ring and to what operations wait for, without being called.
    pub fn set_attended(&self, on: bool) {
        self.attended.store(on, SeqCst);
        fence(SeqCst);
    }

    /// Whether it does. Asked after [`Self::end_idle`].
    pub fn is_attended(&self) -> bool {
        fence(SeqCst);
        self.attended.load(SeqCst)
    }

    /// Makes the helper check for work.
    pub fn call_helper(&self) {
        self.attend.signal();
    }

    /// The event of [`Self::call_helper`].
    pub fn attend(&self) -> &E {
        &self.attend
    }

    /// Records whether the helper serves the tick.
    pub fn set_ticks(&self, on: bool) {
        self.ticks.store(on, SeqCst);
    }

    /// Whether the helper serves the tick.
    pub fn has_ticks(&self) -> bool {
        self.ticks.load(SeqCst)
    }

    /// The helper does not start to poll before `ns`, `CLOCK_MONOTONIC`. A hint.
    pub fn pause_polling(&self, ns: u64) {
        self.polls_from.store(ns, Relaxed);
    }

    /// Whether the helper may start to poll at `now`.
    pub fn may_poll_at(&self, now: u64) -> bool {
        now >= self.polls_from.load(Relaxed)
    }
}

/// End of the pod.
impl<E: Signal> State<E> {
    /// All threads must leave. The caller disturbs them afterwards.
    pub fn finish(&self) {
        self.over.store(true, SeqCst);
        self.attend.signal();
    }

    /// Whether all threads must leave.
    pub fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Records that `--timeout` passed.
    pub fn set_timed_out(&self) {
        self.timed_out.store(true, SeqCst);
    }

    /// Whether it passed.
    pub fn is_timed_out(&self) -> bool {
        self.timed_out.load(SeqCst)
    }
}

#[cfg(all(test, loom))]
mod models;

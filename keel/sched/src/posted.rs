//! Requests that no thread waits for: when the monitor is told of them, when it interrupts a program for their
//! completions, and work that follows completions.
//!
//! A posted request costs nothing if the thread soon has to wait anyway: the exit of the idle virtual CPU serves it.
//! Otherwise the doorbell is rung when a program continues, for one request only if nothing else would make the monitor look
//! soon: while a pod has sockets and a virtual CPU runs, the helper looks every millisecond.

use super::connector::{is_under_way, poll_completions, wants_polling};
use abi::boot::flags;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::{percpu, ring, smp};

/// Number of posted requests that the monitor must know of soon.
static UNTOLD: Global<Cell<u32>> = Global::new(Cell::new(0));
/// Number of open sockets of the host.
static SOCKETS: Global<Cell<usize>> = Global::new(Cell::new(0));
/// The monitor knows of a socket, so that its helper looks now and then.
static KNOWN: Global<Cell<bool>> = Global::new(Cell::new(false));
/// How often a program looked in vain for the effect of a request that the monitor does not know of.
static MISSES: Global<Cell<u32>> = Global::new(Cell::new(0));
/// Number of threads that wait for something from outside the pod.
static AWAITING: Global<Cell<usize>> = Global::new(Cell::new(0));
/// What follows completions.
static PUMPS: Global<RefCell<VecDeque<Rc<dyn Pump>>>> = Global::new(RefCell::new(VecDeque::new()));
/// Requests that were posted since a virtual CPU last had nothing to run.
static POSTED: Global<Cell<u32>> = Global::new(Cell::new(0));
/// When the oldest untold request was posted.
static SINCE: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Who holds something back.
static HOLDERS: Global<RefCell<VecDeque<Rc<dyn Pump>>>> = Global::new(RefCell::new(VecDeque::new()));
static PUMPING: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Number of fruitless looks after which the monitor is told.
const MOST_MISSES: u32 = 2;
/// Number of posted requests that are worth a doorbell at once. Fewer wait until the oldest of them is [`OLD_NS`] old: a program that
/// serves many peers posts many before it has to wait, and one exit serves them all.
const ENOUGH: u32 = 64;
/// Age of a posted request that a program which continues tells the monitor of, if it is not the only one.
const OLD_NS: u64 = 50_000;

/// Posts further requests, after completions.
pub trait Pump {
    /// Called in keel, without any borrow held.
    fn pump(&self);
    /// No thread can run: posts what was held back, and makes sure that it is told of all that is under way.
    fn let_go(&self) {}
}

/// A socket of the host is opened, or closed.
pub fn count_socket(opened: bool) {
    if opened {
        SOCKETS.set(SOCKETS.get() + 1);
    } else {
        SOCKETS.set(SOCKETS.get().saturating_sub(1));
        if SOCKETS.get() == 0 {
            KNOWN.set(false);
        }
    }
}

/// A request was posted: the monitor is told when a program continues, or looks itself soon.
pub fn tell_soon() {
    if UNTOLD.get() == 0 {
        SINCE.set(monotonic_ns());
    }
    UNTOLD.set(UNTOLD.get() + 1);
    percpu::set_work_pending();
}

/// The monitor is told when a program continues.
fn tell_next() {
    UNTOLD.set(ENOUGH);
    percpu::set_work_pending();
}

/// The same, if a thread waits for something from outside.
pub fn tell_if_awaited() {
    if is_awaited() {
        tell_next();
    }
}

/// Consumes completions. Returns whether there were any.
pub fn look() -> bool {
    let any = ring::has_completion();
    if any {
        poll_completions();
    }
    any
}

/// A program found nothing: consumes completions, after which it should look again. Without any, tells the monitor if it
/// may not know what the program looks for, and a thread waits or this happens repeatedly.
pub fn missed() {
    if look() {
        return;
    }
    if !ring::has_submission() {
        MISSES.set(0);
        return;
    }
    MISSES.set(MISSES.get() + 1);
    if is_awaited() || MISSES.get() >= MOST_MISSES {
        MISSES.set(0);
        tell_next();
    }
}

/// A program continues: tells the monitor, if that is due.
#[inline]
pub(super) fn tell() {
    if UNTOLD.get() > 0 {
        tell_or_wait();
    }
}

#[cold]
fn tell_or_wait() {
    let waits = match UNTOLD.get() {
        1 => true,
        ENOUGH.. => false,
        _ => monotonic_ns().saturating_sub(SINCE.get()) < OLD_NS,
    };
    if waits && KNOWN.get() && !smp::several() && ring::has_submission() {
        return;
    }
    UNTOLD.set(0);
    if !ring::has_submission() {
        return;
    }
    ring::want_polling(wants_polling());
    if ring::is_polled() {
        return;
    }
    if ring::mode() & flags::DOORBELL_EXIT != 0 {
        ring::serve();
        percpu::set_work_pending();
    } else {
        ring::doorbell();
    }
}

/// A request is posted.
pub(super) fn count_request() {
    POSTED.set(POSTED.get().saturating_add(1));
}

/// How many were posted since this was asked last.
pub(super) fn take_posted() -> u32 {
    POSTED.take()
}

/// Whether the pod has sockets of the host.
pub(super) fn has_sockets() -> bool {
    SOCKETS.get() > 0
}

/// The monitor knows of all requests.
pub(super) fn told() {
    UNTOLD.set(0);
    MISSES.set(0);
    KNOWN.set(SOCKETS.get() > 0);
}

/// A thread begins, or ends, to wait for something from outside: completions interrupt the program that runs meanwhile.
pub(super) fn await_outside(begins: bool) {
    if begins {
        AWAITING.set(AWAITING.get() + 1);
        ring::want_kick(true);
    } else {
        AWAITING.set(AWAITING.get().saturating_sub(1));
        update_kicks();
    }
}

/// Completions interrupt a program only while a thread waits for one: those of posted requests need not.
pub(super) fn update_kicks() {
    ring::want_kick(is_awaited() || is_under_way());
}

/// Whether a thread waits for something from outside.
pub(super) fn is_awaited() -> bool {
    AWAITING.get() > 0
}

/// Calls `pump` after the completions that are being consumed.
pub fn pump_later(pump: Rc<dyn Pump>) {
    PUMPS.borrow_mut().push_back(pump);
}

/// Calls `holder` before a virtual CPU idles.
pub fn hold(holder: Rc<dyn Pump>) {
    HOLDERS.borrow_mut().push_back(holder);
}

/// A virtual CPU idles.
pub(super) fn let_go() {
    loop {
        let Some(holder) = HOLDERS.borrow_mut().pop_front() else { return };
        holder.let_go();
    }
}

/// Calls the pumps. A pump may consume completions, too.
pub(super) fn run_pumps() {
    if PUMPS.borrow().is_empty() || PUMPING.replace(true) {
        return;
    }
    loop {
        let Some(pump) = PUMPS.borrow_mut().pop_front() else { break };
        pump.pump();
    }
    PUMPING.set(false);
}

//! Free page reporting: returns memory that stays free to the host.
//!
//! While more than [`KEPT_PIECES`] pieces of 2 MiB are free but still backed by the host, a timer checks twice a
//! second. The minimum of free pieces since the last check is reported, the upper pieces first, so a program that frees
//! memory and soon reallocates it keeps it. A pod without such memory has no timer.

use super::connector;
use super::timer::{SECOND, Timer};
use abi::request::Release;
use alloc::rc::Rc;
use core::cell::{Cell, OnceCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::frame::{self, KEPT_PIECES};

/// Period of the checks, in ns.
const INTERVAL_NS: u64 = SECOND * 2 / 5;
/// Pieces per request: the monitor serves no other requests meanwhile.
const MOST_AT_ONCE: u32 = 32;

static TIMER: Global<OnceCell<Rc<Timer>>> = Global::new(OnceCell::new());
/// The host failed a request: reporting stops.
static REFUSED: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Starts the timer if there is enough to report. Called where the scheduler checks for work.
#[inline]
pub(super) fn look() {
    if frame::unused() > KEPT_PIECES {
        start();
    }
}

#[cold]
fn start() {
    let timer = TIMER.get_or_init(|| Timer::new(Rc::new(report)));
    if !timer.is_armed() && !REFUSED.get() {
        frame::least_unused();
        timer.arm(monotonic_ns() + INTERVAL_NS);
    }
}

/// Reports pieces that were free since the last check.
fn report() {
    // A free heap page may be the only used page of a piece.
    hal::heap::trim();
    let mut left = frame::least_unused().saturating_sub(KEPT_PIECES);
    while left > 0 && !REFUSED.get() {
        let Some(unused) = frame::take_unused(left.min(MOST_AT_ONCE)) else { break };
        left -= unused.pieces().min(left);
        let release = Release { gpa: unused.gpa(), len: unused.size() };
        connector::start(release, move |outcome| match outcome {
            Ok(()) => unused.is_gone(),
            Err(_) => REFUSED.set(true),
        });
    }
    if frame::unused() > KEPT_PIECES
        && let Some(timer) = TIMER.get()
    {
        timer.arm(monotonic_ns() + INTERVAL_NS);
    }
}

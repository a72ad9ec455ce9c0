//! Free page reporting: memory that stays free for a while goes back to the host.
//!
//! While more than [`KEPT_PIECES`] pieces of 2 MiB are free that the host still holds, a timer looks twice a second. What was free
//! at every moment since it looked before is reported, the upper pieces first, so a program that frees memory and takes it again soon
//! keeps it. A pod without such memory has no timer.

use super::connector;
use super::timer::{SECOND, Timer};
use abi::request::Release;
use alloc::rc::Rc;
use core::cell::{Cell, OnceCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use hal::frame::{self, KEPT_PIECES};

/// Between two looks, in ns.
const INTERVAL_NS: u64 = SECOND * 2 / 5;
/// Pieces that one request gives back: the monitor answers nothing else meanwhile.
const MOST_AT_ONCE: u32 = 32;

static TIMER: Global<OnceCell<Rc<Timer>>> = Global::new(OnceCell::new());
/// The host refused: it is not asked again.
static REFUSED: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Starts to look if there is enough to report. To be called where the scheduler looks around.
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

/// Reports what was free since the last look.
fn report() {
    // What is free of it may be all that is used of a piece.
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

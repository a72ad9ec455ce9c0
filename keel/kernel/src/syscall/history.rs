//! The last system calls: told when keel fails.

use super::{arguments, name};
use crate::task;
use core::cell::Cell;
use core::fmt::Write;
use hal::cell::Global;
use hal::trap::TrapFrame;
use uapi::Errno;

/// Calls that are kept; a power of two.
const KEPT: usize = 32;

/// A call that came to its end.
#[derive(Clone, Copy)]
struct Made {
    thread: i32,
    number: u64,
    args: [u64; 6],
    result: isize,
}

static LAST: Global<[Cell<Made>; KEPT]> =
    Global::new([const { Cell::new(Made { thread: 0, number: 0, args: [0; 6], result: 0 }) }; KEPT]);
/// Calls so far.
static COUNT: Global<Cell<usize>> = Global::new(Cell::new(0));

/// Remembers a call. Those that are over before a frame is stored are not remembered.
#[inline(always)]
pub fn note(frame: &TrapFrame, number: u64, result: isize) {
    let count = COUNT.get();
    COUNT.set(count.wrapping_add(1));
    let thread = task::with_current(|t| t.tid());
    if let Some(place) = LAST.get(count % KEPT) {
        place.set(Made { thread, number, args: arguments(frame), result });
    }
}

/// hal's hook: tells of the calls, newest first. `frame`: the program that keel was working for.
pub fn report(out: &mut dyn Write, frame: Option<&TrapFrame>) {
    let call = |out: &mut dyn Write, thread: i32, number: u64, args: [u64; 6]| {
        let [a, b, c, d, e, f] = args;
        write!(out, "\n  [{thread}] {}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x})", name(number))
    };
    let thread = task::try_with_current(|t| Some(t.tid()));
    // There is nobody to tell that there was no room.
    if let (Some(thread), Some(frame)) = (thread, frame) {
        let _ = write!(out, "\nthread {thread}, maybe in this call:");
        let _ = call(out, thread, frame.rax, arguments(frame));
    }
    let count = COUNT.get();
    let _ = write!(out, "\nlast calls, newest first:");
    for back in 1..=count.min(KEPT) {
        let Some(made) = LAST.get((count - back) % KEPT).map(Cell::get) else { break };
        let _ = call(out, made.thread, made.number, made.args);
        let _ = match made.result {
            error @ -4095..0 => write!(out, " = {:?}", Errno::from_code(-error as i64)),
            result => write!(out, " = {result:#x}"),
        };
    }
}

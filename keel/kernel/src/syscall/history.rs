//! Log of the last system calls, for the failure report.

use super::name;
use crate::task;
use abi::layout::MAX_CPUS;
use core::cell::Cell;
use core::fmt::Write;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use hal::cell::{Global, Padded};
use hal::trap::TrapFrame;
use hal::{clock, percpu, smp};
use uapi::Errno;

/// Number of calls kept and reported for each virtual CPU; a power of two.
const KEPT: usize = 32;

/// A finished call.
#[derive(Clone, Copy)]
struct Made {
    thread: i32,
    number: u64,
    args: [u64; 6],
    result: isize,
    /// Its time in TSC ticks, if several virtual CPUs are awake.
    time: u64,
}

/// An entry of the log. Words, so that recently stored registers are not loaded in pairs, which would defeat store
/// forwarding.
struct Place([AtomicU64; 10]);

impl Place {
    #[inline(always)]
    fn set(&self, made: Made) {
        let [a, b, c, d, e, f] = made.args;
        let words = [made.thread as u64, made.number, made.result as u64, made.time, a, b, c, d, e, f];
        for (place, word) in self.0.iter().zip(words) {
            place.store(word, Relaxed);
        }
    }

    fn get(&self) -> Made {
        let [thread, number, result, time, args @ ..] = self.0.each_ref().map(|word| word.load(Relaxed));
        Made { thread: thread as i32, number, args, result: result as isize, time }
    }
}

/// The last calls of a virtual CPU.
struct Last {
    made: [Place; KEPT],
    /// Number of calls so far.
    count: Cell<usize>,
}

impl Last {
    const fn new() -> Self {
        Self { made: [const { Place([const { AtomicU64::new(0) }; 10]) }; KEPT], count: Cell::new(0) }
    }

    /// The call before the last `back` ones.
    fn get(&self, back: usize) -> Option<Made> {
        let count = self.count.get();
        let kept = back < count.min(KEPT);
        if kept { self.made.get((count - 1 - back) % KEPT).map(Place::get) } else { None }
    }
}

/// One log for each virtual CPU, which writes it.
static LAST: Global<[Padded<Last>; MAX_CPUS]> = Global::new([const { Padded::new(Last::new()) }; MAX_CPUS]);

/// Logs a call. Calls that run before a frame is stored are not logged.
#[inline(always)]
pub fn note(frame: &TrapFrame, number: u64, result: isize) {
    let last = &LAST[percpu::cpu_index() % MAX_CPUS];
    let count = last.count.get();
    last.count.set(count.wrapping_add(1));
    let thread = task::with_current(|t| t.tid());
    // While one virtual CPU is awake, the order is sufficient.
    let time = if smp::several() { clock::tsc() } else { 0 };
    if let Some(place) = last.made.get(count % KEPT) {
        place.set(Made { thread, number, args: frame.arguments(), result, time });
    }
}

/// hal's hook: reports the calls, newest first. `frame`: the program that keel was working for.
pub fn report(out: &mut dyn Write, frame: Option<&TrapFrame>) {
    let call = |out: &mut dyn Write, thread: i32, number: u64, args: [u64; 6]| {
        let [a, b, c, d, e, f] = args;
        write!(out, "\n  [{thread}] {}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x})", name(number))
    };
    let thread = task::try_with_current(|t| Some(t.tid()));
    // A report without room is truncated; that can't be reported.
    if let (Some(thread), Some(frame)) = (thread, frame) {
        let _ = write!(out, "\nthread {thread}, maybe in this call:");
        let _ = call(out, thread, frame.number(), frame.arguments());
    }
    let _ = write!(out, "\nlast calls, newest first:");
    let mut seen = [0; MAX_CPUS];
    for _ in 0..KEPT {
        let next = |(cpu, back): (usize, &usize)| LAST.get(cpu)?.get(*back).map(|made| (cpu, made));
        let newest = seen.iter().enumerate().filter_map(next).max_by_key(|(_, made)| made.time);
        let Some((cpu, made)) = newest else { break };
        if let Some(back) = seen.get_mut(cpu) {
            *back += 1;
        }
        let _ = call(out, made.thread, made.number, made.args);
        let _ = match made.result {
            error @ -4095..0 => write!(out, " = {:?}", Errno::from_code(-error as i64)),
            result => write!(out, " = {result:#x}"),
        };
    }
}

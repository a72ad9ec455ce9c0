//! Prints system calls as they happen (`hull trace`), in the style of strace(1).

mod arguments;
mod names;
mod structures;
pub mod summary;

use super::{Level, MAX_CALLS, find};
use crate::sched::connector;
use crate::signal::{SigInfo, code};
use crate::task;
use crate::task::watch;
use abi::boot::{Stamp, Trace};
use abi::request::Log;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt::Write;
use hal::cell::Global;
use hal::clock::{monotonic_ns, realtime_ns};
use hal::trap::TrapFrame;
use uapi::Errno;
use uapi::raw::general;

static ON: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Settings from [`Trace`].
#[derive(Clone, Copy, Debug)]
struct Settings {
    calls: [u64; MAX_CALLS / 64],
    lines: bool,
    summary: bool,
    signals: bool,
    duration: bool,
    stamp: Stamp,
    string_limit: usize,
}

impl Settings {
    /// Whether a call is to be traced. Unknown call numbers always are.
    fn wants(&self, number: u64) -> bool {
        self.calls.get(number as usize / 64).is_none_or(|word| word >> (number % 64) & 1 != 0)
    }
}

static SETTINGS: Global<Cell<Settings>> = Global::new(Cell::new(Settings {
    calls: [0; MAX_CALLS / 64],
    lines: false,
    summary: false,
    signals: false,
    duration: false,
    stamp: Stamp::None,
    string_limit: 32,
}));

/// An unfinished call.
struct Begun {
    tid: i32,
    name: &'static str,
    line: String,
    /// Number of arguments printed so far.
    printed: usize,
    /// There are more arguments.
    has_more: bool,
    /// The line was printed as unfinished, because another thread printed a line in between.
    shown: bool,
}

static BEGUN: Global<RefCell<Vec<Begun>>> = Global::new(RefCell::new(Vec::new()));
/// Time of the last line.
static LAST: Global<Cell<u64>> = Global::new(Cell::new(0));

/// Whether calls are traced.
#[inline(always)]
pub fn is_on() -> bool {
    ON.get()
}

/// Starts tracing (boot).
pub fn turn_on(trace: &Trace) {
    task::exit::observe(task::exit::Observer { ended, pod_ends: summary::print });
    watch::Reason::new().keep();
    let mut calls = [0; MAX_CALLS / 64];
    for (word, wanted) in calls.iter_mut().zip(&trace.calls) {
        *word = *wanted;
    }
    SETTINGS.set(Settings {
        calls,
        lines: trace.lines,
        summary: trace.summary,
        signals: trace.signals && trace.lines,
        duration: trace.duration,
        stamp: trace.stamp,
        string_limit: trace.string_limit as usize,
    });
    ON.set(true);
}

/// Maximum number of bytes printed of a string.
fn string_limit() -> usize {
    SETTINGS.get().string_limit
}

fn send(line: &str) {
    // Ignore write errors.
    let _ = connector::call(Log { trace: true }, line.as_bytes(), &mut ());
}

/// Prints a line of thread `tid`, after unfinished lines of other threads.
fn print(tid: i32, line: &str) {
    loop {
        let other = BEGUN.borrow_mut().iter_mut().find(|b| b.tid != tid && !b.shown).map(|begun| {
            begun.shown = true;
            let mut line = core::mem::take(&mut begun.line);
            line.push_str(if begun.has_more { ", <unfinished ...>" } else { " <unfinished ...>" });
            line
        });
        match other {
            Some(line) => send(&line),
            None => break,
        }
    }
    send(line);
}

/// Prefix of a line: the thread, and the time if requested.
fn heading(tid: i32) -> String {
    let mut line = String::new();
    // Writing to a string can't fail, here and below.
    let _ = write!(line, "[{tid}] ");
    let seconds = realtime_ns() / 1_000_000_000;
    let micros = realtime_ns() / 1000 % 1_000_000;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    let _ = match SETTINGS.get().stamp {
        Stamp::None => Ok(()),
        Stamp::Time => write!(line, "{hours:02}:{minutes:02}:{:02} ", seconds % 60),
        Stamp::TimeMicros => write!(line, "{hours:02}:{minutes:02}:{:02}.{micros:06} ", seconds % 60),
        Stamp::Epoch => write!(line, "{seconds}.{micros:06} "),
        Stamp::Relative => {
            let now = monotonic_ns();
            let last = LAST.replace(now);
            let passed = if last == 0 { 0 } else { now.saturating_sub(last) / 1000 };
            write!(line, "{:6}.{:06} ", passed / 1_000_000, passed % 1_000_000)
        }
    };
    line
}

/// Runs a call and prints it.
pub fn run(frame: &mut TrapFrame, call: impl FnOnce(&mut TrapFrame) -> isize) -> isize {
    let settings = SETTINGS.get();
    let number = frame.number();
    if !settings.wants(number) {
        return call(frame);
    }
    let args = frame.arguments();
    let tid = task::with_current(|t| t.tid());
    if settings.lines {
        begin(tid, number, &args);
    }
    if [general::__NR_exit, general::__NR_exit_group].contains(&(number as u32)) {
        // These never return, so drop all handles on the stack.
        if settings.summary {
            summary::count(number, 0, 0);
        }
        if settings.lines {
            finish(tid, number, &args, None, 0);
        }
        return call(frame);
    }
    let start = monotonic_ns();
    let result = call(frame);
    let ns = monotonic_ns().saturating_sub(start);
    if settings.summary {
        summary::count(number, result, ns);
    }
    if settings.lines {
        finish(tid, number, &args, Some(result), ns);
    }
    result
}

/// Starts the line of a call.
fn begin(tid: i32, number: u64, args: &[u64; 6]) {
    let mut line = heading(tid);
    let call = find(number);
    let (name, printed) = match call {
        Some(call) => {
            let _ = write!(line, "{}(", call.name);
            (call.name, arguments::print(&mut line, call, args, 0, None))
        }
        None => {
            let [a, b, c, d, e, f] = args;
            let _ = write!(line, "syscall_{number}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x}");
            ("unknown", args.len())
        }
    };
    let mut begun = BEGUN.borrow_mut();
    begun.retain(|b| b.tid != tid);
    let has_more = printed > 0 && call.is_some_and(|call| printed < call.args.len());
    begun.push(Begun { tid, name, line, printed, has_more, shown: false });
}

/// Completes the line of a call and prints it. `None`: the call does not return.
fn finish(tid: i32, number: u64, args: &[u64; 6], result: Option<isize>, ns: u64) {
    let begun = {
        let mut all = BEGUN.borrow_mut();
        let Some(at) = all.iter().position(|b| b.tid == tid) else { return };
        all.swap_remove(at)
    };
    let mut line = begun.line;
    if begun.shown {
        line = heading(tid);
        let _ = write!(line, "<... {} resumed> ", begun.name);
    }
    let call = find(number);
    if let (Some(call), Some(result)) = (call, result) {
        let mut rest = String::new();
        arguments::print(&mut rest, call, args, begun.printed, Some(result));
        let separated = begun.shown && begun.has_more;
        line.push_str(if separated { rest.trim_start_matches(", ") } else { &rest });
    }
    line.push(')');
    outcome(&mut line, number, result);
    if SETTINGS.get().duration && result.is_some() {
        let _ = write!(line, " <{}.{:06}>", ns / 1_000_000_000, ns / 1000 % 1_000_000);
    }
    if let Some(call) = call.filter(|call| call.level == Level::None) {
        let _ = write!(line, " (not supported{}{})", if call.note.is_empty() { "" } else { ": " }, call.note);
    } else if call.is_none() {
        line.push_str(" (no such call)");
    }
    print(tid, &line);
}

/// The result of a call.
fn outcome(line: &mut String, number: u64, result: Option<isize>) {
    // The register after rt_sigreturn is not a result.
    let result = result.filter(|_| number != u64::from(general::__NR_rt_sigreturn));
    let _ = match result {
        None => write!(line, " = ?"),
        Some(result) if super::is_restart(result) => write!(line, " = ? {:?}", Errno::from_code(-result as i64)),
        Some(result @ -4095..0) => write!(line, " = -1 {:?}", Errno::from_code(-result as i64)),
        Some(result) if result > 0xff_ffff => write!(line, " = {result:#x}"),
        Some(result) => write!(line, " = {result}"),
    };
}

/// The current thread has taken a signal.
pub fn signal(info: &SigInfo) {
    if !SETTINGS.get().signals {
        return;
    }
    let tid = task::with_current(|t| t.tid());
    let mut line = heading(tid);
    line.push_str("--- ");
    names::signal(&mut line, u64::from(info.signal()));
    line.push_str(" {si_signo=");
    names::signal(&mut line, u64::from(info.signal()));
    line.push_str(", si_code=");
    let [first, second, ..] = info.fields;
    let origin = u64::from(info.code as u32);
    match info.signal() {
        general::SIGCHLD if info.code > 0 => {
            names::one(&mut line, origin, names::CHILD);
            let (pid, uid, status) = (first as u32, first >> 32, second as u32);
            let _ = write!(line, ", si_pid={pid}, si_uid={uid}, si_status=");
            match info.code {
                code::CLD_EXITED => drop(write!(line, "{status}")),
                _ => names::signal(&mut line, status.into()),
            }
        }
        general::SIGSEGV | general::SIGBUS | general::SIGILL | general::SIGFPE | general::SIGTRAP if info.code > 0 => {
            let _ = write!(line, "{}, si_addr={first:#x}", info.code);
        }
        _ => {
            names::one(&mut line, origin, names::ORIGIN);
            if info.code <= 0 && info.code != code::TIMER {
                let _ = write!(line, ", si_pid={}, si_uid={}", first as u32, first >> 32);
            }
        }
    }
    line.push_str("} ---");
    print(tid, &line);
}

/// The current thread ends with this wait status.
pub fn ended(status: i32) {
    let settings = SETTINGS.get();
    if !settings.lines || !settings.signals {
        return;
    }
    let tid = task::with_current(|t| t.tid());
    BEGUN.borrow_mut().retain(|b| b.tid != tid);
    let mut line = heading(tid);
    match status & 0x7f {
        0 => drop(write!(line, "+++ exited with {} +++", status >> 8 & 0xff)),
        signal => {
            line.push_str("+++ killed by ");
            names::signal(&mut line, signal as u64);
            line.push_str(" +++");
        }
    }
    print(tid, &line);
}

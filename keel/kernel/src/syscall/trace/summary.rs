//! Counts the calls and prints the table.

use super::{SETTINGS, send};
use crate::patch;
use crate::syscall::{MAX_CALLS, name, unserved};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt::Write;
use hal::cell::Global;
use hal::sync::waits::Waits;

/// Statistics of one call.
#[derive(Clone, Copy, Debug)]
struct Figures {
    calls: u64,
    errors: u64,
    ns: u64,
}

const NONE: Figures = Figures { calls: 0, errors: 0, ns: 0 };

static FIGURES: Global<[Cell<Figures>; MAX_CALLS]> = Global::new([const { Cell::new(NONE) }; MAX_CALLS]);

/// Counts a call that took `ns` from entry to result, including waits.
pub fn count(number: u64, result: isize, ns: u64) {
    let Some(cell) = FIGURES.get(number as usize) else { return };
    let figures = cell.get();
    // A restarted call counts again, and its first attempt is no error.
    let failed = (-511..0).contains(&result);
    cell.set(Figures {
        calls: figures.calls + 1,
        errors: figures.errors + u64::from(failed),
        ns: figures.ns.saturating_add(ns),
    });
}

/// Prints the table, if requested, at the end of the pod.
pub fn print() {
    if !SETTINGS.get().summary {
        return;
    }
    let mut rows: Vec<(usize, Figures)> =
        FIGURES.iter().map(Cell::get).enumerate().filter(|(_, f)| f.calls > 0).collect();
    rows.sort_by_key(|(_, figures)| core::cmp::Reverse((figures.ns, figures.calls)));
    let mut total = NONE;
    for (_, figures) in &rows {
        total.calls += figures.calls;
        total.errors += figures.errors;
        total.ns = total.ns.saturating_add(figures.ns);
    }
    const RULE: &str = "------ ----------- ----------- --------- --------- ----------------";
    send("% time     seconds  usecs/call     calls    errors syscall");
    send(RULE);
    for (number, figures) in &rows {
        send(&row(figures, total.ns, &name(*number as u64)));
    }
    send(RULE);
    send(&row(&total, total.ns, "total"));
    waits();
    sites();
}

/// One row of the table.
fn row(figures: &Figures, total_ns: u64, name: &str) -> String {
    // Hundredths of a per cent.
    let share = (u128::from(figures.ns) * 10_000).checked_div(u128::from(total_ns)).unwrap_or(0);
    let micros = figures.ns / 1000;
    let each = micros.checked_div(figures.calls).unwrap_or(0);
    let errors = if figures.errors > 0 { format!("{}", figures.errors) } else { String::new() };
    format!(
        "{:3}.{:02} {:4}.{:06} {each:11} {:9} {errors:>9} {name}",
        share / 100,
        share % 100,
        micros / 1_000_000,
        micros % 1_000_000,
        figures.calls,
    )
}

/// Waits for locks, if more than one virtual CPU was awake.
fn waits() {
    if !hal::smp::several() {
        return;
    }
    let mut kinds: Vec<Waits> = hal::sync::waits::all().collect();
    kinds.sort_by_key(|waits| core::cmp::Reverse(waits.ns));
    let mut line = String::new();
    for Waits { what, count, ns } in kinds {
        let micros = ns / 1000;
        let separator = if line.is_empty() { "" } else { ", " };
        // Writing to a string can't fail.
        let _ = write!(line, "{separator}{what} {count} ({}.{:03} ms)", micros / 1000, micros % 1000);
    }
    send(&format!("waits for locks: {}", if line.is_empty() { "none" } else { &line }));
}

/// Statistics of call sites, and unsupported calls.
fn sites() {
    let stats = patch::stats();
    send(&format!(
        "sites: {} patched, {} that trap for good; {} calls trapped, {} of them from generated code",
        stats.patched, stats.refused, stats.traps, stats.foreign,
    ));
    let mut line = String::new();
    for (number, times) in unserved() {
        // Writing to a string can't fail.
        let _ = write!(line, "{}{} ({number}) {times}", if line.is_empty() { "" } else { ", " }, name(number as u64));
    }
    if !line.is_empty() {
        send(&format!("not supported: {line}"));
    }
}

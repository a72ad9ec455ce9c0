//! Limits of a process, and its out-of-memory score.

use super::subject::Subject;
use super::written_number;
use crate::task;
use crate::task::cred::cap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Names and units by `RLIMIT_*` number.
const ROWS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

/// `limits`.
pub fn text(subject: &Subject) -> Result<Vec<u8>> {
    let limits = subject.process()?.limits();
    let shown = |value: u64| if value == u64::MAX { String::from("unlimited") } else { format!("{value}") };
    let mut out = format!("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for ((name, unit), (soft, hard)) in ROWS.into_iter().zip(limits) {
        out.push_str(&format!("{name:<25} {:<20} {:<20} ", shown(soft), shown(hard)));
        out.push_str(&if unit.is_empty() { String::from("\n") } else { format!("{unit:<10}\n") });
    }
    Ok(out.into_bytes())
}

/// `io`: of the whole process. Bytes that reach disks are unknown to keel.
pub fn io(subject: &Subject) -> Result<Vec<u8>> {
    let process = match subject.is_keel() {
        true => subject.process()?,
        false => subject.inspected()?.process().clone(),
    };
    let [read_bytes, written_bytes, reads, writes] = process.io().values();
    let rows = [
        ("rchar", read_bytes),
        ("wchar", written_bytes),
        ("syscr", reads),
        ("syscw", writes),
        ("read_bytes", 0),
        ("write_bytes", 0),
        ("cancelled_write_bytes", 0),
    ];
    Ok(rows.map(|(name, value)| format!("{name}: {value}\n")).concat().into_bytes())
}

/// `oom_score`: 0 to 2000, the higher the sooner it is killed.
pub fn oom_score(subject: &Subject) -> Result<Vec<u8>> {
    let process = subject.process()?;
    let resident = process.main_thread().and_then(|t| t.try_mm()).map_or(0, |mm| mm.resident_bytes());
    let adjust = i64::from(process.oom_score_adj.get());
    let total = hal::frame::ram_usage().limit.max(1000) as i64;
    let score = if adjust == -1000 {
        0
    } else {
        let badness = (resident as i64 + adjust * (total / 1000)) as i128 * 1000 / i128::from(total);
        ((1000 + badness as i64) * 2 / 3).max(0)
    };
    Ok(format!("{score}\n").into_bytes())
}

/// `oom_score_adj`.
pub fn oom_score_adj(subject: &Subject) -> Result<Vec<u8>> {
    Ok(format!("{}\n", subject.process()?.oom_score_adj.get()).into_bytes())
}

/// A write to `oom_score_adj`. EACCES, EINVAL.
pub fn set_oom_score_adj(subject: &Subject, data: &[u8]) -> Result<()> {
    let value = written_number(data)?;
    if !(-1000..=1000).contains(&value) {
        return Err(Errno::EINVAL);
    }
    set(subject, value as i32)
}

fn set(subject: &Subject, value: i32) -> Result<()> {
    let process = subject.process()?;
    let lowest = process.oom_score_adj.get().min(0);
    if value < lowest && !task::with_current(|t| t.cred().capable(cap::SYS_RESOURCE)) {
        return Err(Errno::EACCES);
    }
    process.oom_score_adj.set(value);
    Ok(())
}

/// `oom_adj`, the older scale of -17 to 15.
pub fn oom_adj(subject: &Subject) -> Result<Vec<u8>> {
    let value = match subject.process()?.oom_score_adj.get() {
        1000 => 15,
        other => other * 17 / 1000,
    };
    Ok(format!("{}\n", value.clamp(-17, 15)).into_bytes())
}

/// A write to `oom_adj`. EACCES, EINVAL.
pub fn set_oom_adj(subject: &Subject, data: &[u8]) -> Result<()> {
    match written_number(data)? {
        15 => set(subject, 1000),
        value @ -17..15 => set(subject, value as i32 * 1000 / 17),
        _ => Err(Errno::EINVAL),
    }
}

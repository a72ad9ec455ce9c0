//! When memory is used up: one process has to go.

use super::pid;
use super::process::{self, Process};
use crate::mm::reclaim;
use crate::sched;
use crate::sched::connector;
use crate::signal::{SigInfo, send_to_process};
use abi::request::Log;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Pages of cached files that are given back at once.
const CACHE_STEP: usize = 1024;

/// Runs `operation`, again for as long as it finds no memory and cached files can be given back for it.
pub fn with_memory<R>(mut operation: impl FnMut() -> Result<R>) -> Result<R> {
    // Not all that is out of memory is for want of frames.
    let is_short = || {
        let ram = hal::frame::ram_usage();
        ram.limit.saturating_sub(ram.total) + ram.free < ram.limit / 8
    };
    loop {
        match operation() {
            Err(Errno::ENOMEM) if is_short() && reclaim::shrink(CACHE_STEP) > 0 => {}
            other => return other,
        }
    }
}

/// Whether memory for keel's own objects is no longer scarce, after what can be had again was given back. Must not be
/// asked while a cache is borrowed.
pub fn restore() -> bool {
    // What walks all caches and gets nothing is not done for each call.
    static IN_VAIN: Global<Cell<u32>> = Global::new(Cell::new(0));
    const PAUSE: u32 = 64;
    if hal::frame::is_scarce() {
        hal::heap::trim();
    }
    if hal::frame::is_scarce() {
        crate::file::socket::unix::rights::collect();
        hal::heap::trim();
    }
    let pause = IN_VAIN.get();
    if hal::frame::is_scarce() && pause > 0 {
        IN_VAIN.set(pause - 1);
    } else if hal::frame::is_scarce() {
        if reclaim::shrink(CACHE_STEP) > 0 {
            hal::heap::trim();
        }
        IN_VAIN.set(if hal::frame::is_scarce() { PAUSE } else { 0 });
    }
    !hal::frame::is_scarce()
}

/// Ends processes until keel has enough memory for those that go on. EINTR if the caller is one that ends.
pub fn relieve() -> Result<()> {
    while hal::frame::is_critical() {
        if super::current().is_killed() {
            return Err(Errno::EINTR);
        }
        kill_largest();
        restore();
    }
    Ok(())
}

/// What keel keeps for an open file, roughly.
const FILE_BYTES: i64 = 1024;

/// How bad it is to keep a process: resident bytes and what its files take, changed by `oom_score_adj` in thousandths of
/// the pod's memory; `None` for one that must not be killed.
fn badness(process: &Rc<Process>, limit: u64) -> Option<i64> {
    let adjust = i64::from(process.oom_score_adj.get());
    let mm = process.main_thread()?.try_mm()?;
    if adjust == -1000 {
        return None;
    }
    let files = process.main_thread()?.files().count() as i64 * FILE_BYTES;
    Some(mm.resident_bytes() as i64 + files + adjust * (limit / 1000) as i64)
}

/// Kills the largest process and lets others run; the current thread tries again afterwards.
pub fn kill_largest() {
    // Cached files of the host can be read again.
    if reclaim::shrink(CACHE_STEP) > 0 {
        return;
    }
    // One that is on its way out already will give its memory back.
    let dying = process::all().any(|p| p.signals.group_exit.get().is_some() && p.thread_count() > 0);
    if !dying {
        let limit = hal::frame::ram_usage().limit;
        let mut largest: Option<(i64, Rc<Process>)> = None;
        for process in process::all() {
            if let Some(score) = badness(&process, limit)
                && largest.as_ref().is_none_or(|(best, _)| score >= *best)
            {
                largest = Some((score, process));
            }
        }
        // The first process is all that can be left.
        let Some(victim) = largest.map(|(_, p)| p).or_else(|| pid::find_process(pid::FIRST)) else { return };
        let (comm, len) = victim.main_thread().map_or(([0; 16], 0), |t| t.comm());
        let text = alloc::format!(
            "hull: out of memory (limit {} MiB): killed {} ({})",
            limit >> 20,
            victim.pid(),
            String::from_utf8_lossy(&comm[..len]),
        );
        // An error of writing the message is ignored.
        let _ = connector::call(Log { trace: false }, text.as_bytes(), &mut ());
        let _ = send_to_process(&victim, SigInfo::from_kernel(g::SIGKILL));
    }
    sched::yield_now();
}

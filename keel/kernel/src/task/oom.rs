//! Out of memory: selects and kills a process.

use super::pid;
use super::process::{self, Process};
use crate::mm::reclaim;
use crate::sched;
use crate::sched::connector;
use crate::signal::{SigInfo, send_to_process};
use abi::layout::PAGE_SIZE;
use abi::request::Log;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Pages of cached files to free at once.
const CACHE_STEP: usize = 1024;

/// Most repetitions of an operation for which the page cache is shrunk: it may bring back what was freed.
const MOST_ATTEMPTS: u32 = 16;

/// Runs `operation`; repeats it while it fails with ENOMEM and the page cache can be shrunk, but not for ever.
pub fn with_memory<R>(mut operation: impl FnMut() -> Result<R>) -> Result<R> {
    // ENOMEM does not always mean a lack of frames.
    let is_short = || {
        let ram = hal::frame::ram_usage();
        ram.limit.saturating_sub(ram.total) + ram.free < ram.limit / 8
    };
    for _ in 0..MOST_ATTEMPTS {
        match operation() {
            Err(Errno::ENOMEM) if is_short() && reclaim::shrink(CACHE_STEP) > 0 => {}
            other => return other,
        }
    }
    operation()
}

/// Frees reclaimable memory; returns whether memory for keel's own objects is no longer scarce. Must not be called
/// while a cache is borrowed.
pub fn restore() -> bool {
    // Do not walk all caches in vain at each call.
    static IN_VAIN: Global<Cell<u32>> = Global::new(Cell::new(0));
    const PAUSE: u32 = 64;
    if hal::frame::is_scarce() {
        hal::frame::give_kept();
        hal::heap::trim();
    }
    if hal::frame::is_scarce() {
        crate::socket::unix::rights::collect();
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

/// Kills processes until keel has enough memory for the others. EINTR if the caller is killed.
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

/// Approximate memory of keel per open file, in bytes.
const FILE_BYTES: i64 = 1024;

/// OOM score of a process: resident bytes and the memory of its files, adjusted by `oom_score_adj` in thousandths of
/// the pod's memory; `None` if it must not be killed.
fn badness(process: &Rc<Process>, limit: u64) -> Option<i64> {
    let adjust = i64::from(process.oom_score_adj.get());
    let mm = process.main_thread()?.try_mm()?;
    if adjust == -1000 {
        return None;
    }
    let files = process.main_thread()?.files().count() as i64 * FILE_BYTES;
    Some(mm.resident_bytes() as i64 + files + adjust * (limit / 1000) as i64)
}

/// Makes room for a page fault of the current thread, which then tries again: frees cached pages, or kills the largest
/// process.
pub fn make_room(address: usize) {
    let me = super::current();
    let mut starved = me.starved.get();
    let in_vain = starved.fails(address);
    me.starved.set(starved);
    if in_vain || !free_cached() {
        kill();
    }
}

/// Page faults of a thread that found no memory.
///
/// If the pages that one instruction needs do not fit together, each fault drops from the cache what the one before has
/// read. So repetition at the same few pages is in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starved {
    /// The last ones.
    pages: [usize; Self::PAGES],
    next: usize,
    attempts: u32,
}

impl Starved {
    /// One instruction needs about so many pages.
    const PAGES: usize = 4;
    /// Notes one at `address`; returns whether there were too many at the same pages.
    fn fails(&mut self, address: usize) -> bool {
        let page = address / PAGE_SIZE;
        if self.pages.contains(&page) {
            self.attempts += 1;
        } else {
            self.pages[self.next] = page;
            (self.next, self.attempts) = ((self.next + 1) % Self::PAGES, 0);
        }
        let in_vain = self.attempts >= MOST_ATTEMPTS;
        if in_vain {
            *self = Self::default();
        }
        in_vain
    }
}

/// Frees cached pages of host files, which can be read again; returns whether there is more memory now. Pages that
/// programs map stay in use.
fn free_cached() -> bool {
    let left = || {
        let ram = hal::frame::ram_usage();
        ram.limit.saturating_sub(ram.total) + ram.free
    };
    let before = left();
    if reclaim::shrink(CACHE_STEP) == 0 {
        return false;
    }
    hal::heap::trim();
    left() > before
}

/// Kills the largest process and yields; the current thread then tries again.
fn kill_largest() {
    if !free_cached() {
        kill();
    }
}

/// Kills the largest process, unless one ends already, and lets other threads and virtual CPUs run.
fn kill() {
    // A dying process will free its memory.
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
        // Otherwise only the first process can be left.
        let Some(victim) = largest.map(|(_, p)| p).or_else(|| pid::find_process(pid::FIRST)) else { return };
        let (comm, len) = victim.main_thread().map_or(([0; 16], 0), |t| t.comm());
        let text = alloc::format!(
            "hull: out of memory (limit {} MiB): killed {} ({})",
            limit >> 20,
            victim.pid(),
            String::from_utf8_lossy(&comm[..len]),
        );
        // Ignore write errors.
        let _ = connector::call(Log { trace: false }, text.as_bytes(), &mut ());
        let _ = send_to_process(&victim, SigInfo::from_kernel(g::SIGKILL));
    }
    sched::yield_now();
    // The thread that ends may wait for the lock on another virtual CPU.
    hal::smp::give_way();
}

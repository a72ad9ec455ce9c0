//! The end of the pod: what programs sent still leaves, as far as peers take it.
//!
//! On Linux the kernel goes on to send after the end of a process. Here the host's kernel does that for what is in its
//! buffers, but what keel queues must reach these first. So the pod ends when the host has taken all of it, or nothing has arrived at
//! any peer for [`STALL_NS`]. Then the connections with a rest are broken off: their peers get a reset instead of an
//! end of the stream, which would tell them that they have all.

use super::Link;
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use hal::clock::monotonic_ns;
use sched::connector;

/// Longest time that the end of the pod waits, in ns.
const LONGEST_NS: u64 = 10_000_000_000;
/// How long it waits while no peer takes anything, in ns.
const STALL_NS: u64 = 1_000_000_000;
/// How often it looks for what the host has taken, in ns.
const LOOK_NS: u64 = 5_000_000;
/// How often it asks what has arrived, in ns.
const ASK_NS: u64 = 100_000_000;

/// Links with data on its way to the host.
static BUSY: Global<Cell<usize>> = Global::new(Cell::new(0));
/// When bytes arrived at a peer for the last time, as far as asked, in ns.
static PROGRESS: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Links by their numbers.
static LINKS: Global<RefCell<BTreeMap<u64, Weak<Link>>>> = Global::new(RefCell::new(BTreeMap::new()));

/// A link has data on its way, or no more.
pub fn count_busy(begins: bool) {
    BUSY.set(if begins { BUSY.get() + 1 } else { BUSY.get().saturating_sub(1) });
}

/// A peer has taken more.
pub fn note_progress() {
    PROGRESS.set(monotonic_ns());
}

/// Registers a link.
pub fn register(number: u64, link: Weak<Link>) {
    LINKS.borrow_mut().insert(number, link);
}

/// The link is dropped.
pub fn forget(number: u64) {
    let old = LINKS.borrow_mut().remove(&number);
    drop(old);
}

/// Without a list of them, for which there may be no memory.
fn busy_links() -> impl Iterator<Item = Rc<Link>> {
    vfs::memory::values(&LINKS).filter_map(|link| link.upgrade()).filter(|link| link.is_busy())
}

/// The pod ends: waits until the host has what programs sent, or peers take no more.
pub fn drain() {
    connector::poll_completions();
    let start = monotonic_ns();
    let until = start.saturating_add(LONGEST_NS);
    PROGRESS.set(start);
    let mut ask = start;
    while BUSY.get() > 0 {
        let now = monotonic_ns();
        if now >= until || now >= PROGRESS.get().saturating_add(STALL_NS) {
            return busy_links().for_each(|link| link.abort());
        }
        if now >= ask {
            ask = now + ASK_NS;
            busy_links().for_each(|link| link.ask_arrived());
        }
        hal::ring::idle(Some(until.min(now + LOOK_NS)));
        connector::poll_completions();
    }
}

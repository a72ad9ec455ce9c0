//! Whether a virtual CPU without a runnable thread waits in the guest for a while, before it exits.
//!
//! An exit and the wake-up of a thread of the host take far longer than a peer on the same machine or network needs for an answer. While
//! requests and answers alternate, the helper of the monitor sends the request and receives the answer instead, and this virtual CPU finds the
//! completion in the ring. If many requests are under way, the exit serves them all at once and is cheaper.

use super::{posted, ring};
use abi::boot::flags;
use core::cell::Cell;
use hal::cell::Global;
use hal::clock::monotonic_ns;

/// How long it waits at most, ns; 0: not at all. Adapts.
static PATIENCE: Global<Cell<u64>> = Global::new(Cell::new(0));

/// Shortest and longest wait.
const LEAST_NS: u64 = 50_000;
const MOST_NS: u64 = 200_000;
/// An exit that lasted less would have been avoided.
const SHORT_NS: u64 = 400_000;
/// Most requests posted since the last wait with which requests and answers still alternate.
const FEW: u32 = 6;

/// Waits for a completion until `deadline_ns` or for a while. Returns whether there may be work; otherwise the virtual CPU exits.
pub(super) fn linger(deadline_ns: Option<u64>) -> bool {
    let posted = posted::take_posted();
    if !posted::has_sockets() || ring::mode() & (flags::DOORBELL_EXIT | flags::DOORBELL_EVENT) != 0 {
        return false;
    }
    let patience = PATIENCE.get();
    let alternates = posted <= FEW && patience > 0;
    ring::want_polling(alternates || ring::mode() & flags::DOORBELL_POLL != 0);
    if !alternates {
        return false;
    }
    let left = deadline_ns.map_or(u64::MAX, |deadline| deadline.saturating_sub(monotonic_ns()));
    match ring::linger(patience.min(left)) {
        // Nobody attends: an exit calls the helper.
        None => false,
        Some(true) => {
            posted::told();
            adapt(true);
            true
        }
        Some(false) => {
            adapt(false);
            left <= patience
        }
    }
}

/// Records how long the virtual CPU waited in the monitor.
pub(super) fn note_idle(ns: u64) {
    adapt(ns < SHORT_NS);
}

fn adapt(longer: bool) {
    let ns = PATIENCE.get();
    PATIENCE.set(match longer {
        true => (ns * 2).clamp(LEAST_NS, MOST_NS),
        false if ns / 2 < LEAST_NS => 0,
        false => ns / 2,
    });
}

//! Load averages: the number of running or runnable threads, over 1, 5 and 15 minutes.
//!
//! Linux samples every five seconds. Keel has no periodic timer, so it catches up on the elapsed periods when time is
//! accounted: the running time is known exactly, and the current number of queued threads is used for all of them.

use super::with_current;
use core::cell::Cell;
use hal::cell::Global;
use hal::clock::monotonic_ns;

/// Sampling interval in ns.
const PERIOD_NS: u64 = 5_000_000_000;
/// 1.0 in Linux's fixed-point format of loads.
const ONE: u64 = 1 << 11;
/// Decay factors per period of the three averages.
const DECAY: [u64; 3] = [1884, 2014, 2037];
/// After this many periods the old load is negligible.
const MOST_PERIODS: u64 = 4096;
/// sysinfo(2) has more fraction bits.
const SYSINFO_SHIFT: u32 = 5;

#[derive(Clone, Copy)]
struct State {
    /// End of the last period, monotonic ns.
    since_ns: u64,
    /// Processor time of all threads since then.
    busy_ns: u64,
    loads: [u64; 3],
}

static STATE: Global<Cell<State>> = Global::new(Cell::new(State { since_ns: 0, busy_ns: 0, loads: [0; 3] }));

/// Accounts for a thread that ran for `ns` until `now_ns`.
#[inline]
pub(crate) fn add(ns: u64, now_ns: u64) {
    let mut state = STATE.get();
    state.busy_ns += ns;
    STATE.set(state);
    if now_ns.saturating_sub(state.since_ns) >= PERIOD_NS {
        advance(now_ns);
    }
}

/// Catches up on elapsed periods.
#[cold]
fn advance(now_ns: u64) {
    let mut state = STATE.get();
    if state.since_ns == 0 {
        // The pod has just started.
        STATE.set(State { since_ns: now_ns, busy_ns: 0, ..state });
        return;
    }
    let elapsed = now_ns.saturating_sub(state.since_ns);
    let ran = u64::try_from(u128::from(state.busy_ns) * u128::from(ONE) / u128::from(elapsed.max(1))).unwrap_or(ONE);
    let active = ran + super::queued() as u64 * ONE;
    for (load, decay) in state.loads.iter_mut().zip(DECAY) {
        for _ in 0..(elapsed / PERIOD_NS).min(MOST_PERIODS) {
            // Rounds up while the load rises, as in Linux.
            let round = if active >= *load { ONE - 1 } else { 0 };
            *load = (*load * decay + active * (ONE - decay) + round) / ONE;
        }
    }
    state.since_ns = now_ns - elapsed % PERIOD_NS;
    state.busy_ns = 0;
    STATE.set(state);
}

/// Load averages over 1, 5 and 15 minutes times 65536.
pub fn averages() -> [u64; 3] {
    // Accounts for the running thread too.
    with_current(|me| me.usage());
    let now = monotonic_ns();
    add(0, now);
    STATE.get().loads.map(|load| load << SYSINFO_SHIFT)
}

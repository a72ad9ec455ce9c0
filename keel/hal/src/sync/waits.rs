//! How often virtual CPUs waited for locks, and for how long: counted where they wait, so that a free lock costs nothing.

use super::rank::Rank;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Waits for the locks of one kind.
#[derive(Debug)]
struct Counter {
    count: AtomicU64,
    /// TSC ticks.
    ticks: AtomicU64,
}

/// Number of kinds: the ranks, and the big lock.
const KINDS: usize = Rank::ALL.len() + 1;
/// The big lock's place.
const BIG: usize = KINDS - 1;

static COUNTERS: [Counter; KINDS] = [const { Counter { count: AtomicU64::new(0), ticks: AtomicU64::new(0) } }; KINDS];

/// Waits for the locks of one kind, in all virtual CPUs since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// What the locks protect.
    pub what: &'static str,
    /// How often a virtual CPU found one held.
    pub count: u64,
    /// Total time until it was free, in ns.
    pub ns: u64,
}

fn count(kind: usize, ticks: u64) {
    let counter = &COUNTERS[kind];
    counter.count.fetch_add(1, Relaxed);
    counter.ticks.fetch_add(ticks, Relaxed);
}

/// A lock of this rank was held when a virtual CPU wanted it, and for `ticks` of the TSC from then on.
pub(super) fn waited(rank: Rank, ticks: u64) {
    count(rank as usize, ticks);
}

/// The same for the big lock.
pub(crate) fn waited_for_big_lock(ticks: u64) {
    count(BIG, ticks);
}

/// The kinds of locks that were waited for.
pub fn all() -> impl Iterator<Item = Waits> {
    let names = Rank::ALL.iter().map(|rank| rank.name()).chain(core::iter::once("big lock"));
    COUNTERS.iter().zip(names).filter_map(|(counter, what)| {
        let count = counter.count.load(Relaxed);
        let ns = crate::clock::ns_of(counter.ticks.load(Relaxed));
        (count > 0).then_some(Waits { what, count, ns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_places() {
        for (place, rank) in Rank::ALL.iter().enumerate() {
            assert_eq!(*rank as usize, place, "{rank:?}");
        }
    }

    #[test]
    fn waits_are_counted_by_kind() {
        let find = || all().find(|waits| waits.what == Rank::Told.name()).map_or((0, 0), |w| (w.count, w.ns));
        let before = find();
        waited(Rank::Told, 1_000_000);
        waited(Rank::Told, 0);
        let after = find();
        assert_eq!(after.0, before.0 + 2);
        assert!(after.1 >= before.1);
    }
}

//! Signal numbers, sets of them, and queues of pending ones; signal(7).

use alloc::collections::VecDeque;

/// Largest signal number.
pub const MAX_SIGNAL: u32 = 64;
/// First real-time signal: from here on every instance is queued.
pub const FIRST_REALTIME: u32 = 32;

/// A set of signals 1 to 64: bit `n - 1` is signal `n`, as in the user ABI's 8-byte `sigset_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigSet(pub u64);

impl SigSet {
    /// No signal.
    pub const EMPTY: Self = Self(0);

    /// The set of one signal; empty for a number out of range.
    pub const fn of(signal: u32) -> Self {
        if signal >= 1 && signal <= MAX_SIGNAL { Self(1 << (signal - 1)) } else { Self(0) }
    }

    /// The set of several signals.
    pub const fn of_all(signals: &[u32]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < signals.len() {
            bits |= Self::of(signals[i]).0;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `signal` is in the set.
    pub const fn has(self, signal: u32) -> bool {
        self.0 & Self::of(signal).0 != 0
    }

    /// Members of either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members of both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Members of `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether no signal is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest signal of the set.
    pub const fn first(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() + 1) }
    }
}

/// Pending signals with their siginfo.
#[derive(Debug)]
pub struct SigQueue<T> {
    set: SigSet,
    entries: VecDeque<(u32, T)>,
}

impl<T> Default for SigQueue<T> {
    fn default() -> Self {
        Self { set: SigSet::EMPTY, entries: VecDeque::new() }
    }
}

impl<T> SigQueue<T> {
    /// Signals that are pending.
    pub fn set(&self) -> SigSet {
        self.set
    }

    /// Number of queued signals.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no signal is pending.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Reserves memory for one more entry and one of each standard signal; `false`: out of memory.
    pub fn try_reserve(&mut self) -> bool {
        self.entries.try_reserve(FIRST_REALTIME as usize).is_ok()
    }

    /// Adds a signal. Returns `false` for a standard signal that is pending already, and leaves that unchanged.
    pub fn push(&mut self, signal: u32, info: T) -> bool {
        if signal < FIRST_REALTIME && self.set.has(signal) {
            return false;
        }
        self.push_another(signal, info);
        true
    }

    /// Adds a signal beside equal ones, also a standard one: each POSIX timer has an entry of its own.
    pub fn push_another(&mut self, signal: u32, info: T) {
        self.set = self.set.union(SigSet::of(signal));
        self.entries.push_back((signal, info));
    }

    /// Takes the next signal of `wanted`: signals in `first` before others, then by number, FIFO among equal ones.
    pub fn pop(&mut self, wanted: SigSet, first: SigSet) -> Option<(u32, T)> {
        let candidates = self.set.intersection(wanted);
        let signal = candidates.intersection(first).first().or_else(|| candidates.first())?;
        let index = self.entries.iter().position(|(s, _)| *s == signal);
        let taken = index.and_then(|i| self.entries.remove(i));
        if !self.entries.iter().any(|(s, _)| *s == signal) {
            self.set = self.set.without(SigSet::of(signal));
        }
        taken
    }

    /// Drops all pending signals of `which`.
    pub fn discard(&mut self, which: SigSet) {
        if !self.set.intersection(which).is_empty() {
            self.set = self.set.without(which);
            self.entries.retain(|(s, _)| !which.has(*s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_numbers_are_bits_from_one() {
        assert_eq!(SigSet::of(1).0, 1);
        assert_eq!(SigSet::of(64).0, 1 << 63);
        assert!(SigSet::of(0).is_empty() && SigSet::of(65).is_empty());
        assert_eq!(SigSet::of_all(&[9, 2]).first(), Some(2));
    }

    #[test]
    fn standard_signals_merge_and_realtime_ones_queue() {
        let mut q = SigQueue::default();
        assert!(q.push(10, 1));
        assert!(!q.push(10, 2));
        assert!(q.push(34, 3));
        assert!(q.push(34, 4));
        let all = SigSet(!0);
        assert_eq!(q.pop(all, SigSet::EMPTY), Some((10, 1)));
        assert_eq!(q.pop(all, SigSet::EMPTY), Some((34, 3)));
        assert!(q.set().has(34));
        assert_eq!(q.pop(all, SigSet::EMPTY), Some((34, 4)));
        assert!(q.is_empty());
        q.push(10, 1);
        q.push_another(10, 2);
        assert!(!q.push(10, 3));
        assert_eq!((q.pop(all, SigSet::EMPTY), q.pop(all, SigSet::EMPTY)), (Some((10, 1)), Some((10, 2))));
        assert!(q.is_empty());
    }

    #[test]
    fn preferred_and_masked() {
        let mut q = SigQueue::default();
        q.push(2, ());
        q.push(11, ());
        assert_eq!(q.pop(SigSet(!0), SigSet::of(11)), Some((11, ())));
        assert_eq!(q.pop(SigSet::of(3), SigSet::EMPTY), None);
        q.discard(SigSet::of(2));
        assert!(q.is_empty());
    }
}

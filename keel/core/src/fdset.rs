//! A set of small numbers (descriptors) that finds the lowest absent one quickly.

use alloc::vec::Vec;

const WORD: usize = u64::BITS as usize;

/// A growing bitmap with a summary: bit `w` of the summary says that word `w` is full, so that a few word scans find
/// the lowest free number among thousands.
#[derive(Clone, Debug, Default)]
pub struct FdSet {
    words: Vec<u64>,
    full: Vec<u64>,
}

impl FdSet {
    /// An empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new(), full: Vec::new() }
    }

    /// Whether `n` is in the set.
    pub fn contains(&self, n: usize) -> bool {
        self.words.get(n / WORD).is_some_and(|w| w & (1 << (n % WORD)) != 0)
    }

    /// The members below 64, one bit each.
    pub fn first_word(&self) -> u64 {
        self.words.first().copied().unwrap_or(0)
    }

    /// Reserves memory for `n`; `false`: out of memory.
    pub fn try_reserve(&mut self, n: usize) -> bool {
        fn grow(list: &mut Vec<u64>, len: usize) -> bool {
            let more = len.saturating_sub(list.len());
            if list.try_reserve(more).is_err() {
                return false;
            }
            list.resize(list.len() + more, 0);
            true
        }
        let word = n / WORD;
        grow(&mut self.words, word + 1) && grow(&mut self.full, word / WORD + 1)
    }

    /// Copies the set; `None`: out of memory.
    pub fn try_clone(&self) -> Option<Self> {
        let copy = |list: &Vec<u64>| {
            let mut copy = Vec::new();
            copy.try_reserve_exact(list.len()).ok()?;
            copy.extend_from_slice(list);
            Some(copy)
        };
        Some(Self { words: copy(&self.words)?, full: copy(&self.full)? })
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds `n`. Allocates unless there is room.
    pub fn insert(&mut self, n: usize) {
        let word = n / WORD;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.full.resize(word / WORD + 1, 0);
        }
        self.words[word] |= 1 << (n % WORD);
        if self.words[word] == u64::MAX {
            self.full[word / WORD] |= 1 << (word % WORD);
        }
    }

    /// Removes `n`.
    pub fn remove(&mut self, n: usize) {
        let word = n / WORD;
        if let Some(bits) = self.words.get_mut(word) {
            *bits &= !(1 << (n % WORD));
            self.full[word / WORD] &= !(1 << (word % WORD));
        }
    }

    /// Adds or removes `n`.
    pub fn set(&mut self, n: usize, present: bool) {
        if present { self.insert(n) } else { self.remove(n) }
    }

    /// The lowest number from `from` on that is absent.
    pub fn first_absent(&self, from: usize) -> usize {
        let first = from / WORD;
        if let Some(&bits) = self.words.get(first) {
            let free = !bits & (u64::MAX << (from % WORD));
            if free != 0 {
                return first * WORD + free.trailing_zeros() as usize;
            }
        } else {
            return from;
        }
        let mut word = first + 1;
        while word < self.words.len() {
            let open = !self.full[word / WORD] & (u64::MAX << (word % WORD));
            if open == 0 {
                word = (word / WORD + 1) * WORD;
                continue;
            }
            word = word / WORD * WORD + open.trailing_zeros() as usize;
            break;
        }
        match self.words.get(word) {
            Some(bits) => word * WORD + (!bits).trailing_zeros() as usize,
            None => self.words.len() * WORD,
        }
    }

    /// The members from `from` on, ascending.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        let mut word = from / WORD;
        let mut bits = self.words.get(word).map_or(0, |w| w & (u64::MAX << (from % WORD)));
        core::iter::from_fn(move || {
            while bits == 0 {
                word += 1;
                bits = *self.words.get(word)?;
            }
            let n = word * WORD + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(n)
        })
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.words.clear();
        self.full.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_lowest_absent() {
        let mut s = FdSet::new();
        assert_eq!(s.first_absent(0), 0);
        assert_eq!(s.first_absent(77), 77);
        for n in 0..10_000 {
            assert_eq!(s.first_absent(0), n);
            s.insert(n);
        }
        assert_eq!(s.first_absent(0), 10_000);
        assert_eq!(s.first_absent(9_999), 10_000);
        assert_eq!(s.first_absent(20_000), 20_000);
        s.remove(5_000);
        assert_eq!(s.first_absent(0), 5_000);
        assert_eq!(s.first_absent(5_000), 5_000);
        assert_eq!(s.first_absent(5_001), 10_000);
        s.remove(64);
        assert_eq!(s.first_absent(3), 64);
        assert!(!s.contains(64) && s.contains(65) && !s.contains(1 << 40));
    }

    #[test]
    fn iterates_members() {
        let mut s = FdSet::new();
        for n in [1, 63, 64, 200] {
            s.insert(n);
        }
        assert!(s.iter_from(0).eq([1, 63, 64, 200]));
        assert!(s.iter_from(2).eq([63, 64, 200]));
        assert!(s.iter_from(65).eq([200]));
        assert!(s.iter_from(201).next().is_none());
        assert!(s.iter_from(100_000).next().is_none());
    }
}

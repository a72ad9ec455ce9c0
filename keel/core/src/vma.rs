//! The mappings of an address space, ordered by address: split, merge, punch holes, find free ranges.
//!
//! Generic over the attributes of a mapping ([`Attributes`]), so that tests need no page tables. Addresses and lengths
//! are in bytes; the caller passes multiples of a page.

use crate::pieces::Pieces;
use alloc::vec::Vec;
use core::cell::Cell;

#[cfg(test)]
mod tests;

/// Attributes of a mapping besides its range.
pub trait Attributes: Clone {
    /// The same attributes `bytes` further into the backing file: those of the upper part after a split.
    fn advance(&self, bytes: usize) -> Self;
    /// Whether `next` continues these attributes after `len` bytes, so that the two mappings can merge.
    fn continues(&self, len: usize, next: &Self) -> bool;
    /// Bytes below the mapping that [`VmaSet::find_free`] keeps free: the guard gap of a stack.
    fn gap_below(&self) -> usize {
        0
    }
}

/// One mapping: `[start, end)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma<A> {
    /// First byte.
    pub start: usize,
    /// First byte after it.
    pub end: usize,
    /// Its attributes.
    pub attrs: A,
}

impl<A> Vma<A> {
    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Never true for a mapping of a set.
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Whether `addr` lies inside.
    pub const fn contains(&self, addr: usize) -> bool {
        self.start <= addr && addr < self.end
    }
}

/// Non-overlapping mappings in ascending order; adjacent mappings are merged if possible.
#[derive(Clone, Debug)]
pub struct VmaSet<A> {
    items: Vec<Vma<A>>,
    tight: Cell<Tight>,
}

/// What a search for a free range has seen: below each mapping from `from` on, as far as the search went up, less than `need`
/// bytes are free. So the next one need not look at these again, however many they are.
#[derive(Clone, Copy, Debug)]
struct Tight {
    from: usize,
    need: usize,
    /// Limits of the search.
    low: usize,
    high: usize,
}

impl Tight {
    const NOTHING: Self = Self { from: usize::MAX, need: usize::MAX, low: 0, high: 0 };
}

impl<A> Default for VmaSet<A> {
    fn default() -> Self {
        Self { items: Vec::new(), tight: Cell::new(Tight::NOTHING) }
    }
}

impl<A: Attributes> VmaSet<A> {
    /// No mappings.
    pub const fn new() -> Self {
        Self { items: Vec::new(), tight: Cell::new(Tight::NOTHING) }
    }

    /// Number of mappings.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All mappings, ascending.
    pub fn iter(&self) -> core::slice::Iter<'_, Vma<A>> {
        self.items.iter()
    }

    /// Index of the first mapping that ends above `addr`.
    fn index_above(&self, addr: usize) -> usize {
        self.items.partition_point(|v| v.end <= addr)
    }

    /// The mapping that contains `addr`.
    pub fn find(&self, addr: usize) -> Option<&Vma<A>> {
        self.first_above(addr).filter(|v| v.start <= addr)
    }

    /// The first mapping that ends above `addr`.
    pub fn first_above(&self, addr: usize) -> Option<&Vma<A>> {
        self.items.get(self.index_above(addr))
    }

    /// The last mapping that ends at or below `addr`.
    pub fn last_below(&self, addr: usize) -> Option<&Vma<A>> {
        self.index_above(addr).checked_sub(1).and_then(|i| self.items.get(i))
    }

    /// The mappings that overlap `[start, end)`, ascending, with their whole ranges.
    pub fn overlapping(&self, start: usize, end: usize) -> &[Vma<A>] {
        let first = self.index_above(start);
        let last = first + self.items[first..].partition_point(|v| v.start < end);
        &self.items[first..last]
    }

    /// Whether `[start, end)` is not mapped.
    pub fn is_free(&self, start: usize, end: usize) -> bool {
        self.overlapping(start, end).is_empty()
    }

    /// Whether every byte of `[start, end)` is mapped.
    pub fn is_covered(&self, start: usize, end: usize) -> bool {
        let mut at = start;
        for v in self.overlapping(start, end) {
            if v.start > at {
                return false;
            }
            at = v.end;
        }
        at >= end
    }

    /// Reserves memory for `count` more mappings; `false`: out of memory.
    pub fn try_reserve(&mut self, count: usize) -> bool {
        self.items.try_reserve(count).is_ok()
    }

    /// Copies the set; `None`: out of memory.
    pub fn try_clone(&self) -> Option<Self> {
        let mut items = Vec::new();
        items.try_reserve_exact(self.items.len()).ok()?;
        items.extend_from_slice(&self.items);
        Some(Self { items, tight: self.tight.clone() })
    }

    /// Adds a mapping, replaces existing ones in `[start, end)`, and merges it with its neighbours.
    pub fn insert(&mut self, start: usize, end: usize, attrs: A) {
        if start >= end {
            return;
        }
        self.remove(start, end);
        let at = self.index_above(start);
        self.items.insert(at, Vma { start, end, attrs });
        self.merge(at, at + 1);
    }

    /// Removes `[start, end)`, splitting the mappings at its edges; returns the removed parts.
    pub fn remove(&mut self, start: usize, end: usize) -> Pieces<Vma<A>> {
        let mut removed = Pieces::new();
        if start < end && !self.is_free(start, end) {
            let (first, last) = self.isolate(start, end);
            self.take_out(first, last).for_each(|vma| removed.push_back(vma));
            self.widened(first);
        }
        removed
    }

    /// As [`Self::remove`], but drops what was there. It allocates nothing if there is [room](Self::try_reserve) for one more.
    pub fn discard(&mut self, start: usize, end: usize) {
        if start < end && !self.is_free(start, end) {
            let (first, last) = self.isolate(start, end);
            self.take_out(first, last).for_each(drop);
            self.widened(first);
        }
    }

    /// Changes the attributes of all mappings in `[start, end)`, splitting and merging as needed.
    pub fn update(&mut self, start: usize, end: usize, mut change: impl FnMut(&mut A)) {
        if start >= end {
            return;
        }
        let (first, last) = self.isolate(start, end);
        for v in &mut self.items[first..last] {
            let gap = v.attrs.gap_below();
            change(&mut v.attrs);
            if v.attrs.gap_below() < gap {
                self.tight.set(Tight::NOTHING);
            }
        }
        self.merge(first, last);
    }

    /// Moves the start of the mapping at `start` down to `new_start` and sets its attributes; the range must be free.
    pub fn grow_down(&mut self, start: usize, new_start: usize, attrs: A) {
        let at = self.index_above(start);
        if let Some(v) = self.items.get_mut(at).filter(|v| v.start == start && new_start < start) {
            v.start = new_start;
            v.attrs = attrs;
            self.tight.set(Tight::NOTHING);
            self.merge(at, at + 1);
        }
    }

    /// Finds the highest free `[start, start + len)` inside `[low, high)` that has `gap` free bytes below it and does
    /// not overlap the gaps of the mappings above. `len` is not 0.
    pub fn find_free(&self, len: usize, low: usize, high: usize, gap: usize) -> Option<usize> {
        let need = len.checked_add(gap)?;
        // The free range below mapping `i` (or below `high`) ends at `ceiling`.
        let mut i = self.items.partition_point(|v| v.start < high);
        let mut ceiling = match self.items.get(i) {
            Some(above) => high.min(above.start.saturating_sub(above.attrs.gap_below())),
            None => high,
        };
        let tight = self.tight.get();
        if tight.need <= need && (tight.low, tight.high) == (low, high) {
            let at = self.items.partition_point(|v| v.start < tight.from);
            if let Some(above) = self.items.get(at).filter(|_| at < i) {
                (i, ceiling) = (at, above.start.saturating_sub(above.attrs.gap_below()));
            }
        }
        loop {
            #[cfg(test)]
            tests::note_searched();
            let floor = match i.checked_sub(1) {
                Some(below) => self.items[below].end.max(low),
                None => low,
            };
            if ceiling >= floor && ceiling - floor >= need {
                let from = self.items.get(i).map_or(usize::MAX, |above| above.start);
                self.tight.set(Tight { from, need, low, high });
                return Some(ceiling - len);
            }
            i = i.checked_sub(1)?;
            let below = &self.items[i];
            if below.start <= low {
                return None;
            }
            ceiling = below.start.saturating_sub(below.attrs.gap_below());
        }
    }

    /// The free range below mapping `at` has grown.
    fn widened(&mut self, at: usize) {
        let start = self.items.get(at).map_or(usize::MAX, |above| above.start);
        let tight = self.tight.get_mut();
        tight.from = tight.from.max(start);
    }

    /// Splits mappings at both ends of `[start, end)`; returns the indices of those inside.
    fn isolate(&mut self, start: usize, end: usize) -> (usize, usize) {
        self.split(start);
        self.split(end);
        let first = self.index_above(start);
        let last = first + self.items[first..].partition_point(|v| v.start < end);
        (first, last)
    }

    /// Splits the mapping that contains `addr`, unless `addr` is its start.
    fn split(&mut self, addr: usize) {
        let at = self.index_above(addr);
        let Some(v) = self.items.get_mut(at).filter(|v| v.start < addr) else { return };
        let upper = Vma { start: addr, end: v.end, attrs: v.attrs.advance(addr - v.start) };
        v.end = addr;
        self.items.insert(at + 1, upper);
    }

    /// Merges the mappings `first .. last` and their two neighbours where possible. However many they are, each moves once.
    fn merge(&mut self, first: usize, last: usize) {
        let (mut kept, end) = (first.saturating_sub(1), self.items.len().min(last + 1));
        for next in kept + 1..end {
            let (a, b) = (&self.items[kept], &self.items[next]);
            if a.end == b.start && a.attrs.continues(a.len(), &b.attrs) {
                self.items[kept].end = b.end;
            } else {
                kept += 1;
                self.items.swap(kept, next);
            }
        }
        if kept + 1 < end {
            self.take_out(kept + 1, end).for_each(drop);
        }
    }

    /// Takes the mappings `first .. last` out; those above them move down.
    fn take_out(&mut self, first: usize, last: usize) -> alloc::vec::Drain<'_, Vma<A>> {
        #[cfg(test)]
        tests::note_moved(self.items.len() - last);
        self.items.drain(first..last)
    }
}

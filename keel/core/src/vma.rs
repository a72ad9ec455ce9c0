//! The mappings of an address space, ordered by address: split, merge, punch holes, find free ranges.
//!
//! Generic over the attributes of a mapping ([`Attributes`]), so that tests need no page tables. Addresses and lengths
//! are in bytes; the caller passes multiples of a page.

use crate::pieces::Pieces;
use chunks::{Chunks, Position};
use core::cell::Cell;

mod chunks;
#[cfg(test)]
mod tests;

/// Attributes of a mapping besides its range.
pub trait Attributes: Clone {
    /// What [`VmaSet::totals`] adds up.
    type Totals: Copy + Default + core::ops::AddAssign + core::fmt::Debug;
    /// The share of a mapping of `len` bytes; `above`: the attributes of the mapping that starts where it ends.
    fn totals(&self, len: usize, above: Option<&Self>) -> Self::Totals;
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

/// Non-overlapping mappings in ascending order; adjacent mappings are merged if possible. A change costs little, however many
/// there are.
#[derive(Debug)]
pub struct VmaSet<A: Attributes> {
    chunks: Chunks<A>,
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

impl<A: Attributes> Default for VmaSet<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Attributes> VmaSet<A> {
    /// No mappings.
    pub const fn new() -> Self {
        Self { chunks: Chunks::new(), tight: Cell::new(Tight::NOTHING) }
    }

    /// Number of mappings.
    pub const fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether nothing is mapped.
    pub const fn is_empty(&self) -> bool {
        self.chunks.len() == 0
    }

    /// All mappings, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Vma<A>> {
        self.chunks.list().iter().flat_map(|chunk| &chunk.items)
    }

    /// The sum of [`Attributes::totals`] of all mappings. What has not changed since the last call is not added up again.
    pub fn totals(&self) -> A::Totals {
        self.chunks.totals()
    }

    /// Position of the first mapping that ends above `addr`.
    fn position_above(&self, addr: usize) -> Position {
        self.chunks.partition(|v| v.end <= addr)
    }

    /// Position of the first mapping that starts at or above `addr`.
    fn position_from(&self, addr: usize) -> Position {
        self.chunks.partition(|v| v.start < addr)
    }

    /// The mapping that contains `addr`.
    pub fn find(&self, addr: usize) -> Option<&Vma<A>> {
        self.first_above(addr).filter(|v| v.start <= addr)
    }

    /// The first mapping that ends above `addr`.
    pub fn first_above(&self, addr: usize) -> Option<&Vma<A>> {
        self.chunks.get(self.position_above(addr))
    }

    /// The last mapping that ends at or below `addr`.
    pub fn last_below(&self, addr: usize) -> Option<&Vma<A>> {
        self.chunks.below(self.position_above(addr)).and_then(|at| self.chunks.get(at))
    }

    /// The mappings that overlap `[start, end)`, ascending, with their whole ranges.
    pub fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = &Vma<A>> {
        self.chunks.iter_from(self.position_above(start)).take_while(move |v| v.start < end)
    }

    /// Whether `[start, end)` is not mapped.
    pub fn is_free(&self, start: usize, end: usize) -> bool {
        self.first_above(start).is_none_or(|v| v.start >= end)
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

    /// Whether [room](Self::try_reserve) for `count` more mappings would take memory of a set that has many already.
    pub fn would_grow(&self, count: usize) -> bool {
        self.chunks.would_grow(count)
    }

    /// Reserves memory for `count` more mappings; `false`: out of memory.
    pub fn try_reserve(&mut self, count: usize) -> bool {
        self.chunks.try_reserve(count)
    }

    /// Copies the set; `None`: out of memory.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self { chunks: self.chunks.try_clone()?, tight: self.tight.clone() })
    }

    /// Adds a mapping, replaces existing ones in `[start, end)`, and merges it with its neighbours.
    pub fn insert(&mut self, start: usize, end: usize, attrs: A) {
        if start >= end {
            return;
        }
        self.discard(start, end);
        let at = self.chunks.insert(self.position_above(start), Vma { start, end, attrs });
        self.note_gap(at);
        self.chunks.merge(at, Position { item: at.item + 1, ..at });
    }

    /// Removes `[start, end)`, splitting the mappings at its edges; returns the removed parts.
    pub fn remove(&mut self, start: usize, end: usize) -> Pieces<Vma<A>> {
        let mut removed = Pieces::new();
        self.take_out(start, end, |vma| removed.push_back(vma));
        removed
    }

    /// As [`Self::remove`], but drops what was there. It allocates nothing if there is [room](Self::try_reserve) for one more.
    pub fn discard(&mut self, start: usize, end: usize) {
        self.take_out(start, end, drop);
    }

    /// Takes out what lies in `[start, end)`.
    fn take_out(&mut self, start: usize, end: usize, each: impl FnMut(Vma<A>)) {
        if start < end && !self.is_free(start, end) {
            let (first, last) = self.isolate(start, end);
            let next = self.chunks.take_out(first, last, each);
            self.note_gap(next);
            let start = self.chunks.get(next).map_or(usize::MAX, |above| above.start);
            let tight = self.tight.get_mut();
            tight.from = tight.from.max(start);
        }
    }

    /// Changes the attributes of all mappings in `[start, end)`, splitting and merging as needed.
    pub fn update(&mut self, start: usize, end: usize, mut change: impl FnMut(&mut A)) {
        if start >= end {
            return;
        }
        let (first, last) = self.isolate(start, end);
        for at in first.chunk..=last.chunk {
            let Some(chunk) = self.chunks.chunk_mut(at) else { break };
            let from = if at == first.chunk { first.item } else { 0 };
            let to = if at == last.chunk { last.item } else { chunk.items.len() };
            for v in &mut chunk.items[from..to] {
                let gap = v.attrs.gap_below();
                change(&mut v.attrs);
                if v.attrs.gap_below() < gap {
                    chunk.widest.set(usize::MAX);
                    self.tight.set(Tight::NOTHING);
                }
            }
        }
        self.chunks.merge(first, last);
    }

    /// Moves the start of the mapping at `start` down to `new_start` and sets its attributes; the range must be free.
    pub fn grow_down(&mut self, start: usize, new_start: usize, attrs: A) {
        let at = self.position_above(start);
        if let Some(v) = self.chunks.get_mut(at).filter(|v| v.start == start && new_start < start) {
            v.start = new_start;
            v.attrs = attrs;
            self.tight.set(Tight::NOTHING);
            self.note_gap(at);
            self.chunks.merge(at, Position { item: at.item + 1, ..at });
        }
    }

    /// Finds the highest free `[start, start + len)` inside `[low, high)` that has `gap` free bytes below it and does
    /// not overlap the gaps of the mappings above. `len` is not 0.
    pub fn find_free(&self, len: usize, low: usize, high: usize, gap: usize) -> Option<usize> {
        let need = len.checked_add(gap)?;
        // The free range below the mapping at `at` (or below `high`) ends at `ceiling`.
        let mut at = self.position_from(high);
        let mut ceiling = match self.chunks.get(at) {
            Some(above) => high.min(lower_end(above)),
            None => high,
        };
        let tight = self.tight.get();
        if tight.need <= need && (tight.low, tight.high) == (low, high) {
            let from = self.position_from(tight.from);
            if let Some(above) = self.chunks.get(from).filter(|_| from < at) {
                (at, ceiling) = (from, lower_end(above));
            }
        }
        // The largest free range below the mappings of this chunk, if all above `at` in it have been looked at.
        let mut widest = None;
        loop {
            #[cfg(test)]
            tests::note_searched();
            let below = self.chunks.below(at);
            let floor = below.and_then(|below| self.chunks.get(below)).map_or(0, |v| v.end);
            let limited = floor.max(low);
            if ceiling >= limited && ceiling - limited >= need {
                let from = self.chunks.get(at).map_or(usize::MAX, |above| above.start);
                self.tight.set(Tight { from, need, low, high });
                return Some(ceiling - len);
            }
            widest = widest.map(|widest: usize| widest.max(ceiling.saturating_sub(floor)));
            let mut below = below?;
            if below.chunk < at.chunk {
                if let (Some(chunk), Some(widest)) = (self.chunks.list().get(at.chunk), widest) {
                    chunk.widest.set(widest);
                }
                below = self.skip_narrow(below, need, low)?;
                widest = Some(0);
            }
            at = below;
            let above = self.chunks.get(at).filter(|above| above.start > low)?;
            ceiling = lower_end(above);
        }
    }

    /// From the last mapping of a chunk down to the last one of the next chunk with enough room below a mapping. `None`: there
    /// is none above `low`.
    fn skip_narrow(&self, mut at: Position, need: usize, low: usize) -> Option<Position> {
        loop {
            let chunk = self.chunks.list().get(at.chunk)?;
            if chunk.widest.get() >= need {
                return Some(at);
            }
            #[cfg(test)]
            tests::note_searched();
            chunk.items.first().filter(|v| v.start > low)?;
            at = self.chunks.below(Position { item: 0, ..at })?;
        }
    }

    /// Notes that the free range below the mapping at a position may have grown.
    fn note_gap(&self, at: Position) {
        let (Some(v), Some(chunk)) = (self.chunks.get(at), self.chunks.list().get(at.chunk)) else { return };
        let floor = self.chunks.below(at).and_then(|below| self.chunks.get(below)).map_or(0, |v| v.end);
        chunk.widest.set(chunk.widest.get().max(lower_end(v).saturating_sub(floor)));
    }

    /// Splits mappings at both ends of `[start, end)`; returns the positions of those inside.
    fn isolate(&mut self, start: usize, end: usize) -> (Position, Position) {
        self.split(start);
        self.split(end);
        (self.position_above(start), self.position_from(end))
    }

    /// Splits the mapping that contains `addr`, unless `addr` is its start.
    fn split(&mut self, addr: usize) {
        let at = self.position_above(addr);
        if self.chunks.get(at).is_none_or(|v| v.start >= addr) {
            return;
        }
        let Some(v) = self.chunks.get_mut(at) else { return };
        let upper = Vma { start: addr, end: v.end, attrs: v.attrs.advance(addr - v.start) };
        v.end = addr;
        self.chunks.insert(Position { item: at.item + 1, ..at }, upper);
    }
}

/// Where the free range below a mapping ends.
fn lower_end<A: Attributes>(v: &Vma<A>) -> usize {
    v.start.saturating_sub(v.attrs.gap_below())
}

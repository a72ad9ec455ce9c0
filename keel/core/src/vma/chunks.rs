//! Mappings in ascending order, in chunks of about a page: an insertion moves the mappings of one chunk, a removal at most
//! those of a few. A set of few mappings is one chunk, whose memory grows with it.

use super::{Attributes, Vma};
use alloc::vec::Vec;
use core::cell::Cell;

/// Size of a full chunk in bytes, about.
const CHUNK_BYTES: usize = 4096;

/// Up to so many chunks, a reservation looks how full each is.
const FEW: usize = 8;

/// Mappings that follow each other.
#[derive(Debug)]
pub(super) struct Chunk<A: Attributes> {
    pub(super) items: Vec<Vma<A>>,
    /// At least as large as the largest free range below any of `items`.
    pub(super) widest: Cell<usize>,
    /// The totals of `items`, unless they have changed since they were added up.
    totals: Cell<Option<A::Totals>>,
}

/// Where a mapping is, or would be inserted. If no mapping is there, `chunk` is the number of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) chunk: usize,
    pub(super) item: usize,
}

/// The list of chunks. A chunk is empty only if there is no other; two chunks that follow each other hold more than half a
/// chunk together; each chunk of several has memory for [`Chunks::MOST`] mappings.
#[derive(Debug)]
pub(super) struct Chunks<A: Attributes> {
    list: Vec<Chunk<A>>,
    /// Reserved: empty, with memory for [`Chunks::MOST`] mappings.
    spare: Vec<Vec<Vma<A>>>,
    len: usize,
}

impl<A: Attributes> Chunk<A> {
    const fn of(items: Vec<Vma<A>>, widest: usize) -> Self {
        Self { items, widest: Cell::new(widest), totals: Cell::new(None) }
    }
}

impl<A: Attributes> Chunks<A> {
    /// Most mappings of a chunk.
    pub(super) const MOST: usize = {
        let most = CHUNK_BYTES / size_of::<Vma<A>>();
        if most < 16 { 16 } else { most }
    };

    pub(super) const fn new() -> Self {
        Self { list: Vec::new(), spare: Vec::new(), len: 0 }
    }

    /// Number of mappings.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The chunks, ascending.
    pub(super) fn list(&self) -> &[Chunk<A>] {
        &self.list
    }

    /// A chunk that is about to change.
    pub(super) fn chunk_mut(&mut self, at: usize) -> Option<&mut Chunk<A>> {
        // The totals of the last mapping of a chunk depend on the one above.
        if let Some(below) = at.checked_sub(1).and_then(|below| self.list.get(below)) {
            below.totals.set(None);
        }
        let chunk = self.list.get_mut(at)?;
        chunk.totals.set(None);
        Some(chunk)
    }

    /// The position of the first mapping that is not `below`, which must be true for all that are below another.
    #[inline]
    pub(super) fn partition(&self, below: impl Fn(&Vma<A>) -> bool) -> Position {
        let chunk = self.list.partition_point(|chunk| chunk.items.last().is_none_or(&below));
        Position { chunk, item: self.list.get(chunk).map_or(0, |chunk| chunk.items.partition_point(&below)) }
    }

    /// The mapping at a position.
    #[inline]
    pub(super) fn get(&self, at: Position) -> Option<&Vma<A>> {
        self.list.get(at.chunk)?.items.get(at.item)
    }

    /// A mapping that is about to change.
    pub(super) fn get_mut(&mut self, at: Position) -> Option<&mut Vma<A>> {
        self.chunk_mut(at.chunk)?.items.get_mut(at.item)
    }

    /// The position below.
    #[inline]
    pub(super) fn below(&self, at: Position) -> Option<Position> {
        if let Some(item) = at.item.checked_sub(1) {
            return Some(Position { item, ..at });
        }
        let chunk = at.chunk.checked_sub(1)?;
        Some(Position { chunk, item: self.list[chunk].items.len().checked_sub(1)? })
    }

    /// The same position, at the start of the next chunk with mappings instead of the end of one.
    fn normal(&self, mut at: Position) -> Position {
        while self.list.get(at.chunk).is_some_and(|chunk| at.item >= chunk.items.len()) {
            at = Position { chunk: at.chunk + 1, item: 0 };
        }
        at
    }

    /// The mappings from a position on.
    pub(super) fn iter_from(&self, at: Position) -> impl Iterator<Item = &Vma<A>> {
        let rest = self.list.get(at.chunk..).unwrap_or_default();
        let (first, more) = rest.split_first().map_or((None, rest), |(first, more)| (first.items.get(at.item..), more));
        first.unwrap_or_default().iter().chain(more.iter().flat_map(|chunk| &chunk.items))
    }

    /// Reserves memory for `count` insertions; `false`: out of memory.
    pub(super) fn try_reserve(&mut self, count: usize) -> bool {
        if let [only] = &mut self.list[..] {
            let (len, have) = (only.items.len(), only.items.capacity());
            let wanted = (len + count).min(Self::MOST);
            if wanted > have && only.items.try_reserve_exact(wanted.max((2 * have).min(Self::MOST)) - len).is_err() {
                return false;
            }
        } else if self.list.is_empty() {
            let mut items = Vec::new();
            if items.try_reserve_exact(count.clamp(4, Self::MOST)).is_err() || self.list.try_reserve_exact(1).is_err() {
                return false;
            }
            self.list.push(Chunk::of(items, 0));
        }
        self.reserve_chunks(self.splits(count))
    }

    /// Whether `count` insertions, and not just one chunk that grows, take memory that is not reserved.
    pub(super) fn would_grow(&self, count: usize) -> bool {
        self.list.len() > 1 && self.spare.len() < self.splits(count)
    }

    /// Chunks that are split by `count` insertions, at most.
    fn splits(&self, count: usize) -> usize {
        // A chunk that is split has room for all of few insertions.
        if self.list.len() <= FEW && count <= Self::MOST / 4 {
            let full = |chunk: &&Chunk<A>| chunk.items.len() + count > Self::MOST;
            self.list.iter().filter(full).count().min(count)
        } else {
            count
        }
    }

    fn reserve_chunks(&mut self, count: usize) -> bool {
        if self.spare.len() >= count {
            return true;
        }
        if self.list.try_reserve(count).is_err() || self.spare.try_reserve(count).is_err() {
            return false;
        }
        while self.spare.len() < count {
            let mut items = Vec::new();
            if items.try_reserve_exact(Self::MOST).is_err() {
                return false;
            }
            self.spare.push(items);
        }
        true
    }

    /// Copies the mappings; `None`: out of memory.
    pub(super) fn try_clone(&self) -> Option<Self> {
        let mut list = Vec::new();
        list.try_reserve_exact(self.list.len()).ok()?;
        for chunk in &self.list {
            let mut items = Vec::new();
            items.try_reserve_exact(if self.list.len() == 1 { chunk.items.len() } else { Self::MOST }).ok()?;
            items.extend_from_slice(&chunk.items);
            list.push(Chunk { items, widest: chunk.widest.clone(), totals: chunk.totals.clone() });
        }
        Some(Self { list, spare: Vec::new(), len: self.len })
    }

    /// Inserts a mapping at a position; returns where it is. Allocates nothing after [`Self::try_reserve`].
    pub(super) fn insert(&mut self, mut at: Position, vma: Vma<A>) -> Position {
        if self.list.is_empty() {
            self.list.push(Chunk::of(Vec::new(), 0));
        }
        if at.chunk >= self.list.len() {
            at.chunk = self.list.len() - 1;
            at.item = self.list[at.chunk].items.len();
        }
        if self.list[at.chunk].items.len() >= Self::MOST {
            at = self.split_chunk(at);
        }
        self.len += 1;
        if let Some(chunk) = self.chunk_mut(at.chunk) {
            #[cfg(test)]
            super::tests::note_inserted(chunk.items.len() == chunk.items.capacity());
            chunk.items.insert(at.item, vma);
        }
        at
    }

    /// Moves the upper half of a full chunk to a new one; returns where the position is then.
    fn split_chunk(&mut self, at: Position) -> Position {
        let middle = Self::MOST / 2;
        let mut items = self.spare.pop().unwrap_or_else(|| {
            #[cfg(test)]
            super::tests::note_inserted(true);
            Vec::with_capacity(Self::MOST)
        });
        let Some(chunk) = self.chunk_mut(at.chunk) else { return at };
        items.extend(chunk.items.drain(middle..));
        let upper = Chunk::of(items, chunk.widest.get());
        self.list.insert(at.chunk + 1, upper);
        if at.item > middle { Position { chunk: at.chunk + 1, item: at.item - middle } } else { at }
    }

    /// Takes the mappings `first .. last` out and passes each to `each`; returns the position of the next one.
    pub(super) fn take_out(&mut self, first: Position, last: Position, mut each: impl FnMut(Vma<A>)) -> Position {
        for at in first.chunk..=last.chunk {
            let Some(chunk) = self.chunk_mut(at) else { break };
            let from = if at == first.chunk { first.item } else { 0 };
            let to = if at == last.chunk { last.item } else { chunk.items.len() };
            let taken = to - from;
            #[cfg(test)]
            super::tests::note_moved(chunk.items.len() - to);
            chunk.items.drain(from..to).for_each(&mut each);
            self.len -= taken;
        }
        self.tidy(first.chunk, last.chunk, first)
    }

    /// Restores the rules for the number of mappings in the chunks `from ..= to` and their neighbours, which have lost some;
    /// returns where the mapping at `place` is then.
    fn tidy(&mut self, from: usize, to: usize, place: Position) -> Position {
        let mut place = self.normal(place);
        if self.list.len() < 2 {
            return place;
        }
        let (mut home, end) = (from.saturating_sub(1), (to + 2).min(self.list.len()));
        let mut empty = self.list[home].items.is_empty();
        for next in home + 1..end {
            let count = self.list[next].items.len();
            let have = self.list[home].items.len();
            empty |= count == 0;
            if count == 0 {
                continue;
            }
            if have + count > Self::MOST / 2 {
                home = next;
                continue;
            }
            empty = true;
            if place.chunk == next {
                place = Position { chunk: home, item: have + place.item };
            }
            let Some(chunk) = self.chunk_mut(next) else { break };
            let (mut items, widest) = (core::mem::take(&mut chunk.items), chunk.widest.get());
            let Some(chunk) = self.chunk_mut(home) else { break };
            chunk.items.append(&mut items);
            chunk.widest.set(widest.max(chunk.widest.get()));
        }
        if empty {
            let below = self.list.get(..place.chunk).unwrap_or_default();
            place.chunk -= below.iter().filter(|chunk| chunk.items.is_empty()).count();
            if self.len == 0 {
                self.list.truncate(1);
            } else {
                self.list.retain(|chunk| !chunk.items.is_empty());
            }
        }
        place
    }

    /// Merges the mappings `first .. last` and their two neighbours where possible. However many they are, each moves once.
    pub(super) fn merge(&mut self, first: Position, last: Position) {
        let last = self.normal(last);
        let mut home = first.chunk.wrapping_sub(1);
        let mut merged = false;
        for at in first.chunk..=last.chunk {
            if self.chunk_mut(at).is_none() {
                break;
            }
            let (below, rest) = self.list.split_at_mut(at);
            let Some(Chunk { items, .. }) = rest.first_mut() else { break };
            let from = if at == first.chunk { first.item } else { 0 };
            let to = if at == last.chunk { items.len().min(last.item + 1) } else { items.len() };
            let mut kept = from;
            for next in from..to {
                let (done, rest) = items.split_at_mut(next);
                let before = match kept.checked_sub(1) {
                    Some(before) => done.get_mut(before),
                    None => below.get_mut(home).and_then(|chunk| chunk.items.last_mut()),
                };
                let item = &rest[0];
                match before {
                    Some(a) if a.end == item.start && a.attrs.continues(a.len(), &item.attrs) => a.end = item.end,
                    _ => {
                        items.swap(kept, next);
                        kept += 1;
                    }
                }
            }
            if kept < to {
                #[cfg(test)]
                super::tests::note_moved(items.len() - to);
                items.drain(kept..to);
                self.len -= to - kept;
                merged = true;
            }
            if !items.is_empty() {
                home = at;
            }
        }
        if merged {
            self.tidy(first.chunk, last.chunk, first);
        }
    }

    /// The sum of the totals of all mappings.
    pub(super) fn totals(&self) -> A::Totals {
        let mut sum = A::Totals::default();
        for (at, chunk) in self.list.iter().enumerate() {
            sum += chunk.totals.get().unwrap_or_else(|| {
                let totals = self.add_up(at, chunk);
                chunk.totals.set(Some(totals));
                totals
            });
        }
        sum
    }

    fn add_up(&self, at: usize, chunk: &Chunk<A>) -> A::Totals {
        let mut sum = A::Totals::default();
        for (index, vma) in chunk.items.iter().enumerate() {
            let above = chunk.items.get(index + 1).or_else(|| self.list.get(at + 1)?.items.first());
            let above = above.filter(|above| above.start == vma.end);
            sum += vma.attrs.totals(vma.len(), above.map(|above| &above.attrs));
        }
        sum
    }
}

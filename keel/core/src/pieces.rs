//! A queue in pieces of at most a page: it can grow to any length without large allocations, where no error can be
//! returned.

use alloc::collections::{LinkedList, VecDeque};

/// Maximum size of a piece in bytes.
const PIECE: usize = 4096;

/// A queue. Up to a page it is a [`VecDeque`]; the rest of a longer queue is in further pieces, which are never empty.
#[derive(Debug)]
pub struct Pieces<T> {
    first: VecDeque<T>,
    more: LinkedList<VecDeque<T>>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Pieces<T> {
    /// Items per piece: a power of two, as capacities are.
    const MOST: usize = {
        let items = PIECE / if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
        assert!(items >= 4, "items are small");
        1 << items.ilog2()
    };

    /// An empty queue.
    pub const fn new() -> Self {
        Self { first: VecDeque::new(), more: LinkedList::new() }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.first.len() + self.more.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Adds an item at the end.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        let piece = if self.more.is_empty() && self.first.len() < Self::MOST { &mut self.first } else { self.last() };
        piece.push_back(item);
    }

    /// The last piece, with room.
    #[cold]
    fn last(&mut self) -> &mut VecDeque<T> {
        if self.more.back().is_none_or(|piece| piece.len() >= Self::MOST) {
            self.more.push_back(VecDeque::new());
        }
        self.more.back_mut().unwrap_or(&mut self.first)
    }

    /// Removes the first item.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.first.pop_front()?;
        if self.first.is_empty() {
            self.refill();
        }
        Some(item)
    }

    /// Removes the last item.
    pub fn pop_back(&mut self) -> Option<T> {
        let Some(last) = self.more.back_mut() else { return self.first.pop_back() };
        let item = last.pop_back();
        if last.is_empty() {
            self.more.pop_back();
        }
        item
    }

    /// Whether the next item needs no allocation.
    #[inline]
    pub fn has_room(&self) -> bool {
        let last = self.more.back().unwrap_or(&self.first);
        last.len() < last.capacity().min(Self::MOST)
    }

    /// Adds an item at the end; returns it if out of memory.
    pub fn try_push_back(&mut self, item: T) -> Result<(), T> {
        let last = self.more.back().unwrap_or(&self.first);
        // A new piece also needs a slot in the list, which is small.
        if last.len() == last.capacity() && VecDeque::<T>::new().try_reserve(Self::MOST).is_err() {
            return Err(item);
        }
        self.push_back(item);
        Ok(())
    }

    /// Moves a piece to the front when the first piece is empty.
    fn refill(&mut self) {
        if let Some(next) = self.more.pop_front() {
            self.first = next;
        }
    }

    /// Moves all items of another queue to the end.
    pub fn append(&mut self, other: &mut Self) {
        while let Some(item) = other.pop_front() {
            self.push_back(item);
        }
    }

    /// The first item.
    pub fn front(&self) -> Option<&T> {
        self.first.front()
    }

    /// The last item.
    pub fn back(&self) -> Option<&T> {
        self.more.back().unwrap_or(&self.first).back()
    }

    /// The item at `index`.
    pub fn get(&self, mut index: usize) -> Option<&T> {
        for piece in self.pieces() {
            if index < piece.len() {
                return piece.get(index);
            }
            index -= piece.len();
        }
        None
    }

    /// Removes the item at `index`.
    pub fn remove(&mut self, mut index: usize) -> Option<T> {
        for piece in core::iter::once(&mut self.first).chain(&mut self.more) {
            if index < piece.len() {
                let item = piece.remove(index);
                self.drop_empty();
                return item;
            }
            index -= piece.len();
        }
        None
    }

    /// Retains the items for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for piece in core::iter::once(&mut self.first).chain(&mut self.more) {
            piece.retain(&mut keep);
        }
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        if self.more.iter().any(VecDeque::is_empty) {
            self.more.extract_if(|piece| piece.is_empty()).for_each(drop);
        }
        if self.first.is_empty() {
            self.refill();
        }
    }

    fn pieces(&self) -> impl Iterator<Item = &VecDeque<T>> {
        core::iter::once(&self.first).chain(&self.more)
    }

    /// The items, from the first one on.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces().flatten()
    }

    /// Mutable references to the items.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        core::iter::once(&mut self.first).chain(&mut self.more).flatten()
    }
}

impl<T> IntoIterator for Pieces<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

/// Iterator that removes the items from the front.
#[derive(Debug)]
pub struct IntoIter<T>(Pieces<T>);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behaves like a [`VecDeque`], over several pieces.
    #[test]
    fn is_a_queue() {
        let (mut queue, mut model) = (Pieces::<u64>::new(), VecDeque::new());
        let mut random = 1u64;
        let mut most = 0;
        for i in 0..60_000u64 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            match random >> 60 {
                0..=8 => {
                    queue.push_back(i);
                    model.push_back(i);
                }
                9..=12 => assert_eq!(queue.pop_front(), model.pop_front()),
                13 => assert_eq!(queue.pop_back(), model.pop_back()),
                14 => {
                    let at = (random >> 20) as usize % (model.len() + 1);
                    assert_eq!(queue.get(at), model.get(at));
                    assert_eq!(queue.remove(at), model.remove(at));
                }
                _ if random >> 48 & 0xfff == 0 => {
                    queue.retain(|item| item % 7 != 0);
                    model.retain(|item| item % 7 != 0);
                }
                _ => assert_eq!((queue.front(), queue.back()), (model.front(), model.back())),
            }
            most = most.max(model.len());
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            assert!(queue.more.iter().all(|piece| !piece.is_empty() && piece.capacity() * 8 <= PIECE));
            assert!(queue.first.capacity() * 8 <= PIECE);
        }
        assert!(most > 2 * Pieces::<u64>::MOST && queue.iter().eq(model.iter()));
        queue.retain(|_| false);
        assert!(queue.is_empty() && queue.more.is_empty() && queue.pop_front().is_none());
    }
}

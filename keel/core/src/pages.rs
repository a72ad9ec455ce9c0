//! A list in pieces of at most a page, with access by index: it grows without large allocations, where no error can be
//! returned.

use alloc::vec::Vec;

/// Maximum size of a piece in bytes.
const PIECE: usize = 4096;

/// A list that only grows. The list of its pieces takes less than a page up to 680 KiB of items.
#[derive(Debug)]
pub struct Pages<T> {
    /// All but the last one are full; each has room for [`Pages::MOST`] items.
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Pages<T> {
    /// Items per piece.
    pub const MOST: usize = {
        let items = PIECE / if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
        assert!(items > 0, "an item fits into a page");
        1 << items.ilog2()
    };

    /// An empty list.
    pub const fn new() -> Self {
        Self { pieces: Vec::new() }
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * Self::MOST + last.len())
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        if self.pieces.last().is_none_or(|last| last.len() == Self::MOST) {
            self.pieces.push(Vec::with_capacity(Self::MOST));
        }
        if let Some(last) = self.pieces.last_mut() {
            last.push(item);
        }
    }

    /// Whether the list of pieces has no room for another one: see [`Pages::move_to`].
    pub fn is_crowded(&self) -> bool {
        self.pieces.len() == self.pieces.capacity()
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Takes an empty list that the caller has allocated, with more room than the list of pieces, which is returned to be
    /// dropped.
    pub fn move_to(&mut self, mut larger: Vec<Vec<T>>) -> Vec<Vec<T>> {
        larger.append(&mut self.pieces);
        core::mem::replace(&mut self.pieces, larger)
    }

    /// Adds a piece of [`Pages::MOST`] items that the caller has allocated, after other full ones.
    pub fn push_piece(&mut self, piece: Vec<T>) {
        debug_assert!(piece.len() == Self::MOST && self.len().is_multiple_of(Self::MOST));
        self.pieces.push(piece);
    }

    /// The item at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.pieces.get(index / Self::MOST)?.get(index % Self::MOST)
    }

    /// The item at `index`, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pieces.get_mut(index / Self::MOST)?.get_mut(index % Self::MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_by_index() {
        let mut list = Pages::<u64>::new();
        assert!(list.is_empty() && list.get(0).is_none());
        for i in 0..2000 {
            assert_eq!(list.len(), i);
            list.push(i as u64);
        }
        *list.get_mut(777).unwrap() = 1;
        for i in 0..2000 {
            assert_eq!(list.get(i), Some(&if i == 777 { 1 } else { i as u64 }));
        }
        assert!(list.get(2000).is_none() && list.get_mut(2000).is_none());
        assert!(list.pieces.iter().all(|piece| piece.capacity() * size_of::<u64>() <= PIECE));
    }

    #[test]
    fn pieces_of_the_caller() {
        let mut list = Pages::<u64>::new();
        for i in 0..100 {
            if list.is_crowded() {
                let old = list.move_to(Vec::with_capacity(2 * list.pieces() + 1));
                assert!(old.is_empty());
            }
            list.push_piece(alloc::vec![i; Pages::<u64>::MOST]);
        }
        assert_eq!((list.pieces(), list.len()), (100, 100 * Pages::<u64>::MOST));
        assert_eq!(list.get(99 * Pages::<u64>::MOST - 1), Some(&98));
    }
}

//! Frames of a file by page index: a radix tree that grows with the highest page.
//!
//! A file of one page stores its frame directly; a lookup in a file of 1 GiB takes four steps. Nodes are small, so that
//! a large sparse file needs no large contiguous allocation.

use alloc::boxed::Box;
use core::cell::Cell;
use hal::frame::Frame;

const BITS: u32 = 5;
const FANOUT: usize = 1 << BITS;

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Page(Frame),
    Node(Box<Node>),
}

#[derive(Default)]
struct Node {
    used: u32,
    /// Which pages of a node above pages were used since [`PageMap::sweep`] came by.
    marks: Cell<u32>,
    slots: [Slot; FANOUT],
}

/// Which pages of a leaf, a node above pages, are taken out.
type Mask = u32;
const _: () = assert!(Mask::BITS as usize == FANOUT);

/// Which pages [`PageMap::sweep`] takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// Those that were not marked since the last pass and have no handle elsewhere.
    Unmarked,
    /// Those that have no handle elsewhere.
    Unshared,
    /// All.
    Any,
}

/// Frames by page index.
#[derive(Default)]
pub struct PageMap {
    root: Slot,
    /// Levels of nodes above the pages; 0: the root is page 0.
    height: u32,
    len: usize,
}

impl core::fmt::Debug for PageMap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PageMap").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Slot of `index` in a node whose children span `1 << shift` pages each.
const fn slot_of(index: u64, shift: u32) -> usize {
    (index >> shift) as usize & (FANOUT - 1)
}

impl PageMap {
    /// An empty map.
    pub const fn new() -> Self {
        Self { root: Slot::Empty, height: 0, len: 0 }
    }

    /// Number of pages present.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no page is present.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    const fn covers(&self, index: u64) -> bool {
        let bits = self.height * BITS;
        bits >= 64 || index >> bits == 0
    }

    /// The page at `index`.
    pub fn get(&self, index: u64) -> Option<&Frame> {
        if !self.covers(index) {
            return None;
        }
        let mut slot = &self.root;
        let mut level = self.height;
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Page(frame) => return Some(frame),
                Slot::Node(node) => {
                    level -= 1;
                    slot = &node.slots[slot_of(index, level * BITS)];
                }
            }
        }
    }

    /// The leaf of page `index`; `None` if there is none, as in a map of one page.
    fn leaf(&self, index: u64) -> Option<&Node> {
        if !self.covers(index) {
            return None;
        }
        let (mut slot, mut level) = (&self.root, self.height);
        while let Slot::Node(node) = slot {
            level = level.checked_sub(1)?;
            if level == 0 {
                return Some(node);
            }
            slot = &node.slots[slot_of(index, level * BITS)];
        }
        None
    }

    /// The page at `index`, which is marked: [`Self::sweep`] leaves it there the next time.
    pub fn get_marked(&self, index: u64) -> Option<&Frame> {
        if self.height == 0 {
            return self.get(index);
        }
        let leaf = self.leaf(index)?;
        let Slot::Page(frame) = &leaf.slots[slot_of(index, 0)] else { return None };
        leaf.marks.set(leaf.marks.get() | 1 << slot_of(index, 0));
        Some(frame)
    }

    /// Looks at the first leaf at or after `from`, takes the unused pages out if it `is_chosen`, and its marks away. Where to
    /// go on; `None` if there was none.
    pub fn sweep(&mut self, from: u64, unused: Unused, is_chosen: bool, each: impl FnMut(Frame)) -> Option<u64> {
        let start = self.next_present(from)? & !(FANOUT as u64 - 1);
        let is_free = |slot: &Slot| matches!(slot, Slot::Page(frame) if unused == Unused::Any || frame.refs() == 1);
        let free = match self.leaf(start) {
            Some(leaf) => {
                let marks = leaf.marks.take();
                let unmarked = if unused == Unused::Unmarked { !marks } else { Mask::MAX };
                let free = leaf.slots.iter().enumerate().filter(|(_, slot)| is_free(slot));
                free.fold(0, |mask, (i, _)| mask | 1 << i) & unmarked
            }
            None => Mask::from(is_free(&self.root)),
        };
        let end = start.saturating_add(FANOUT as u64);
        if free != 0 && is_chosen {
            self.remove_masked(start, end, free, each);
        }
        Some(end)
    }

    /// Inserts a page at `index`; returns the previous one.
    pub fn insert(&mut self, index: u64, frame: Frame) -> Option<Frame> {
        while !self.covers(index) {
            let below = core::mem::take(&mut self.root);
            if !matches!(below, Slot::Empty) {
                let mut node = Box::<Node>::default();
                node.slots[0] = below;
                node.used = 1;
                self.root = Slot::Node(node);
            }
            self.height += 1;
        }
        let old = Self::insert_at(&mut self.root, self.height, index, frame);
        if old.is_none() {
            self.len += 1;
        }
        old
    }

    fn insert_at(slot: &mut Slot, level: u32, index: u64, frame: Frame) -> Option<Frame> {
        if level == 0 {
            return match core::mem::replace(slot, Slot::Page(frame)) {
                Slot::Page(old) => Some(old),
                _ => None,
            };
        }
        if !matches!(slot, Slot::Node(_)) {
            *slot = Slot::Node(Box::default());
        }
        let Slot::Node(node) = slot else { return None };
        let child = &mut node.slots[slot_of(index, (level - 1) * BITS)];
        if matches!(child, Slot::Empty) {
            node.used += 1;
        }
        Self::insert_at(child, level - 1, index, frame)
    }

    /// Takes the page at `index` out.
    pub fn remove(&mut self, index: u64) -> Option<Frame> {
        let mut found = None;
        self.remove_range(index, index.saturating_add(1), |frame| found = Some(frame));
        found
    }

    /// Takes the pages of `[start, end)` out.
    pub fn remove_range(&mut self, start: u64, end: u64, each: impl FnMut(Frame)) {
        self.remove_masked(start, end, Mask::MAX, each);
    }

    /// Takes the pages of `[start, end)` out, of each leaf those in `mask`.
    fn remove_masked(&mut self, start: u64, end: u64, mask: Mask, mut each: impl FnMut(Frame)) {
        if start >= end || self.len == 0 {
            return;
        }
        let mut removed = 0;
        Self::remove_in(&mut self.root, self.height, 0, (start, end, mask), &mut |frame| {
            removed += 1;
            each(frame);
        });
        self.len -= removed;
        if self.len == 0 {
            *self = Self::new();
        }
    }

    fn remove_in(slot: &mut Slot, level: u32, base: u64, which: (u64, u64, Mask), each: &mut impl FnMut(Frame)) {
        let (start, end, mask) = which;
        match slot {
            Slot::Empty => {}
            Slot::Page(_) => {
                if (start..end).contains(&base)
                    && mask >> slot_of(base, 0) & 1 != 0
                    && let Slot::Page(frame) = core::mem::take(slot)
                {
                    each(frame);
                }
            }
            Slot::Node(node) => {
                let shift = (level - 1) * BITS;
                for (i, child) in node.slots.iter_mut().enumerate() {
                    if matches!(child, Slot::Empty) {
                        continue;
                    }
                    let first = base + ((i as u64) << shift);
                    let last = first + ((1u64 << shift) - 1);
                    if first >= end || last < start {
                        continue;
                    }
                    Self::remove_in(child, level - 1, first, which, each);
                    if matches!(child, Slot::Empty) {
                        node.used -= 1;
                    }
                }
                if node.used == 0 {
                    *slot = Slot::Empty;
                }
            }
        }
    }

    /// Index of the first page present at or after `start`.
    pub fn next_present(&self, start: u64) -> Option<u64> {
        if !self.covers(start) {
            return None;
        }
        Self::next_in(&self.root, self.height, 0, start)
    }

    fn next_in(slot: &Slot, level: u32, base: u64, start: u64) -> Option<u64> {
        match slot {
            Slot::Empty => None,
            Slot::Page(_) => (base >= start).then_some(base),
            Slot::Node(node) => {
                let shift = (level - 1) * BITS;
                let from = if start > base { ((start - base) >> shift) as usize } else { 0 };
                node.slots
                    .iter()
                    .enumerate()
                    .skip(from)
                    .find_map(|(i, child)| Self::next_in(child, level - 1, base + ((i as u64) << shift), start))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn frame(tag: u64) -> Frame {
        let frame = Frame::alloc_zeroed().unwrap();
        frame.write(0, &tag.to_le_bytes());
        frame
    }

    fn tag(frame: &Frame) -> u64 {
        let mut bytes = [0; 8];
        frame.read(0, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        let mut map = PageMap::new();
        let mut model = BTreeMap::new();
        let mut x = 12345u64;
        for step in 0..4000u64 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let index = match x >> 60 {
                0 => x >> 20,
                1..=5 => x >> 40 & 0xffff,
                _ => x >> 40 & 0x3f,
            };
            match step % 5 {
                0 => {
                    let end = index.saturating_add(x >> 50 & 7);
                    let mut gone = Vec::new();
                    map.remove_range(index, end, |f| gone.push(tag(&f)));
                    let expected: Vec<u64> = model.range(index..end).map(|(_, &t)| t).collect();
                    model.retain(|k, _| !(index..end).contains(k));
                    assert_eq!(gone, expected);
                }
                1 => assert_eq!(map.remove(index).map(|f| tag(&f)), model.remove(&index)),
                _ => assert_eq!(map.insert(index, frame(step)).map(|f| tag(&f)), model.insert(index, step)),
            }
            assert_eq!(map.len(), model.len());
            assert_eq!(map.get(index).map(tag), model.get(&index).copied());
            assert_eq!(map.next_present(index), model.range(index..).next().map(|(&k, _)| k));
        }
    }

    #[test]
    fn a_sweep_spares_what_was_marked_or_is_shared() {
        let mut map = PageMap::new();
        (0..100).for_each(|index| drop(map.insert(index, frame(index))));
        assert_eq!((map.get_marked(3).map(tag), map.get_marked(70).map(tag)), (Some(3), Some(70)));
        assert!(map.get_marked(100).is_none() && map.get_marked(1 << 40).is_none());
        let shared = map.get(40).cloned();
        let mut gone = 0;
        let mut from = 0;
        while let Some(next) = map.sweep(from, Unused::Unmarked, from != 64, |_| gone += 1) {
            from = next;
        }
        // The leaf of 64 to 95 was not chosen.
        assert_eq!((gone, from, map.len()), (31 + 31 + 4, 128, 34));
        assert!([3, 40, 64, 70, 95].iter().all(|index| map.get(*index).is_some()));
        assert_eq!(map.sweep(0, Unused::Unmarked, true, |_| gone += 1), Some(32));
        assert_eq!(map.sweep(64, Unused::Unmarked, true, |_| gone += 1), Some(96));
        assert_eq!((map.len(), map.next_present(0)), (1, Some(40)));
        assert_eq!((map.sweep(0, Unused::Unshared, true, |_| gone += 1), map.len()), (Some(64), 1));
        assert_eq!((map.sweep(0, Unused::Any, true, |_| gone += 1), map.len(), gone), (Some(64), 0, 100));
        assert_eq!(map.sweep(0, Unused::Any, true, |_| gone += 1), None);
        drop(shared);
        // One page has no leaf.
        map.insert(0, frame(1));
        assert_eq!((map.get_marked(0).map(tag), map.get_marked(1).map(tag)), (Some(1), None));
        assert_eq!((map.sweep(0, Unused::Unmarked, true, drop), map.len()), (Some(32), 0));
    }

    #[test]
    fn covers_the_largest_file() {
        let mut map = PageMap::new();
        map.insert(u64::MAX >> 12, frame(1));
        map.insert(0, frame(2));
        assert_eq!(map.next_present(1), Some(u64::MAX >> 12));
        map.remove_range(0, u64::MAX, drop);
        assert!(map.is_empty());
    }
}

use super::chunks::Chunks;
use super::{Attributes, Vma, VmaSet};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

extern crate std;

std::thread_local! {
    static MOVED: Cell<usize> = const { Cell::new(0) };
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

std::thread_local! {
    static SEARCHED: Cell<usize> = const { Cell::new(0) };
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Counts insertions that allocate.
pub(super) fn note_inserted(allocates: bool) {
    ALLOCATED.set(ALLOCATED.get() + usize::from(allocates));
}

/// Counts free ranges that a search looked at.
pub(super) fn note_searched() {
    SEARCHED.set(SEARCHED.get() + 1);
}

/// Counts mappings that moved because those below them were taken out.
pub(super) fn note_moved(count: usize) {
    MOVED.set(MOVED.get() + count);
}

/// A tag, and the offset into a backing (`usize::MAX`: anonymous, no offset).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tag {
    tag: u8,
    offset: usize,
    gap: usize,
}

/// Sums over mappings; `alike`: those with the tag of the adjacent one above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    bytes: usize,
    tags: usize,
    alike: usize,
}

impl core::ops::AddAssign for Sums {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.tags += more.tags;
        self.alike += more.alike;
    }
}

const ANON: usize = usize::MAX;

impl Attributes for Tag {
    type Totals = Sums;
    fn totals(&self, len: usize, above: Option<&Self>) -> Sums {
        Sums { bytes: len, tags: usize::from(self.tag), alike: usize::from(above.is_some_and(|a| a.tag == self.tag)) }
    }
    fn advance(&self, bytes: usize) -> Self {
        Self { offset: if self.offset == ANON { ANON } else { self.offset + bytes }, gap: 0, ..*self }
    }
    fn continues(&self, len: usize, next: &Self) -> bool {
        COMPARED.set(COMPARED.get() + 1);
        *next == self.advance(len)
    }
    fn gap_below(&self) -> usize {
        self.gap
    }
}

fn anon(tag: u8) -> Tag {
    Tag { tag, offset: ANON, gap: 0 }
}

fn ranges(set: &VmaSet<Tag>) -> Vec<(usize, usize, u8)> {
    set.iter().map(|v| (v.start, v.end, v.attrs.tag)).collect()
}

#[test]
fn merges_neighbours_that_continue() {
    let mut set = VmaSet::new();
    set.insert(10, 20, anon(1));
    set.insert(30, 40, anon(1));
    set.insert(20, 30, anon(1));
    assert_eq!(ranges(&set), [(10, 40, 1)]);
    set.insert(40, 50, anon(2));
    assert_eq!(set.len(), 2);
    // File mappings merge only if their offsets are contiguous.
    set.insert(100, 110, Tag { tag: 3, offset: 0, gap: 0 });
    set.insert(110, 120, Tag { tag: 3, offset: 10, gap: 0 });
    set.insert(120, 130, Tag { tag: 3, offset: 0, gap: 0 });
    assert_eq!(ranges(&set)[2..], [(100, 120, 3), (120, 130, 3)]);
}

#[test]
fn removal_splits_and_advances_the_backing() {
    let mut set = VmaSet::new();
    set.insert(100, 200, Tag { tag: 1, offset: 1000, gap: 0 });
    let gone = set.remove(120, 130);
    assert_eq!(gone.len(), 1);
    let gone = gone.front().unwrap();
    assert_eq!((gone.start, gone.end, gone.attrs.offset), (120, 130, 1020));
    let upper = set.find(130).unwrap();
    assert_eq!((upper.start, upper.end, upper.attrs.offset), (130, 200, 1030));
    assert!(set.find(125).is_none());
    assert!(set.is_free(120, 130));
    assert!(!set.is_covered(110, 140));
    assert!(set.is_covered(100, 120));
    assert_eq!(set.last_below(120).unwrap().start, 100);
    assert_eq!(set.first_above(120).unwrap().start, 130);
}

#[test]
fn update_splits_then_merges_back() {
    let mut set = VmaSet::new();
    set.insert(0, 100, anon(1));
    set.update(40, 60, |a| a.tag = 2);
    assert_eq!(ranges(&set), [(0, 40, 1), (40, 60, 2), (60, 100, 1)]);
    set.update(40, 60, |a| a.tag = 1);
    assert_eq!(ranges(&set), [(0, 100, 1)]);
}

#[test]
fn free_ranges_come_from_the_top_and_respect_gaps() {
    let mut set = VmaSet::new();
    assert_eq!(set.find_free(10, 0, 100, 0), Some(90));
    assert_eq!(set.find_free(100, 0, 100, 0), Some(0));
    assert_eq!(set.find_free(101, 0, 100, 0), None);
    assert_eq!(set.find_free(usize::MAX, 0, 100, 5), None);
    set.insert(80, 90, Tag { tag: 1, offset: ANON, gap: 15 });
    assert_eq!(set.find_free(10, 0, 100, 0), Some(90));
    assert_eq!(set.find_free(11, 0, 100, 0), Some(54), "stays out of the gap below 80");
    assert_eq!(set.find_free(10, 0, 100, 5), Some(55), "its own gap does not fit between 90 and 100");
    assert_eq!(set.find_free(65, 0, 100, 0), Some(0));
    assert_eq!(set.find_free(66, 0, 100, 0), None);
    assert_eq!(set.find_free(5, 60, 85, 0), Some(60));
    assert_eq!(set.find_free(6, 60, 85, 0), None);
    // A limit inside a mapping and inside a gap.
    assert_eq!(set.find_free(1, 0, 70, 0), Some(64));
}

#[test]
fn stack_grows_down() {
    let mut set = VmaSet::new();
    set.insert(90, 100, anon(1));
    set.grow_down(90, 70, anon(1));
    assert_eq!(ranges(&set), [(70, 100, 1)]);
    set.grow_down(50, 40, anon(1));
    assert_eq!(ranges(&set), [(70, 100, 1)]);
}

/// What splits a mapping into many and merges them again costs no more than the mappings that it concerns and one move of
/// those above.
#[test]
fn merging_many_is_linear() {
    const MANY: usize = 20_000;
    let mut set = VmaSet::new();
    set.insert(0, 2 * MANY, anon(1));
    for i in 0..MANY {
        set.insert(3 * MANY + 2 * i, 3 * MANY + 2 * i + 1, anon(1));
    }
    for i in 0..MANY {
        set.update(2 * i, 2 * i + 1, |a| a.tag = 2);
    }
    assert_eq!(set.len(), 3 * MANY);
    MOVED.set(0);
    COMPARED.set(0);
    set.update(0, 2 * MANY, |a| a.tag = 1);
    assert_eq!(set.len(), MANY + 1);
    assert!(MOVED.get() <= MANY, "{} moved", MOVED.get());
    assert!(COMPARED.get() <= 2 * MANY, "{} compared", COMPARED.get());
    set.discard(1, 3 * MANY);
    assert!(MOVED.get() <= 2 * MANY, "{} moved", MOVED.get());
}

/// A place for one more mapping, or for one in the place of another, is found without a look at all of them.
#[test]
fn searches_go_on_where_the_last_one_ended() {
    const MANY: usize = 20_000;
    let mut set = VmaSet::new();
    SEARCHED.set(0);
    for i in 0..MANY {
        let at = set.find_free(1, 0, 1 << 30, 0).unwrap();
        assert_eq!(at, (1 << 30) - 1 - i);
        set.insert(at, at + 1, anon((i % 2) as u8));
    }
    for i in 0..MANY {
        let at = (1 << 30) - 1 - i * 7 % MANY;
        set.remove(at, at + 1);
        assert_eq!(set.find_free(1, 0, 1 << 30, 0), Some(at));
        set.insert(at, at + 1, anon((i % 3) as u8));
    }
    assert!(SEARCHED.get() <= 16 * MANY, "{} searched", SEARCHED.get());
}

/// Random operations against one tag per unit of address.
#[test]
fn behaves_like_an_array_of_pages() {
    const SIZE: usize = 64;
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    for _ in 0..300 {
        let mut set = VmaSet::new();
        let mut model: Vec<Option<Tag>> = vec![None; SIZE];
        for _ in 0..60 {
            let start = random(SIZE);
            let end = start + 1 + random(SIZE - start);
            match random(3) {
                0 => {
                    let attrs = Tag { tag: random(3) as u8, offset: if random(2) == 0 { ANON } else { start }, gap: 0 };
                    set.insert(start, end, attrs.clone());
                    for (i, cell) in model[start..end].iter_mut().enumerate() {
                        *cell = Some(attrs.advance(i));
                    }
                }
                1 => {
                    let gone: usize = set.remove(start, end).iter().map(super::Vma::len).sum();
                    assert_eq!(gone, model[start..end].iter().filter(|c| c.is_some()).count());
                    model[start..end].fill(None);
                }
                _ => {
                    let tag = random(3) as u8;
                    set.update(start, end, |a| a.tag = tag);
                    model[start..end].iter_mut().flatten().for_each(|a| a.tag = tag);
                }
            }
            check(&set, &model, &mut random);
        }
    }
}

fn check(set: &VmaSet<Tag>, model: &[Option<Tag>], random: &mut impl FnMut(usize) -> usize) {
    let items: Vec<&Vma<Tag>> = set.iter().collect();
    for pair in items.windows(2) {
        assert!(pair[0].end <= pair[1].start, "ordered, no overlap");
        let joined = pair[0].end == pair[1].start && pair[0].attrs.continues(pair[0].len(), &pair[1].attrs);
        assert!(!joined, "neighbours are merged");
    }
    for (at, want) in model.iter().enumerate() {
        let have = set.find(at).map(|v| v.attrs.advance(at - v.start));
        assert_eq!(have, *want, "at {at}");
    }
    let (low, len) = (random(model.len()), 1 + random(8));
    let high = low + random(model.len() - low + 1);
    found_like_in(set, model, (0, model.len()), len);
    found_like_in(set, model, (low, high), len);
}

/// The highest free range is found.
fn found_like_in(set: &VmaSet<Tag>, model: &[Option<Tag>], (low, high): (usize, usize), len: usize) {
    let free = |s: usize| s >= low && s + len <= high && model[s..s + len].iter().all(Option::is_none);
    let want = (0..model.len()).rev().find(|&s| free(s));
    assert_eq!(set.find_free(len, low, high, 0), want, "{len} in {low}..{high} of {:?}", ranges(set));
}

/// As above with many mappings, most of them small.
#[test]
fn behaves_like_an_array_of_pages_in_many_chunks() {
    const SIZE: usize = 3000;
    const ROOM: usize = 4;
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    let mut most = 0;
    for round in 0..8 {
        let mut set = VmaSet::new();
        let mut model: Vec<Option<Tag>> = vec![None; SIZE];
        for step in 0..6000 {
            let start = random(SIZE);
            let longest = if random(200) == 0 { SIZE } else { 1 + round };
            let end = (start + 1 + random(longest)).min(SIZE);
            assert!(set.try_reserve(ROOM));
            ALLOCATED.set(0);
            match random(5) {
                0..=2 => {
                    let attrs = Tag { tag: random(4) as u8, offset: ANON, gap: 0 };
                    set.insert(start, end, attrs.clone());
                    model[start..end].fill(Some(attrs));
                }
                3 => {
                    let gone: usize = set.remove(start, end).iter().map(super::Vma::len).sum();
                    assert_eq!(gone, model[start..end].iter().flatten().count());
                    model[start..end].fill(None);
                }
                _ => {
                    let tag = random(4) as u8;
                    set.update(start, end, |a| a.tag = tag);
                    model[start..end].iter_mut().flatten().for_each(|a| a.tag = tag);
                }
            }
            assert_eq!(ALLOCATED.get(), 0, "only reserved memory is used");
            check_chunks(&set);
            if step % 100 == 0 {
                check(&set, &model, &mut random);
                check(&set.try_clone().unwrap(), &model, &mut random);
            }
            let len = 1 + random(12);
            if step % 7 == 0 {
                found_like_in(&set, &model, (0, SIZE), len);
            }
            most = most.max(set.chunks.list().len());
        }
    }
    assert!(most > 8, "{most} chunks");
}

/// The rules for chunks, the bounds of free ranges, and the totals.
fn check_chunks(set: &VmaSet<Tag>) {
    let list = set.chunks.list();
    let most = Chunks::<Tag>::MOST;
    let mut below = 0;
    for chunk in list {
        assert!(chunk.items.len() <= most && (list.len() == 1 || !chunk.items.is_empty()));
        assert!(list.len() == 1 || chunk.items.capacity() >= most);
        for v in &chunk.items {
            assert!(chunk.widest.get() >= v.start - below);
            below = v.end;
        }
    }
    assert!(list.windows(2).all(|pair| pair[0].items.len() + pair[1].items.len() > most / 2));
    let items: Vec<&Vma<Tag>> = set.iter().collect();
    assert_eq!(set.len(), items.len());
    let mut sums = Sums::default();
    for (index, v) in items.iter().enumerate() {
        let above = items.get(index + 1).filter(|above| above.start == v.end);
        sums += v.attrs.totals(v.len(), above.map(|above| &above.attrs));
    }
    assert_eq!(set.totals(), sums);
    let middle = items.get(items.len() / 2).map_or(0, |v| v.start + 1);
    let from = items.iter().position(|v| v.end > middle).unwrap_or(items.len());
    let to = items.iter().position(|v| v.start >= middle + 100).unwrap_or(items.len());
    assert!(set.overlapping(middle, middle + 100).eq(items[from..to].iter().copied()));
}

/// One more mapping, and one less, move the mappings of about a chunk, wherever they are.
#[test]
fn changes_move_few() {
    const MANY: usize = 60_000;
    let mut set = VmaSet::new();
    for i in 0..MANY {
        set.insert(i, i + 1, anon((i % 2) as u8));
    }
    MOVED.set(0);
    for i in 0..MANY {
        let at = i * 7919 % MANY;
        set.remove(at, at + 1);
    }
    assert!(set.is_empty());
    assert!(MOVED.get() <= MANY * Chunks::<Tag>::MOST, "{} moved", MOVED.get());
}

/// Searches for larger and smaller places in turn skip chunks without room.
#[test]
fn searches_skip_full_chunks() {
    const MANY: usize = 20_000;
    let mut set = VmaSet::new();
    SEARCHED.set(0);
    for i in 0..MANY {
        let len = 1 + i % 2;
        let at = set.find_free(len, 0, 1 << 30, 0).unwrap();
        set.insert(at, at + len, anon((i % 3) as u8));
    }
    let chunks = set.chunks.list().len();
    assert!(SEARCHED.get() <= MANY * (chunks + Chunks::<Tag>::MOST), "{} searched", SEARCHED.get());
}

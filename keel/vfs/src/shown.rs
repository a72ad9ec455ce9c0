//! What calls without the big lock see of a file: attributes and cached pages.
//!
//! A [`Shown`] belongs to an inode. It has a *view*, a [published value](hal::sync::grace), after the file was used a few
//! times without being changed ([`crate::Inode::show`]). Every change of the file withdraws the view, under the big lock
//! and before the change returns. A view has handles on the frames that it shows: who still copies from a withdrawn one
//! copies old bytes, never those of another file, and looks afterwards whether it is still there ([`View::read`]).

use crate::Attr;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};
use hal::frame::{FRAME_SIZE, Frame};
use hal::sync::grace::{Published, Reading, Slots, read};

const PAGE: u64 = FRAME_SIZE as u64;
/// Pages of a [`Block`].
const BLOCK: u64 = 16;
/// Blocks of a file that are shown: its first 1 GiB.
const MOST_BLOCKS: u64 = 1 << 14;
/// Most blocks that are added to a view at a time.
const MOST_ADDED: u64 = 32;
/// Uses since the last change before there is a view: a file that is read and written in turn gets none.
const USES: u32 = 2;

/// See the module.
#[derive(Debug)]
pub struct Shown {
    view: Published<View>,
    /// Uses since the view was withdrawn.
    uses: AtomicU32,
    /// A view holds until this changes.
    epoch: Option<Arc<AtomicU64>>,
}

/// What is known of a file until it is changed.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Attributes.
    pub attr: Attr,
    /// `CLOCK_MONOTONIC` ns until which this holds; `u64::MAX`: until keel changes it.
    pub expires: u64,
    /// Reading does not move the access time.
    pub is_settled: bool,
    /// Pages that are not there are holes, and read as zeros.
    pub has_holes: bool,
}

/// What is shown of a file.
#[derive(Debug)]
pub struct View {
    state: State,
    expires: AtomicU64,
    /// [`Shown::epoch`] when it was made.
    epoch: u64,
    /// Read since [`Shown::take_used`].
    used: AtomicU32,
    blocks: Slots<Block>,
}

/// Pages that follow each other.
#[derive(Debug, Default)]
struct Block([Option<Frame>; BLOCK as usize]);

impl Block {
    fn of(index: u64, page: &impl Fn(u64) -> Option<Frame>) -> Self {
        Self(core::array::from_fn(|i| page(index * BLOCK + i as u64)))
    }

    fn present(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

/// A part of a page, or zeros in its place.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The page; `None`: zeros.
    pub frame: Option<&'a Frame>,
    /// Where the part begins.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

impl Default for Shown {
    fn default() -> Self {
        Self { view: Published::empty(), uses: AtomicU32::new(0), epoch: None }
    }
}

impl Shown {
    /// A place whose views hold until `epoch` changes.
    pub fn of(epoch: &Arc<AtomicU64>) -> Self {
        Self { epoch: Some(epoch.clone()), ..Self::default() }
    }

    fn epoch(&self) -> u64 {
        self.epoch.as_ref().map_or(0, |epoch| epoch.load(Relaxed))
    }

    /// The view that holds at this moment.
    #[inline]
    pub fn view<'r>(&'r self, reading: &'r Reading) -> Option<&'r View> {
        let view = self.view.get(reading)?;
        let expires = view.expires.load(Relaxed);
        let is_young = expires == u64::MAX || hal::clock::monotonic_ns() < expires;
        (is_young && view.epoch == self.epoch()).then_some(view)
    }

    /// Whether a view holds at this moment.
    pub fn has_view(&self) -> bool {
        read(|reading| self.view(reading).is_some())
    }

    /// The file is about to change, or has just been changed: nothing is shown of it.
    #[cold]
    pub fn withdraw(&self) {
        if self.uses.load(Relaxed) != 0 {
            self.uses.store(0, Relaxed);
            self.view.replace(None);
        }
    }

    /// Whether it was read through the view since the last question.
    pub fn take_used(&self) -> bool {
        read(|reading| self.view.get(reading).is_some_and(|view| view.used.swap(0, Relaxed) != 0))
    }

    /// The file is in this state, and was used: shows it, with `count` pages from `first` on, of which `page` gives those
    /// that are in RAM. One caller at a time, under the big lock.
    pub fn show(&self, state: &State, first: u64, count: u64, page: impl Fn(u64) -> Option<Frame>) {
        let uses = self.uses.load(Relaxed) + 1;
        if uses < USES {
            return self.uses.store(uses, Relaxed);
        }
        if hal::frame::is_scarce() {
            return;
        }
        self.uses.store(USES, Relaxed);
        // What is replaced goes at once if nobody reads: not this processor, either.
        let known =
            read(|reading| self.view.share(reading)).filter(|view| view.epoch == self.epoch() && view.shows(state));
        let view = known.unwrap_or_else(|| {
            let view = Arc::new(View::new(state, self.epoch()));
            self.view.replace(Some(view.clone()));
            view
        });
        view.expires.store(state.expires, Relaxed);
        view.add(first, count, page);
    }
}

impl View {
    fn new(state: &State, epoch: u64) -> Self {
        let expires = AtomicU64::new(state.expires);
        Self { state: *state, expires, epoch, used: AtomicU32::new(0), blocks: Slots::new() }
    }

    /// Whether it shows the same, but for the time until which it holds.
    fn shows(&self, state: &State) -> bool {
        self.state.attr == state.attr
            && (self.state.is_settled, self.state.has_holes) == (state.is_settled, state.has_holes)
    }

    /// Adds pages.
    fn add(&self, first: u64, count: u64, page: impl Fn(u64) -> Option<Frame>) {
        let end = first.saturating_add(count).min(self.state.attr.size.div_ceil(PAGE));
        if first >= end {
            return;
        }
        let blocks = first / BLOCK..end.div_ceil(BLOCK).min(MOST_BLOCKS);
        for index in blocks.take(MOST_ADDED as usize) {
            let block = Block::of(index, &page);
            let known = read(|reading| self.blocks.get(index as usize, reading).map(Block::present));
            // Pages only come: what takes one away withdraws the view.
            if known.is_none_or(|known| known < block.present()) {
                self.blocks.set(index as usize, Some((Arc::new(block), 1)));
            }
        }
    }

    /// Attributes.
    #[inline]
    pub fn attr(&self) -> &Attr {
        &self.state.attr
    }

    /// Gives at most `len` bytes from `offset` on to `put`, part by part, and says how many that were; 0 behind the end.
    /// `None`: a page is missing, the file was changed meanwhile, or `put` failed.
    #[inline]
    pub fn read<'r>(
        &'r self,
        shown: &'r Shown,
        reading: &'r Reading,
        offset: u64,
        len: usize,
        mut put: impl FnMut(Part<'r>) -> Option<()>,
    ) -> Option<usize> {
        if !self.state.is_settled {
            return None;
        }
        let len = len.min(usize::try_from(self.state.attr.size.saturating_sub(offset)).ok()?);
        let (mut at, end) = (offset, offset + len as u64);
        while at < end {
            let index = at / PAGE;
            let block = self.blocks.get(usize::try_from(index / BLOCK).ok()?, reading)?;
            let frame = block.0.get((index % BLOCK) as usize)?.as_ref();
            if frame.is_none() && !self.state.has_holes {
                return None;
            }
            let in_page = (at % PAGE) as usize;
            let n = (FRAME_SIZE - in_page).min((end - at) as usize);
            put(Part { frame, offset: in_page, len: n })?;
            at += n as u64;
        }
        if self.used.load(Relaxed) == 0 {
            self.used.store(1, Relaxed);
        }
        fence(Acquire);
        // It lives on during the read section, so no other one can lie in its place.
        shown.view.get(reading).is_some_and(|now| core::ptr::eq(now, self)).then_some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn state(size: u64) -> State {
        let attr = Attr { size, ..Attr::default() };
        State { attr, expires: u64::MAX, is_settled: true, has_holes: false }
    }

    fn frame(tag: u8) -> Frame {
        let frame = Frame::alloc_zeroed().unwrap();
        frame.write(0, &[tag; FRAME_SIZE]);
        frame
    }

    fn bytes(shown: &Shown, offset: u64, len: usize) -> Option<Vec<u8>> {
        read(|reading| {
            let mut bytes = Vec::new();
            let done = shown.view(reading)?.read(shown, reading, offset, len, |part| {
                let start = bytes.len();
                bytes.resize(start + part.len, 0);
                part.frame.inspect(|frame| frame.read(part.offset, &mut bytes[start..]));
                Some(())
            })?;
            assert_eq!(done, bytes.len());
            Some(bytes)
        })
    }

    #[test]
    fn a_file_is_shown_at_its_second_use_until_it_changes() {
        let shown = Shown::default();
        let pages = [frame(1), frame(2)];
        let show = |size| shown.show(&state(size), 0, 2, |index| pages.get(index as usize).cloned());
        show(5000);
        assert_eq!(bytes(&shown, 0, 1), None);
        show(5000);
        assert_eq!(bytes(&shown, 4095, 9000).map(|b| (b.len(), b[0], b[1])), Some((905, 1, 2)));
        assert_eq!(bytes(&shown, 5000, 10), Some(Vec::new()));
        assert!(shown.take_used() && !shown.take_used());
        assert_eq!(pages[0].refs(), 2);
        shown.withdraw();
        assert_eq!((bytes(&shown, 0, 1), pages[0].refs()), (None, 1));
    }

    #[test]
    fn a_page_stays_while_it_is_read_and_the_read_learns_of_the_change() {
        let shown = Shown::default();
        let page = frame(7);
        (0..2).for_each(|_| shown.show(&state(4096), 0, 1, |_| Some(page.clone())));
        read(|reading| {
            let view = shown.view(reading).unwrap();
            let done = view.read(&shown, reading, 0, 4096, |part| {
                shown.withdraw();
                let mut first = [0];
                part.frame.unwrap().read(0, &mut first);
                assert_eq!((first, page.refs() > 1), ([7], true));
                Some(())
            });
            assert_eq!(done, None);
        });
        assert_eq!(bytes(&shown, 0, 1), None);
    }

    #[test]
    fn what_is_not_there_is_missing_or_a_hole() {
        let shown = Shown::default();
        let page = frame(3);
        let second = |index| (index == 1).then(|| page.clone());
        (0..2).for_each(|_| shown.show(&state(40 * PAGE), 0, 2, second));
        assert_eq!(bytes(&shown, 0, 1), None);
        assert_eq!(bytes(&shown, PAGE, 1), Some([3].to_vec()));
        assert_eq!(bytes(&shown, 39 * PAGE, 1), None, "another block");
        shown.withdraw();
        let holes = State { has_holes: true, ..state(40 * PAGE) };
        (0..2).for_each(|_| shown.show(&holes, 0, 40, second));
        assert_eq!(bytes(&shown, PAGE - 1, 2), Some([0, 3].to_vec()));
        assert_eq!(bytes(&shown, 39 * PAGE, 8192).map(|b| b.len()), Some(FRAME_SIZE));
    }

    #[test]
    fn what_expired_or_moves_the_access_time_is_not_read() {
        let shown = Shown::default();
        let page = frame(3);
        let old = State { expires: 1, ..state(PAGE) };
        (0..2).for_each(|_| shown.show(&old, 0, 1, |_| Some(page.clone())));
        assert_eq!(bytes(&shown, 0, 1), None);
        shown.show(&state(PAGE), 0, 1, |_| Some(page.clone()));
        assert_eq!(bytes(&shown, 0, 1), Some([3].to_vec()));
        let moves = State { is_settled: false, ..state(PAGE) };
        shown.show(&moves, 0, 1, |_| Some(page.clone()));
        assert_eq!(bytes(&shown, 0, 1), None);
    }
}

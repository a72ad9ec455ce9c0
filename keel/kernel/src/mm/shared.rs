//! Anonymous memory that several address spaces share: `MAP_SHARED | MAP_ANONYMOUS`, shmat(2).

use super::area::{Area, Backing};
use super::{Inner, Mm};
use abi::layout::PAGE_SIZE;
use abi::layout::USER_TOP;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;
use hal::frame::{FRAME_SIZE, Frame};
use keel_core::vma::Vma;
use uapi::{Errno, Result};

/// What shared memory is the content of, shmget(2).
pub trait Segment {
    /// Its id, which is its inode number too.
    fn id(&self) -> i32;
    /// Name under which mappings of it are shown.
    fn name(&self) -> String;
    /// A process got a mapping.
    fn note_attach(&self);
    /// A process lost a mapping.
    fn note_detach(&self);
    /// The pages are gone.
    fn gone(&self);
}

/// Pages of zeros that appear at their first touch and live as long as a mapping of the object.
pub struct SharedObject {
    pages: RefCell<BTreeMap<u64, Frame>>,
    /// Pages from this one on do not exist.
    end: u64,
    /// What it is the content of, if it was made by shmget(2).
    segment: Option<Rc<dyn Segment>>,
}

impl core::fmt::Debug for SharedObject {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedObject").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Default for SharedObject {
    fn default() -> Self {
        Self { pages: RefCell::default(), end: u64::MAX, segment: None }
    }
}

impl SharedObject {
    /// The `pages` of a segment.
    pub fn of_segment(segment: Rc<dyn Segment>, pages: u64) -> Self {
        Self { pages: RefCell::default(), end: pages, segment: Some(segment) }
    }

    /// Of a mapping of `pages`: who maps more of it later finds nothing there.
    pub fn of_pages(pages: u64) -> Self {
        Self { pages: RefCell::default(), end: pages, segment: None }
    }

    /// The segment that it is the content of.
    pub fn segment(&self) -> Option<&Rc<dyn Segment>> {
        self.segment.as_ref()
    }

    /// Whether the page lies beyond its end.
    pub fn ends_before(&self, index: u64) -> bool {
        index >= self.end
    }

    /// The page, made if it does not exist. `None` when memory is used up.
    pub fn page(&self, index: u64) -> Option<Frame> {
        let mut pages = self.pages.borrow_mut();
        if let Some(frame) = pages.get(&index) {
            return Some(frame.clone());
        }
        let frame = Frame::alloc_zeroed()?;
        pages.insert(index, frame.clone());
        Some(frame)
    }

    /// Whether the page exists.
    pub fn has(&self, index: u64) -> bool {
        self.pages.borrow().contains_key(&index)
    }

    /// Pages that exist.
    pub fn present(&self) -> usize {
        self.pages.borrow().len()
    }

    /// Zeroes pages, for all who map them (MADV_REMOVE).
    pub fn clear(&self, first: u64, count: u64) {
        for (page, frame) in self.pages.borrow().iter() {
            if *page >= first && *page - first < count {
                frame.zero(0, FRAME_SIZE);
            }
        }
    }
}

impl Drop for SharedObject {
    fn drop(&mut self) {
        if let Some(segment) = &self.segment {
            segment.gone();
        }
    }
}

/// The segment of shared memory that a mapping shows, and from which page on.
fn segment_of(area: &Area) -> Option<(&Rc<SharedObject>, &Rc<dyn Segment>, u64)> {
    match &area.backing {
        Backing::Shared(object, page) => Some((object, object.segment()?, *page)),
        _ => None,
    }
}

/// Mappings that an address space is about to lose.
pub(super) fn note_detached<'a>(vmas: impl IntoIterator<Item = &'a Vma<Area>>) {
    for vma in vmas {
        if let Some((_, segment, _)) = segment_of(&vma.attrs) {
            segment.note_detach();
        }
    }
}

impl Inner {
    /// A child got all the mappings.
    pub(super) fn note_attached(&self) {
        for vma in self.vmas.iter() {
            if let Some((_, segment, _)) = segment_of(&vma.attrs) {
                segment.note_attach();
            }
        }
    }
}

impl Mm {
    /// Unmaps what shmat(2) mapped at `address`, as far as it is still there. EINVAL.
    pub fn detach(&self, address: usize) -> Result<()> {
        let mut found: Option<Rc<SharedObject>> = None;
        let mut from = address;
        while let Some((object, start, end)) = self.shown(from, |object, vma, page| {
            let belongs = vma.start.checked_sub(address) == Some(page as usize * PAGE_SIZE);
            belongs && found.as_ref().is_none_or(|f| Rc::ptr_eq(f, object))
        }) {
            self.unmap(start, end)?;
            (found, from) = (Some(object), end);
        }
        if found.is_some() { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The first mapping from an address on that shows a segment of shared memory and that `wants` accepts.
    fn shown(
        &self,
        from: usize,
        wants: impl Fn(&Rc<SharedObject>, &Vma<Area>, u64) -> bool,
    ) -> Option<(Rc<SharedObject>, usize, usize)> {
        let inner = self.inner();
        inner.vmas.overlapping(from, USER_TOP).iter().find_map(|vma| {
            let (object, _, page) = segment_of(&vma.attrs)?;
            wants(object, vma, page).then(|| (object.clone(), vma.start, vma.end))
        })
    }

    /// Gives back all segments of shared memory: the current process ends.
    pub fn detach_all(&self) {
        let mut from = 0;
        while let Some((_, start, end)) = self.shown(from, |_, _, _| true) {
            // Whole mappings: nothing is split.
            let _ = self.unmap(start, end);
            from = end;
        }
    }
}

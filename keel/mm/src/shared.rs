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

/// The System V segment that owns the memory, shmget(2).
pub trait Segment {
    /// Its id, also its inode number.
    fn id(&self) -> i32;
    /// Name of its mappings in /proc.
    fn name(&self) -> String;
    /// Counts an attach.
    fn note_attach(&self);
    /// Counts a detach.
    fn note_detach(&self);
    /// Called when the pages are freed.
    fn gone(&self);
}

/// Zero pages that are allocated at their first touch and live as long as the object is mapped.
pub struct SharedObject {
    pages: RefCell<BTreeMap<u64, Frame>>,
    /// First page that does not exist.
    end: u64,
    /// Its segment, if shmget(2) created it.
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
    /// The memory of a segment with `pages` pages.
    pub fn of_segment(segment: Rc<dyn Segment>, pages: u64) -> Self {
        Self { pages: RefCell::default(), end: pages, segment: Some(segment) }
    }

    /// The memory of a mapping of `pages`: pages beyond it do not exist.
    pub fn of_pages(pages: u64) -> Self {
        Self { pages: RefCell::default(), end: pages, segment: None }
    }

    /// Its segment.
    pub fn segment(&self) -> Option<&Rc<dyn Segment>> {
        self.segment.as_ref()
    }

    /// Whether the page is beyond its end.
    pub fn ends_before(&self, index: u64) -> bool {
        index >= self.end
    }

    /// The page, allocated if it does not exist. `None` if out of memory.
    pub fn page(&self, index: u64) -> Option<Frame> {
        let mut pages = self.pages.borrow_mut();
        if let Some(frame) = pages.get(&index) {
            return Some(frame.clone());
        }
        let frame = Frame::alloc_zeroed()?;
        pages.insert(index, frame.clone());
        Some(frame)
    }

    /// Whether the page is allocated.
    pub fn has(&self, index: u64) -> bool {
        self.pages.borrow().contains_key(&index)
    }

    /// Number of allocated pages.
    pub fn present(&self) -> usize {
        self.pages.borrow().len()
    }

    /// Zeroes pages for all mappings (MADV_REMOVE).
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

/// The segment of a mapping, and the first mapped page.
fn segment_of(area: &Area) -> Option<(&Rc<SharedObject>, &Rc<dyn Segment>, u64)> {
    match &area.backing {
        Backing::Shared(object, page) => Some((object, object.segment()?, *page)),
        _ => None,
    }
}

/// Counts the detaches of removed mappings.
pub(super) fn note_detached<'a>(vmas: impl IntoIterator<Item = &'a Vma<Area>>) {
    for vma in vmas {
        if let Some((_, segment, _)) = segment_of(&vma.attrs) {
            segment.note_detach();
        }
    }
}

impl Inner {
    /// Counts the attaches of a child's mappings.
    pub(super) fn note_attached(&self) {
        for vma in self.vmas.iter() {
            if let Some((_, segment, _)) = segment_of(&vma.attrs) {
                segment.note_attach();
            }
        }
    }
}

impl Mm {
    /// Unmaps what shmat(2) mapped at `address`, except parts that were unmapped or replaced. EINVAL.
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

    /// The first mapping of a segment from an address on that `wants` accepts.
    fn shown(
        &self,
        from: usize,
        wants: impl Fn(&Rc<SharedObject>, &Vma<Area>, u64) -> bool,
    ) -> Option<(Rc<SharedObject>, usize, usize)> {
        let inner = self.inner();
        inner.vmas.overlapping(from, USER_TOP).find_map(|vma| {
            let (object, _, page) = segment_of(&vma.attrs)?;
            wants(object, vma, page).then(|| (object.clone(), vma.start, vma.end))
        })
    }
}

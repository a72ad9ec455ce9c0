//! Executable text with patched system call sites.
//!
//! The patched pages are attached to the inode, so that every program that maps the file shares them. A jump leads to a
//! *trampoline* at a fixed distance from the text: `trampoline page k` is at `text address of file page 0 + distance +
//! k pages`. A mapping contains patched pages only if its trampolines are mapped there too.

use super::area::{Area, AreaFlags, Backing, FileBacking, TRAMPOLINE_ROOM, same_inode};
use super::mmap::Removed;
use super::{Inner, Mm};
use abi::layout::{PAGE_SIZE, USER_MIN, USER_TOP};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::frame::Frame;
use hal::paging::Prot;
use keel_core::vma::Vma;
use smallvec::SmallVec;
use vfs::Inode;

/// Maximum number of trampoline pages of one file.
pub const TRAMPOLINE_PAGES: u64 = (TRAMPOLINE_ROOM / PAGE_SIZE) as u64;

/// Attachment of an inode: its patched text, which is replaced when the file has changed. Programs that still run the
/// old content keep the old pages and trampolines.
#[derive(Debug, Default)]
pub struct TextSlot(RefCell<Option<Rc<PatchedText>>>);

/// A file's version by its attributes: size, and times of the last change in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Stamp {
    fn of(inode: &Rc<dyn Inode>) -> Self {
        inode.attr().map_or(Self::default(), |a| Self {
            size: a.size,
            modified: (a.mtime, a.mtime_ns),
            changed: (a.ctime, a.ctime_ns),
        })
    }
}

/// Patched pages of one file.
#[derive(Debug, Default)]
pub struct PatchedText {
    /// The file's system call sites.
    pub sites: keel_core::patch::Sites,
    stamp: Stamp,
    pages: RefCell<BTreeMap<u64, Frame>>,
    trampolines: RefCell<BTreeMap<u64, Frame>>,
    distance: Cell<Option<isize>>,
}

impl PatchedText {
    /// The patched text of a file, created if necessary; `None` if the file can't have one. May block.
    pub fn of(inode: &Rc<dyn Inode>) -> Option<Rc<Self>> {
        let slot = inode.attachments()?.get_or_insert(TextSlot::default);
        if let Some(text) = slot.0.borrow().clone() {
            return Some(text);
        }
        let text = Rc::new(Self { stamp: Stamp::of(inode), ..Self::default() });
        Some(slot.0.borrow_mut().get_or_insert(text).clone())
    }

    /// The patched text of a file, if it exists.
    pub fn existing(inode: &Rc<dyn Inode>) -> Option<Rc<Self>> {
        inode.attachments()?.get::<TextSlot>()?.0.borrow().clone()
    }

    /// Drops the patched text of a file that has changed; called when the file is mapped. May block.
    pub fn refresh(inode: &Rc<dyn Inode>) {
        let Some(text) = Self::existing(inode) else { return };
        if text.stamp != Stamp::of(inode)
            && let Some(slot) = inode.attachments().and_then(|a| a.get::<TextSlot>())
        {
            slot.0.borrow_mut().take_if(|current| Rc::ptr_eq(current, &text));
        }
    }

    /// The patched page that replaces a file page.
    pub fn page(&self, index: u64) -> Option<Frame> {
        self.pages.borrow().get(&index).cloned()
    }

    /// Sets the patched page that replaces a file page.
    pub fn set_page(&self, index: u64, frame: Frame) {
        self.pages.borrow_mut().insert(index, frame);
    }

    /// Whether the frame is one of the patched pages.
    pub fn owns(&self, index: u64, frame: &Frame) -> bool {
        self.pages.borrow().get(&index).is_some_and(|own| own.same(frame))
    }

    /// A trampoline page below [`TRAMPOLINE_PAGES`], allocated (zeroed) if it does not exist. `None` if out of memory.
    pub fn trampoline(&self, index: u64) -> Option<Frame> {
        let mut pages = self.trampolines.borrow_mut();
        if let Some(frame) = pages.get(&index) {
            return Some(frame.clone());
        }
        let frame = Frame::alloc_zeroed()?;
        pages.insert(index, frame.clone());
        Some(frame)
    }

    /// Bytes from the address where file page 0 would be mapped to trampoline page 0.
    pub fn distance(&self) -> Option<isize> {
        self.distance.get()
    }
}

/// The place in a file that corresponds to an instruction pointer.
#[derive(Clone)]
pub struct TextSite {
    /// The file.
    pub inode: Rc<dyn Inode>,
    /// Page of the file.
    pub file_page: u64,
    /// Address of that page in this address space.
    pub page_address: usize,
    /// Start of the mapping.
    pub start: usize,
    /// End of the mapping.
    pub end: usize,
}

impl Mm {
    /// The place of `address`, if its text may be patched: in an executable private mapping of a file that was never
    /// writable, so that its content is the file's.
    pub fn text_site(&self, address: usize) -> Option<TextSite> {
        let inner = self.inner();
        let vma = inner.vmas.find(address).filter(|_| !inner.plain_text)?;
        let (file, first) = vma.attrs.text_file()?;
        let page_address = address & !(PAGE_SIZE - 1);
        let file_page = first + ((page_address - vma.start) / PAGE_SIZE) as u64;
        Some(TextSite { inode: file.inode.clone(), file_page, page_address, start: vma.start, end: vma.end })
    }

    /// Address of the trampoline area of the text at `site`; maps it if necessary. The first call for a file fixes the
    /// distance. `None` if the area is in use in this address space.
    pub fn trampoline_area(&self, site: &TextSite) -> Option<usize> {
        let text = PatchedText::existing(&site.inode)?;
        let mut inner = self.inner();
        let origin = origin(site.page_address, site.file_page)?;
        if text.distance.get().is_none() {
            let base = inner.image_base(&site.inode, site.page_address)?;
            let area = base.checked_sub(TRAMPOLINE_ROOM)?;
            if !inner.trampolines_fit(&text, area) {
                return None;
            }
            text.distance.set(Some(area as isize - origin as isize));
        }
        inner.trampolines_at(&text, origin)
    }

    /// Maps trampolines that were added since [`Mm::trampoline_area`].
    pub fn show_trampolines(&self, site: &TextSite) {
        let Some(text) = PatchedText::existing(&site.inode) else { return };
        let mut inner = self.inner();
        let area = origin(site.page_address, site.file_page).and_then(|origin| inner.trampolines_at(&text, origin));
        if let Some(area) = area {
            inner.map_trampolines(&text, area);
        }
    }

    /// The text whose trampolines are at `address`, and the address of its file page 0.
    pub fn trampoline_text(&self, address: usize) -> Option<(Rc<PatchedText>, usize)> {
        let inner = self.inner();
        let vma = inner.vmas.find(address)?;
        let Backing::Trampolines(text, first) = &vma.attrs.backing else { return None };
        let area = origin(vma.start, *first)?;
        Some((text.clone(), area.checked_add_signed(text.distance()?.checked_neg()?)?))
    }

    /// Maps a patched page instead of the file's: in this space wherever it is mapped as text with trampolines, in
    /// other spaces from the next fault on.
    pub fn replace_text_page(&self, inode: &Rc<dyn Inode>, page: u64, frame: &Frame) {
        let Some(text) = PatchedText::existing(inode) else { return };
        text.set_page(page, frame.clone());
        let mut inner = self.inner();
        let inner = &mut *inner;
        if inner.plain_text {
            return;
        }
        let mut shown: SmallVec<[usize; 2]> = SmallVec::new();
        for vma in inner.vmas.iter() {
            let Some((file, first)) = vma.attrs.text_file() else { continue };
            let Some(index) = page.checked_sub(first).filter(|i| *i < (vma.len() / PAGE_SIZE) as u64) else { continue };
            if same_inode(&file.inode, inode) {
                shown.push(vma.start + index as usize * PAGE_SIZE);
            }
        }
        for va in shown {
            let prot = inner.vmas.find(va).map_or(Prot::empty(), |v| v.attrs.page_prot());
            let ready = origin(va, page).and_then(|origin| inner.trampolines_at(&text, origin)).is_some();
            if ready && inner.space.map(va, frame.clone(), prot).is_some() {
                inner.space.flush_page(va);
            }
        }
    }
}

/// Address of page 0 of a file if `page` is at `address`. `None` if out of range.
fn origin(address: usize, page: u64) -> Option<usize> {
    address.checked_sub(usize::try_from(page).ok()?.checked_mul(PAGE_SIZE)?)
}

impl Inner {
    /// First address of the run of mappings of `inode` around `address`.
    fn image_base(&self, inode: &Rc<dyn Inode>, address: usize) -> Option<usize> {
        let of_file = |file: &Rc<FileBacking>| same_inode(&file.inode, inode);
        let mut base = self.vmas.find(address)?.start;
        while let Some(below) = self.vmas.last_below(base) {
            if below.end != base || !below.attrs.file().is_some_and(|(file, _)| of_file(file)) {
                break;
            }
            base = below.start;
        }
        Some(base)
    }

    fn trampolines_fit(&self, text: &Rc<PatchedText>, area: usize) -> bool {
        let Some(end) = area.checked_add(TRAMPOLINE_ROOM) else { return false };
        area >= USER_MIN && end <= USER_TOP && (self.vmas.is_free(area, end) || self.has_trampolines(text, area))
    }

    fn has_trampolines(&self, text: &Rc<PatchedText>, area: usize) -> bool {
        self.vmas.find(area).is_some_and(|v| {
            v.start == area
                && v.len() == TRAMPOLINE_ROOM
                && matches!(&v.attrs.backing, Backing::Trampolines(t, 0) if Rc::ptr_eq(t, text))
        })
    }

    /// The trampolines of the text whose file page 0 is at `origin`; maps them if necessary.
    fn trampolines_at(&mut self, text: &Rc<PatchedText>, origin: usize) -> Option<usize> {
        let area = origin.checked_add_signed(text.distance.get()?)?;
        if !self.trampolines_fit(text, area) {
            return None;
        }
        if !self.has_trampolines(text, area) {
            self.make_room(1).ok()?;
            let attrs = Area {
                flags: AreaFlags::SPECIAL,
                backing: Backing::Trampolines(text.clone(), 0),
                ..Area::anonymous(Prot::READ | Prot::EXEC)
            };
            self.vmas.insert(area, area + TRAMPOLINE_ROOM, attrs);
            self.map_trampolines(text, area);
        }
        Some(area)
    }

    /// Maps the existing trampolines, because patched text will be used soon. On failure they are mapped by faults.
    fn map_trampolines(&mut self, text: &PatchedText, area: usize) {
        for (index, frame) in text.trampolines.borrow().iter().filter(|(index, _)| **index < TRAMPOLINE_PAGES) {
            let va = area + *index as usize * PAGE_SIZE;
            if self.space.get(va).is_none() {
                let _ = self.space.map(va, frame.clone(), Prot::READ | Prot::EXEC);
            }
        }
    }

    /// The patched page for `va` of a text mapping, if it exists and its trampolines are mapped.
    pub(super) fn patched_page(&mut self, vma: &Vma<Area>, va: usize, page: u64) -> Option<Frame> {
        let text = vma.attrs.patched_text().filter(|_| !self.plain_text)?;
        let frame = text.page(page)?;
        self.trampolines_at(&text, origin(va, page)?)?;
        Some(frame)
    }
}

impl Inner {
    /// Unmaps the trampolines of files whose text is not mapped any more; `gone` are the mappings that were just
    /// removed. Returns the mappings to drop.
    pub(super) fn retire_trampolines(&mut self, gone: &Removed) -> Removed {
        let mut retired = Removed::new();
        for old in gone.iter() {
            if let Backing::Trampolines(text, first) = &old.attrs.backing {
                self.hide_patched_pages(text, old.start, *first);
                continue;
            }
            let Some((file, first)) = old.attrs.text_file() else { continue };
            let Some(text) = old.attrs.patched_text() else { continue };
            let Some(origin) = origin(old.start, first) else { continue };
            let Some(area) = text.distance.get().and_then(|d| origin.checked_add_signed(d)) else { continue };
            let used = self.vmas.iter().any(|v| {
                let of_file = v.attrs.text_file().filter(|(f, _)| same_inode(&f.inode, &file.inode));
                of_file.is_some_and(|(_, page)| self::origin(v.start, page) == Some(origin))
            });
            if !used && self.has_trampolines(&text, area) {
                self.space.unmap_range(area, area + TRAMPOLINE_ROOM, |_, page| drop(page));
                retired.append(&mut self.vmas.remove(area, area + TRAMPOLINE_ROOM));
            }
        }
        retired
    }

    /// The program unmapped trampolines, page `first` at `address`: maps the file's original pages instead of the text
    /// that jumps there.
    fn hide_patched_pages(&mut self, text: &Rc<PatchedText>, address: usize, first: u64) {
        let Some(distance) = text.distance.get().and_then(isize::checked_neg) else { return };
        let Some(origin) = origin(address, first).and_then(|area| area.checked_add_signed(distance)) else { return };
        let of_file = |v: &Vma<Area>| {
            let page = v.attrs.patched_text().filter(|t| Rc::ptr_eq(t, text)).and_then(|_| v.attrs.file())?.1;
            (self::origin(v.start, page) == Some(origin)).then_some((v.start, v.end, page))
        };
        for (start, end, first) in self.vmas.iter().filter_map(of_file) {
            for (index, frame) in text.pages.borrow().iter() {
                let Some(i) = index.checked_sub(first).filter(|i| *i < ((end - start) / PAGE_SIZE) as u64) else {
                    continue;
                };
                let va = start + i as usize * PAGE_SIZE;
                if self.space.get(va).is_some_and(|m| m.frame.same(frame)) {
                    drop(self.space.unmap(va));
                }
            }
        }
        // The rest of the area is unused.
        let area = address - first as usize * PAGE_SIZE;
        for vma in self.vmas.remove(area, area + TRAMPOLINE_ROOM) {
            self.space.unmap_range(vma.start, vma.end, |_, page| drop(page));
        }
        self.space.flush();
    }
}

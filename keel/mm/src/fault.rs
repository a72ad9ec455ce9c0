//! Page faults: demand-zero, file pages, copy-on-write, stack growth.
//!
//! A fault is expensive under software-nested KVM (as much as copying 200 pages), so each one also maps pages that will
//! probably be touched next: cached neighbours of file pages, a growing number of anonymous pages while a program walks
//! through fresh memory, and private copies in data segments.

use super::area::{Area, AreaFlags, Backing, FileBacking, STACK_GUARD_GAP};
use super::{Access, FaultError, Inner, Limits, Mm, page_down};
use abi::layout::{LARGE_PAGE_SIZE, PAGE_SIZE, USER_MIN, USER_TOP};
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::frame::{Frame, LargeFrame};
use hal::paging::{Mapping, Prot};
use keel_core::vma::Vma;
use uapi::Errno;

/// Initial size of the aligned block that a fault in anonymous memory fills, in pages.
const AROUND: usize = 16;
/// Number of areas that a program begins to fill before the block size doubles, because it uses much memory.
const FEW_WALKS: usize = 6;
/// Size of the aligned block of cached file pages that a fault maps: additional pages cost almost nothing.
const FILE_AROUND: usize = 128;
/// Maximum number of pages that an anonymous fault fills.
const MOST_AHEAD: usize = 128;
/// Size of the aligned block of a data segment that a fault copies: a program that reads its data soon writes it.
const DATA_AROUND: usize = 32;

/// Size of the aligned block of a host file that a store to a private mapping copies, in pages.
const COPY_AROUND: usize = 16;
/// What a small pod fills and copies in advance: a part of that.
const SMALL_SHARE: usize = 8;
/// Maximum number of pages that a copy-on-write fault copies.
const MOST_COPIED: usize = 64;
/// The same in a mapping of a host file: one request to the host.
const MOST_READ: usize = 128;

/// Last filled range, to detect a walk through memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    end: usize,
    pages: usize,
}

/// Walks through fresh anonymous memory: programs often fill several areas alternately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walks {
    walks: [Ahead; 4],
    oldest: usize,
    begun: usize,
}

impl Walks {
    /// Index of the walk that has reached `va`; or a new, empty one.
    fn at(&mut self, va: usize) -> usize {
        let known = self.walks.iter().position(|walk| walk.end == va);
        known.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % self.walks.len();
            self.begun = self.begun.saturating_add(1);
            self.walks[self.oldest] = Ahead { end: va, pages: 0 };
            self.oldest
        })
    }
}

/// A request for file pages by a fault.
struct Load {
    file: Rc<FileBacking>,
    /// Address of the faulting page.
    va: usize,
    /// Page of the file at `va`.
    page: u64,
    /// Number of pages requested before `va`.
    before: usize,
    /// Number of pages requested, from `va - before` on.
    count: usize,
    /// For a shared mapping.
    shared: bool,
    /// For stores.
    write: bool,
    /// The program walks through a private mapping and writes: request private copies.
    copy: bool,
}

impl Load {
    /// `count` pages from `page` on, which is at `va`; read-only.
    fn new(file: &Rc<FileBacking>, va: usize, page: u64, count: usize) -> Self {
        Self { file: file.clone(), va, page, before: 0, count, shared: false, write: false, copy: false }
    }

    /// Requests pages from the file.
    fn ask(&self, first: u64, count: usize) -> uapi::Result<Vec<Frame>> {
        let inode = &self.file.inode;
        if self.shared { inode.shared_pages(first, count, self.write) } else { inode.pages(first, count, self.write) }
    }
}

enum Step {
    Done,
    Load(Load),
}

impl Mm {
    /// Resolves a page fault. May block (file pages).
    pub fn fault(&self, address: usize, access: Access) -> Result<(), FaultError> {
        if address >= USER_TOP {
            return Err(FaultError::NotMapped);
        }
        let va = page_down(address);
        loop {
            let step = self.inner().fault(va, access, &self.limits.get());
            if super::answer_losses() {
                continue;
            }
            let Step::Load(mut load) = step? else { return Ok(()) };
            let (first, frames) = match fetch(&load) {
                // There is no room for a store, but the access is a read.
                Err(FaultError::BeyondFile) if load.write && access != Access::Write => {
                    load = Load { write: false, before: 0, count: 1, ..load };
                    fetch(&load)?
                }
                fetched => fetched?,
            };
            let installed = self.inner().install(&load, first, &frames, access);
            // The mapping may have changed during the request to the file.
            if !super::answer_losses() && installed? {
                return Ok(());
            }
        }
    }

    /// Populates the beginning of a new file mapping if that is cheap.
    pub(super) fn map_ahead(&self, start: usize, pages: usize, access: Access) {
        let load = {
            let inner = self.inner();
            let Some(vma) = inner.vmas.find(start) else { return };
            let Some((file, first)) = vma.attrs.file() else { return };
            if !vma.attrs.is_private() && vma.attrs.prot.contains(Prot::WRITE) {
                return;
            }
            let index = (start - vma.start) / PAGE_SIZE;
            let count = pages.min(vma.len() / PAGE_SIZE - index);
            Load { shared: !vma.attrs.is_private(), ..Load::new(file, start, first + index as u64, count) }
        };
        if let Ok((first, frames)) = fetch(&load) {
            // Ignore errors: the rest is populated by faults.
            let _ = self.inner().install(&load, first, &frames, access);
        }
    }

    /// Populates the mapped and accessible part of `[start, end)` (MAP_POPULATE, mlock). Stops at the first failure.
    pub fn populate(&self, start: usize, end: usize) -> Result<(), FaultError> {
        let mut va = start;
        while va < end {
            let access = {
                let inner = self.inner();
                let Some(vma) = inner.vmas.first_above(va).filter(|v| v.start < end) else { return Ok(()) };
                if va < vma.start || vma.attrs.prot.is_empty() {
                    va = if va < vma.start { vma.start } else { vma.end };
                    continue;
                }
                // Private writable pages are mapped writable, as in Linux.
                let write = vma.attrs.prot.contains(Prot::WRITE) && vma.attrs.is_private();
                match inner.space.get(va) {
                    Some(page) if !write || page.prot.contains(Prot::WRITE) => None,
                    _ if write => Some(Access::Write),
                    _ => Some(Access::Read),
                }
            };
            if let Some(access) = access {
                self.fault(va, access)?;
            }
            va += PAGE_SIZE;
        }
        Ok(())
    }
}

impl Inner {
    /// Populates `[start, end)`, within one mapping, if that is cheap. The caller owns the address space, so the file
    /// may be read.
    pub(super) fn prefault(&mut self, start: usize, end: usize, access: Access) {
        let Some(vma) = self.vmas.find(start).cloned() else { return };
        let end = end.min(vma.end);
        if start >= end {
            return;
        }
        let Backing::File(file, first) = &vma.attrs.backing else {
            let prot = vma.attrs.page_prot();
            for va in (start..end).step_by(PAGE_SIZE).filter(|_| vma.attrs.is_anonymous()) {
                if self.space.get(va).is_none() {
                    let Some(frame) = Frame::alloc_zeroed() else { return };
                    if self.space.map(va, frame, prot).is_none() {
                        return;
                    }
                }
            }
            return;
        };
        let page = first + ((start - vma.start) / PAGE_SIZE) as u64;
        let load = Load {
            shared: !vma.attrs.is_private(),
            write: !vma.attrs.is_private() && vma.attrs.prot.contains(Prot::WRITE),
            ..Load::new(file, start, page, (end - start) / PAGE_SIZE)
        };
        if let Ok((first, frames)) = fetch(&load) {
            // Ignore errors: the rest is populated by faults.
            let _ = self.install(&load, first, &frames, access);
        }
    }
}

/// Requests pages of the file, with neighbours if they are cached; returns the file page of the first one, and the
/// pages.
fn fetch(load: &Load) -> Result<(u64, Vec<Frame>), FaultError> {
    let error = |errno| match errno {
        Errno::ENOMEM => FaultError::NoMemory,
        _ => FaultError::BeyondFile,
    };
    let inode = &load.file.inode;
    if load.write && load.before + load.count > 1 && inode.has_scarce_pages() {
        let frames = load.ask(load.page, 1).map_err(error)?;
        return if frames.is_empty() { Err(FaultError::BeyondFile) } else { Ok((load.page, frames)) };
    }
    let first = load.page - load.before as u64;
    if load.copy {
        if load.before > 0
            && let Ok(copies) = inode.copies(first, load.count)
            && copies.len() > load.before
        {
            return Ok((first, copies));
        }
        let copies = match inode.copies(load.page, load.count - load.before) {
            // The pod has written to it meanwhile.
            Err(Errno::ENODEV) => inode.pages(load.page, 1, false).and_then(|frames| {
                let page = frames.first().ok_or(Errno::ENXIO)?;
                let copy = Frame::alloc().ok_or(Errno::ENOMEM)?;
                copy.copy_from(page);
                Ok(alloc::vec![copy])
            }),
            copies => copies,
        };
        return copies.map(|frames| (load.page, frames)).map_err(error);
    }
    let mut frames = Vec::new();
    // A file returns contiguous pages: up to the end of its cached range or a chunk.
    while frames.len() < load.count {
        match load.ask(first + frames.len() as u64, load.count - frames.len()) {
            Ok(more) if !more.is_empty() && frames.try_reserve(more.len()).is_ok() => frames.extend(more),
            Err(errno) if load.before == 0 && frames.is_empty() => return Err(error(errno)),
            _ => break,
        }
    }
    if frames.len() > load.before {
        return Ok((first, frames));
    }
    let frames = load.ask(load.page, load.count - load.before).map_err(error)?;
    if frames.is_empty() { Err(FaultError::BeyondFile) } else { Ok((load.page, frames)) }
}

/// Whether the page table has the only reference to a RAM frame.
pub(super) fn is_sole(page: &Mapping) -> bool {
    // The table and the handle in `page` have one reference each. Window frames belong to the host's file.
    page.frame.refs() == 2 && page.frame.gpa() < abi::layout::WINDOW_BASE as u64
}

/// Copies the page to a new frame.
fn copy_of(page: &Mapping) -> Result<Frame, FaultError> {
    let copy = Frame::alloc().ok_or(FaultError::NoMemory)?;
    copy.copy_from(&page.frame);
    // A page that the host could not provide was read as zeros.
    if hal::ring::has_losses() { Err(FaultError::BeyondFile) } else { Ok(copy) }
}

impl Inner {
    /// One attempt: resolved, or the required file pages.
    fn fault(&mut self, va: usize, access: Access, limits: &Limits) -> Result<Step, FaultError> {
        let vma = match self.vmas.find(va) {
            Some(vma) => vma.clone(),
            None => self.grow_stack(va, limits)?,
        };
        let area = &vma.attrs;
        if area.flags.contains(AreaFlags::GUARD) {
            return Err(FaultError::NotMapped);
        }
        if !area.allows(access) {
            return Err(FaultError::Forbidden);
        }
        match self.space.get(va) {
            None => self.missing(&vma, va, access),
            Some(page) => self.present(&vma, va, access, &page),
        }
    }

    /// The page is present. Returns whether the fault is resolved without making the page writable.
    pub(super) fn refreshed(
        &mut self,
        vma: &Vma<Area>,
        va: usize,
        access: Access,
        page: &Mapping,
    ) -> Result<bool, FaultError> {
        let needed = match access {
            Access::Read => Prot::READ,
            Access::Write => Prot::WRITE,
            Access::Exec => Prot::EXEC,
        };
        if page.prot.contains(needed) {
            // Spurious fault: another thread resolved it, or permissions grew.
            self.space.flush_page(va);
            return Ok(true);
        }
        if access == Access::Write {
            return Ok(false);
        }
        // The mapping has gained the permission since.
        let prot = vma.attrs.page_prot();
        let prot = if page.prot.contains(Prot::WRITE) { prot } else { prot - Prot::WRITE };
        self.set(va, page.frame.clone(), prot)?;
        Ok(true)
    }

    /// Fault on a present page.
    fn present(&mut self, vma: &Vma<Area>, va: usize, access: Access, page: &Mapping) -> Result<Step, FaultError> {
        if self.refreshed(vma, va, access, page)? {
            return Ok(Step::Done);
        }
        let prot = vma.attrs.page_prot();
        match &vma.attrs.backing {
            Backing::File(file, first) if !vma.attrs.is_private() => {
                let page = first + ((va - vma.start) / PAGE_SIZE) as u64;
                Ok(Step::Load(Load { shared: true, write: true, ..Load::new(file, va, page, 1) }))
            }
            Backing::Anonymous | Backing::File(..) => {
                self.copy_on_write(vma, va, page)?;
                Ok(Step::Done)
            }
            Backing::Shared(..) | Backing::Special(..) | Backing::Trampolines(..) => {
                self.set(va, page.frame.clone(), prot)?;
                Ok(Step::Done)
            }
        }
    }

    /// A store to a private page that is mapped read-only.
    pub(super) fn copy_on_write(&mut self, vma: &Vma<Area>, va: usize, page: &Mapping) -> Result<(), FaultError> {
        let prot = vma.attrs.page_prot();
        if !is_sole(page) {
            self.set(va, copy_of(page)?, prot)?;
            // No flush for this one: a page fault invalidates the faulting translation (SDM 3A 4.10.4.1).
            self.copy_ahead(vma, va, prot);
            return Ok(());
        }
        // After a fork whose child has ended, the neighbours have no other reference either; permissions only grow, so
        // no flush.
        let block = MOST_AHEAD * PAGE_SIZE;
        let start = (va / block * block).max(vma.start);
        let end = (va / block * block + block).min(vma.end);
        self.space.update_range(start, end, |at, m| if at == va || is_sole(m) { prot } else { m.prot });
        Ok(())
    }

    /// Number of pages to copy from `va` on, for a store there: more than one if the program walks upward through
    /// shared pages. Pages of files that the pod may change are copied one by one.
    fn pages_to_copy(&mut self, vma: &Vma<Area>, va: usize) -> usize {
        // Some pages of the last range may have been absent.
        let last = self.copied.pages * PAGE_SIZE;
        let near = va.wrapping_add(last).wrapping_sub(self.copied.end) < last + AROUND * PAGE_SIZE;
        let most = match vma.attrs.file() {
            _ if vma.attrs.flags.contains(AreaFlags::IMAGE) => MOST_COPIED,
            Some((file, _)) if file.inode.is_host_content() => MOST_READ,
            Some(_) => 1,
            None => MOST_COPIED,
        };
        self.copied.pages = if near { (self.copied.pages * 2).max(4) } else { 1 }.min(within(most));
        let pages = self.copied.pages.min((vma.end - va) / PAGE_SIZE);
        self.copied.end = va + pages * PAGE_SIZE;
        pages
    }

    /// The address range to copy for a store to `va`: that of a walk, else the aligned block around it in a mapping of
    /// a host file. Copying neighbours is cheaper than a fault for each, unless memory is scarce.
    fn range_to_copy(&mut self, vma: &Vma<Area>, va: usize) -> (usize, usize) {
        let pages = self.pages_to_copy(vma, va);
        let host = vma.attrs.flags.contains(AreaFlags::IMAGE)
            || vma.attrs.file().is_some_and(|(file, _)| file.inode.is_host_content());
        if pages > 1 || !host || vma.attrs.flags.contains(AreaFlags::RANDOM) || !hal::frame::ram_usage().abounds() {
            return (va, va + pages * PAGE_SIZE);
        }
        let start = va / (COPY_AROUND * PAGE_SIZE) * (COPY_AROUND * PAGE_SIZE);
        (start.max(vma.start), (start + COPY_AROUND * PAGE_SIZE).min(vma.end))
    }

    /// Copies neighbours of a copied page if that pays off.
    fn copy_ahead(&mut self, vma: &Vma<Area>, va: usize, prot: Prot) {
        let (start, end) = self.range_to_copy(vma, va);
        let mut used = false;
        for at in (start..end).step_by(PAGE_SIZE) {
            let Some(page) = self.space.get(at) else {
                if at < va {
                    continue;
                }
                break;
            };
            if page.prot.contains(Prot::WRITE) {
                continue;
            }
            let frame = if is_sole(&page) { Ok(page.frame.clone()) } else { copy_of(&page) };
            // Stop on failure: the rest is copied by faults.
            let Ok(frame) = frame else { break };
            used |= page.accessed && !frame.same(&page.frame);
            if self.space.map(at, frame, prot).is_none() {
                break;
            }
        }
        if used {
            self.space.flush();
        }
    }

    /// Fault on an absent page.
    fn missing(&mut self, vma: &Vma<Area>, va: usize, access: Access) -> Result<Step, FaultError> {
        let index = |first: u64| first + ((va - vma.start) / PAGE_SIZE) as u64;
        match &vma.attrs.backing {
            Backing::Anonymous => self.fill_zeroed(vma, va)?,
            Backing::File(file, first) => {
                let page = index(*first);
                if access == Access::Write && vma.attrs.is_private() && !is_data(&vma.attrs) {
                    let (start, end) = self.range_to_copy(vma, va);
                    let count = (end - start) / PAGE_SIZE;
                    if count > 1 {
                        let before = (va - start) / PAGE_SIZE;
                        return Ok(Step::Load(Load { copy: true, before, ..Load::new(file, va, page, count) }));
                    }
                }
                return Ok(Step::Load(around(vma, file, va, page)));
            }
            Backing::Shared(object, first) => {
                let block = within(AROUND) * PAGE_SIZE;
                let (mut at, end) = (va, (va / block * block + block).min(vma.end));
                let mut page = index(*first);
                if object.ends_before(page) {
                    return Err(FaultError::BeyondFile);
                }
                while at < end && !object.ends_before(page) && (at == va || self.space.get(at).is_none()) {
                    match object.page(page) {
                        Some(frame) => self.set(at, frame, vma.attrs.page_prot())?,
                        None if at == va => return Err(FaultError::NoMemory),
                        None => break,
                    }
                    (at, page) = (at + PAGE_SIZE, page + 1);
                }
            }
            Backing::Special(special, first) => {
                let frame = usize::try_from(index(*first)).ok().and_then(|i| special.pages.get(i));
                let frame = frame.ok_or(FaultError::BeyondFile)?.clone();
                self.set(va, frame, vma.attrs.page_prot())?;
            }
            Backing::Trampolines(text, first) => {
                let frame = text.trampoline(index(*first)).ok_or(FaultError::NoMemory)?;
                self.set(va, frame, vma.attrs.page_prot())?;
            }
        }
        Ok(Step::Done)
    }

    /// Maps zeroed pages at `va` and around it.
    pub(super) fn fill_zeroed(&mut self, vma: &Vma<Area>, va: usize) -> Result<(), FaultError> {
        let prot = vma.attrs.page_prot();
        let walk = self.ahead.at(va);
        let around = within(if self.ahead.begun <= FEW_WALKS { AROUND } else { 2 * AROUND });
        let block = around * PAGE_SIZE;
        let before = self.ahead.walks[walk].pages;
        let (start, end, pages) = if vma.attrs.flags.contains(AreaFlags::RANDOM) {
            (va, va + PAGE_SIZE, 0)
        } else if before != 0 {
            // The program walks upward: twice as many as last time, then whole large pages.
            let pages = (before * 2).clamp(within(AROUND), within(MOST_AHEAD));
            if pages == MOST_AHEAD && self.fill_large(vma, va, prot) {
                self.ahead.walks[walk] = Ahead { end: va + LARGE_PAGE_SIZE, pages };
                return Ok(());
            }
            let boundary = va / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE + LARGE_PAGE_SIZE;
            (va, boundary.min(va + pages * PAGE_SIZE), pages)
        } else {
            (va / block * block, va / block * block + block, around)
        };
        let (start, end) = (start.max(vma.start), end.min(vma.end));
        self.ahead.walks[walk] = Ahead { end, pages };
        self.set(va, Frame::alloc_zeroed().ok_or(FaultError::NoMemory)?, prot)?;
        let mut at = start;
        while at < end {
            if at != va && self.space.get(at).is_none() {
                let Some(frame) = Frame::alloc_zeroed() else { break };
                if self.space.map(at, frame, prot).is_none() {
                    break;
                }
            }
            at += PAGE_SIZE;
        }
        Ok(())
    }

    /// Maps a large page at `va`, if that is its start, the mapping covers it, and enough memory is free.
    fn fill_large(&mut self, vma: &Vma<Area>, va: usize, prot: Prot) -> bool {
        let fits = va.is_multiple_of(LARGE_PAGE_SIZE) && vma.end - va >= LARGE_PAGE_SIZE;
        if !fits || !self.rules.permit_huge(&vma.attrs) || !prot.contains(Prot::READ) {
            return false;
        }
        if !hal::frame::ram_usage().abounds() || !self.space.is_vacant(va) {
            return false;
        }
        LargeFrame::alloc_zeroed().is_some_and(|frame| self.space.map_large(va, frame, prot).is_some())
    }

    /// Maps pages of a file, `frames` from file page `first` on. Returns false if the mapping has changed since the
    /// request.
    fn install(&mut self, load: &Load, first: u64, frames: &[Frame], access: Access) -> Result<bool, FaultError> {
        let Some(vma) = self.vmas.find(load.va).cloned() else { return Ok(false) };
        let area = &vma.attrs;
        let page = |at: usize, first: u64| first + ((at - vma.start) / PAGE_SIZE) as u64;
        match area.file() {
            Some((file, f)) if Rc::ptr_eq(file, &load.file) && page(load.va, f) == load.page => {}
            _ => return Ok(false),
        }
        let writes = area.prot.contains(Prot::WRITE);
        if area.prot.is_empty()
            || access == Access::Write && !writes
            || !area.is_private() && if access == Access::Write { !load.write } else { load.write && !writes }
            || load.copy && !(area.is_private() && writes)
        {
            return Ok(false);
        }
        let prot = area.page_prot();
        let store = access == Access::Write;
        let copy_all = is_data(area);
        // Changes of the file remain visible until a page is written, so copy only that page.
        let copy_one = area.is_private() && writes && store;
        let patched = area.patched_text().is_some();
        for (i, frame) in frames.iter().enumerate() {
            let index = first + i as u64;
            // Skip pages outside of the mapping.
            let at = if index >= load.page {
                load.va.checked_add((index - load.page) as usize * PAGE_SIZE)
            } else {
                load.va.checked_sub((load.page - index) as usize * PAGE_SIZE)
            };
            let Some(at) = at.filter(|at| vma.contains(*at)) else { continue };
            let wanted = at == load.va;
            if (!wanted || area.is_private()) && self.space.get(at).is_some() {
                // Present already, or (`wanted`) resolved by another thread meanwhile.
                continue;
            }
            let mapped = if load.copy {
                self.space.map(at, frame.clone(), prot)
            } else if copy_all || copy_one && wanted {
                let copy = Frame::alloc().inspect(|copy| copy.copy_from(frame));
                if hal::ring::has_losses() {
                    return Ok(false); // the copied content may be zeros
                }
                copy.and_then(|copy| self.space.map(at, copy, prot))
            } else {
                let prot = if load.write { prot } else { prot - Prot::WRITE };
                let own = if patched { self.patched_page(&vma, at, index) } else { None };
                self.space.map(at, own.unwrap_or_else(|| frame.clone()), prot)
            };
            if mapped.is_none() {
                if wanted {
                    return Err(FaultError::NoMemory);
                }
                break;
            }
        }
        Ok(true)
    }

    /// Maps one page or reports that memory is used up.
    fn set(&mut self, va: usize, frame: Frame, prot: Prot) -> Result<(), FaultError> {
        self.space.map(va, frame, prot).ok_or(FaultError::NoMemory)
    }

    /// Extends the stack above `va` down to it, if its limit and guard gap permit.
    fn grow_stack(&mut self, va: usize, limits: &Limits) -> Result<Vma<Area>, FaultError> {
        let above = self.vmas.first_above(va).filter(|v| v.attrs.flags.contains(AreaFlags::GROWS_DOWN));
        let above = above.ok_or(FaultError::NotMapped)?.clone();
        if (above.end - va) as u64 > limits.stack || va < USER_MIN {
            return Err(FaultError::NotMapped);
        }
        if let Some(below) = self.vmas.last_below(va) {
            let stack = below.attrs.flags.contains(AreaFlags::GROWS_DOWN);
            if !stack && !below.attrs.prot.is_empty() && va - below.end < STACK_GUARD_GAP {
                return Err(FaultError::NotMapped);
            }
        }
        // In blocks if the limits permit, so that deep recursion faults rarely.
        let block = AROUND * PAGE_SIZE;
        let lowest = above.end.saturating_sub(usize::try_from(limits.stack).unwrap_or(usize::MAX));
        let floor = self.vmas.last_below(va).map_or(USER_MIN, |below| below.end.saturating_add(STACK_GUARD_GAP));
        let start = (va / block * block).max(page_down(lowest + PAGE_SIZE - 1)).max(floor).min(va);
        if above.attrs.flags.contains(AreaFlags::GUARD) {
            // Guard pages at the lower end stay there. As on Linux, a stack that can't grow ends its program.
            self.make_room_for_guard().map_err(|_| FaultError::NotMapped)?;
            let mut area = above.attrs.clone();
            area.flags -= AreaFlags::GUARD;
            self.vmas.insert(start, above.start, area);
        } else {
            self.vmas.grow_down(above.start, start, above.attrs.clone());
        }
        self.vmas.find(va).cloned().ok_or(FaultError::NotMapped)
    }
}

/// Pages to fill in advance where other pods fill so many: a small pod has little memory to spare.
fn within(pages: usize) -> usize {
    if hal::frame::is_small() { pages.div_ceil(SMALL_SHARE) } else { pages }
}

/// Whether it is a data segment of an executable or library.
fn is_data(area: &Area) -> bool {
    area.flags.contains(AreaFlags::IMAGE) && area.prot.contains(Prot::WRITE) && area.is_private()
}

/// The pages to request at a fault: the aligned block, within the mapping.
fn around(vma: &Vma<Area>, file: &Rc<FileBacking>, va: usize, page: u64) -> Load {
    let block = if is_data(&vma.attrs) { within(DATA_AROUND) } else { FILE_AROUND } * PAGE_SIZE;
    let (mut start, mut end) = (va / block * block, va / block * block + block);
    if vma.attrs.flags.contains(AreaFlags::RANDOM) {
        (start, end) = (va, va + PAGE_SIZE);
    }
    let (start, end) = (start.max(vma.start), end.min(vma.end));
    Load {
        before: (va - start) / PAGE_SIZE,
        shared: !vma.attrs.is_private(),
        write: !vma.attrs.is_private() && vma.attrs.prot.contains(Prot::WRITE),
        ..Load::new(file, va, page, (end - start) / PAGE_SIZE)
    }
}

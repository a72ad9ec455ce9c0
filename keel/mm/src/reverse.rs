//! Reverse mapping from a file to its mappings, for pages of the file that are removed.

use super::Mm;
use super::area::{AreaFlags, same_inode};
use abi::layout::{PAGE_SIZE, WINDOW_BASE};
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::pieces::Pieces;
use vfs::Inode;

/// All address spaces.
static SPACES: Global<RefCell<Pieces<Weak<Mm>>>> = Global::new(RefCell::new(Pieces::new()));

/// Number of visits to all mapped files, and of files that a visit found truncated.
static VISITS: Global<Cell<u64>> = Global::new(Cell::new(0));
static CUTS: Global<Cell<u64>> = Global::new(Cell::new(0));
/// Number of files that a visit collects from the address spaces at once, and of pages of one of these.
const BATCH: usize = 64;

/// Attached to inodes that were mapped: for other files, which are the majority, no space is visited.
#[derive(Debug, Default)]
struct Mapped {
    /// The last visit to this file.
    visit: Cell<u64>,
}

/// Registers a new address space.
pub(super) fn enter(mm: &Rc<Mm>) {
    SPACES.borrow_mut().push_back(Rc::downgrade(mm));
}

/// Records that the file is mapped.
pub(super) fn note_mapped(inode: &Rc<dyn Inode>) {
    if let Some(attachments) = inode.attachments() {
        attachments.get_or_insert(Mapped::default);
    }
}

/// The file was truncated to `size` bytes: accesses beyond its last page fault again.
pub fn truncated(inode: &Rc<dyn Inode>, size: u64) {
    forget(inode, size.div_ceil(PAGE_SIZE as u64), u64::MAX);
}

/// Handles losses of window pages since the last call; returns whether there were any. The monitor replaced the lost
/// pages by zeros, so keel unmaps all window pages from all programs: a program that touches such a page again gets
/// SIGBUS if the file was truncated or can't be read. May block.
#[inline]
pub fn answer_losses() -> bool {
    let any = hal::ring::has_losses();
    if any {
        forget_window();
    }
    any
}

#[cold]
fn forget_window() {
    hal::ring::take_losses();
    let cuts = CUTS.get();
    // Accesses beyond the new end of a truncated file fault again.
    each_file(|file| {
        if let Some(size) = file.was_cut() {
            truncated(file, size);
            CUTS.set(CUTS.get() + 1);
        }
    });
    // If none was truncated, one can't be read.
    let distrust = CUTS.get() == cuts;
    each_file(|file| file.drop_window(distrust));
    each_space(|mm| mm.forget_window());
}

/// Calls `f` for all address spaces, without a borrow. Those that are created meanwhile may be skipped.
fn each_space(mut f: impl FnMut(&Rc<Mm>)) {
    // From the end: a removal meanwhile does not make the loop skip others.
    let mut at = SPACES.borrow().len();
    while at > 0 {
        at = (at - 1).min(SPACES.borrow().len());
        let mm = SPACES.borrow().get(at).and_then(Weak::upgrade);
        if let Some(mm) = mm {
            f(&mm);
        }
    }
}

/// Calls `f` once for each mapped file, without a borrow; a concurrent later visit may have handled a file already.
fn each_file(mut f: impl FnMut(&Rc<dyn Inode>)) {
    let visit = VISITS.get() + 1;
    VISITS.set(visit);
    loop {
        let mut files: [Option<Rc<dyn Inode>>; BATCH] = [const { None }; BATCH];
        let mut free = files.iter_mut();
        let mut is_full = false;
        each_space(|mm| {
            for (file, _) in mm.inner().vmas.iter().filter_map(|vma| vma.attrs.file()) {
                let Some(mapped) = file.inode.attachments().and_then(|a| a.get::<Mapped>()) else { continue };
                if mapped.visit.get() >= visit {
                    continue;
                }
                let Some(place) = free.next() else {
                    is_full = true;
                    return;
                };
                mapped.visit.set(visit);
                *place = Some(file.inode.clone());
            }
        });
        files.iter().flatten().for_each(&mut f);
        if !is_full {
            return;
        }
    }
}

/// The pages `[first, end)` of the file were removed or replaced: unmaps them everywhere. Private copies are dropped
/// too, as in Linux.
pub fn forget(inode: &Rc<dyn Inode>, first: u64, end: u64) {
    if inode.attachments().is_some_and(|a| a.get::<Mapped>().is_none()) {
        return;
    }
    each_space(|mm| mm.forget(inode, first, end));
}

/// Whether a shared mapping of the file is or may become writable.
pub fn is_mapped_writable(inode: &Rc<dyn Inode>) -> bool {
    if inode.attachments().is_some_and(|a| a.get::<Mapped>().is_none()) {
        return false;
    }
    let mut any = false;
    each_space(|mm| any = any || mm.maps_writable(inode));
    any
}

impl Mm {
    fn maps_writable(&self, inode: &Rc<dyn Inode>) -> bool {
        self.inner().vmas.iter().any(|vma| {
            let flags = vma.attrs.flags;
            flags.contains(AreaFlags::SHARED)
                && !flags.contains(AreaFlags::NEVER_WRITE)
                && vma.attrs.file().is_some_and(|(file, _)| same_inode(&file.inode, inode))
        })
    }

    fn forget(&self, inode: &Rc<dyn Inode>, first: u64, end: u64) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let mut used = false;
        for vma in inner.vmas.iter() {
            let Some((_, page)) = vma.attrs.file().filter(|(file, _)| same_inode(&file.inode, inode)) else {
                continue;
            };
            let pages = (vma.len() / PAGE_SIZE) as u64;
            let from = first.saturating_sub(page).min(pages) as usize;
            let to = end.saturating_sub(page).min(pages) as usize;
            inner.space.unmap_range(vma.start + from * PAGE_SIZE, vma.start + to * PAGE_SIZE, |_, page| {
                used |= page.accessed;
            });
        }
        if used {
            inner.space.flush();
        }
    }
}

impl Mm {
    fn forget_window(&self) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let mut used = false;
        for vma in inner.vmas.iter().filter(|vma| vma.attrs.file().is_some()) {
            let mut start = vma.start;
            while start < vma.end {
                let (mut shown, mut count) = ([0; BATCH], 0);
                inner.space.for_each(start, vma.end, |va, page| {
                    if page.frame.gpa() >= WINDOW_BASE as u64
                        && let Some(place) = shown.get_mut(count)
                    {
                        *place = va;
                        count += 1;
                    }
                });
                for &va in shown.iter().take(count) {
                    inner.space.unmap_range(va, va + PAGE_SIZE, |_, page| used |= page.accessed);
                }
                start = if count == BATCH { shown[BATCH - 1] + PAGE_SIZE } else { vma.end };
            }
        }
        if used {
            inner.space.flush();
        }
    }
}

impl Drop for Mm {
    fn drop(&mut self) {
        SPACES.borrow_mut().retain(|space| space.strong_count() > 0);
    }
}

//! From a file to the mappings of it: what to do when pages of a file go away.

use super::Mm;
use super::area::{AreaFlags, same_inode};
use abi::layout::{PAGE_SIZE, WINDOW_BASE};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use vfs::Inode;

/// All address spaces.
static SPACES: Global<RefCell<Vec<Weak<Mm>>>> = Global::new(RefCell::new(Vec::new()));

/// Attached to inodes that were mapped: most files never are, and then nobody needs to be asked.
#[derive(Debug, Default)]
struct Mapped;

/// Notes a new address space.
pub(super) fn enter(mm: &Rc<Mm>) {
    SPACES.borrow_mut().push(Rc::downgrade(mm));
}

/// Notes that the file gets mapped.
pub(super) fn note_mapped(inode: &Rc<dyn Inode>) {
    if let Some(attachments) = inode.attachments() {
        attachments.get_or_insert(Mapped::default);
    }
}

/// The file now ends at `size` bytes: accesses beyond its last page fault again.
pub fn truncated(inode: &Rc<dyn Inode>, size: u64) {
    forget(inode, size.div_ceil(PAGE_SIZE as u64), u64::MAX);
}

/// Whether the host could not give pages of the window since this was asked last. Zeros are in their place, wherever it could not,
/// so no program keeps any page of the window: one that touches such a page again gets its SIGBUS if the file was cut or
/// can't be read. May block.
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
    let cut = find_cut_files();
    for file in mapped_files() {
        // If none was cut, one can't be read.
        file.drop_window(!cut);
    }
    for mm in spaces() {
        mm.forget_window();
    }
}

/// Files that were cut fault again beyond their new ends; whether there was one.
fn find_cut_files() -> bool {
    let mut any = false;
    for file in mapped_files() {
        if let Some(size) = file.was_cut() {
            truncated(&file, size);
            any = true;
        }
    }
    any
}

fn spaces() -> Vec<Rc<Mm>> {
    SPACES.borrow().iter().filter_map(Weak::upgrade).collect()
}

fn mapped_files() -> Vec<Rc<dyn Inode>> {
    let mut files: Vec<Rc<dyn Inode>> = Vec::new();
    for mm in spaces() {
        for (file, _) in mm.inner.borrow().vmas.iter().filter_map(|vma| vma.attrs.file()) {
            if !files.iter().any(|known| same_inode(known, &file.inode)) {
                files.push(file.inode.clone());
            }
        }
    }
    files
}

/// The pages `[first, end)` of the file are gone or others: mappings ask for them again. Private copies
/// go with them, as in Linux.
pub fn forget(inode: &Rc<dyn Inode>, first: u64, end: u64) {
    if inode.attachments().is_some_and(|a| a.get::<Mapped>().is_none()) {
        return;
    }
    for mm in spaces() {
        mm.forget(inode, first, end);
    }
}

/// Some shared mapping of the file is or may become writable.
pub fn is_mapped_writable(inode: &Rc<dyn Inode>) -> bool {
    if inode.attachments().is_some_and(|a| a.get::<Mapped>().is_none()) {
        return false;
    }
    spaces().iter().any(|mm| mm.maps_writable(inode))
}

impl Mm {
    fn maps_writable(&self, inode: &Rc<dyn Inode>) -> bool {
        self.inner.borrow().vmas.iter().any(|vma| {
            let flags = vma.attrs.flags;
            flags.contains(AreaFlags::SHARED)
                && !flags.contains(AreaFlags::NEVER_WRITE)
                && vma.attrs.file().is_some_and(|(file, _)| same_inode(&file.inode, inode))
        })
    }

    fn forget(&self, inode: &Rc<dyn Inode>, first: u64, end: u64) {
        let mut inner = self.inner.borrow_mut();
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
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let mut used = false;
        for vma in inner.vmas.iter().filter(|vma| vma.attrs.file().is_some()) {
            let mut shown = Vec::new();
            inner.space.for_each(vma.start, vma.end, |va, page| {
                if page.frame.gpa() >= WINDOW_BASE as u64 {
                    shown.push(va);
                }
            });
            for va in shown {
                inner.space.unmap_range(va, va + PAGE_SIZE, |_, page| used |= page.accessed);
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

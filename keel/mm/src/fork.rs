//! Copies of address spaces, fork(2).

use super::area::AreaFlags;
use super::{Inner, Mm};
use abi::layout::USER_TOP;
use alloc::rc::Rc;
use hal::cell::Global;
use hal::frame::Frame;
use hal::paging::Prot;
use hal::sync::Rank;
use keel_core::vma::VmaSet;
use uapi::{Errno, Result};

/// Maximum number of pages that a fork copies instead of sharing them copy-on-write. A copy costs 0.1 us, a later fault
/// up to 40 us; and if no page becomes read-only, the parent needs no flush.
const COPY_AHEAD: usize = 256;
/// The same in a small pod: of the stack.
const COPY_IN_SMALL: usize = 4;

impl Mm {
    /// A copy for fork(2). `alone`: the caller is the only thread that uses this memory; then the pages are copied without the
    /// big lock, and the caller holds no borrows. ENOMEM.
    pub fn fork(&self, alone: bool) -> Result<Rc<Self>> {
        let limits = self.limits.get();
        let mut guard = self.inner();
        let parent = &*guard;
        let mut child = Inner::new(limits.stack)?;
        child.mmap_base = parent.mmap_base;
        child.brk = parent.brk;
        child.plain_text = parent.plain_text;
        child.freestanding = parent.freestanding;
        child.rules = parent.rules.inherited();
        child.vmas = Global::new(inherited(parent).ok_or(Errno::ENOMEM)?);
        child.note_attached();
        // It is listed before it has pages: a page that a file loses meanwhile is removed from all listed spaces.
        let child = Self::new(child, self.layout.get(), limits, self.exe.borrow().clone(), self.auxv.clone());
        let mut copied = Err(Errno::ENOMEM);
        if alone {
            let mut pages = child.space.inner.lock_as(Rank::NewSpace);
            guard.space.quiesce();
            copied = hal::smp::without_lock(|| {
                let copied = guard.copy_pages(&mut pages);
                drop((pages, guard));
                copied
            });
            guard = self.inner();
            guard.space.resume(copied != Ok(false));
        }
        // More memory is asked of the monitor under the big lock only; what was copied already is replaced.
        let copied = copied.or_else(|_| guard.copy_pages(&mut child.space.inner.lock_as(Rank::NewSpace)));
        drop(guard);
        match copied {
            Ok(_) => Ok(child),
            Err(errno) => {
                child.clear();
                Err(errno)
            }
        }
    }
}

/// The mappings that a child inherits; `None` if out of memory.
fn inherited(parent: &Inner) -> Option<VmaSet<super::area::Area>> {
    let mut vmas = parent.vmas.try_clone()?;
    for vma in parent.vmas.iter().filter(|v| v.attrs.flags.contains(AreaFlags::DONT_FORK)) {
        vmas.remove(vma.start, vma.end);
    }
    if parent.vmas.iter().any(|v| v.attrs.flags.contains(AreaFlags::LOCKED)) {
        // Locks are not inherited.
        vmas.update(0, USER_TOP, |area| area.flags -= AreaFlags::LOCKED);
    }
    Some(vmas)
}

impl Inner {
    /// Gives `child` the pages: shared ones, copies of private ones, and the rest copy-on-write. Whether any became read-only.
    fn copy_pages(&mut self, child: &mut Inner) -> Result<bool> {
        let Self { vmas, space, .. } = self;
        // Concurrent stores of other threads must be copied completely or not at all.
        space.stop_others();
        let copied = |flags: AreaFlags| !flags.intersects(AreaFlags::DONT_FORK | AreaFlags::WIPE_ON_FORK);
        let mut writable = 0;
        for vma in vmas.iter().filter(|v| copied(v.attrs.flags) && v.attrs.is_private()) {
            if vma.attrs.prot.contains(Prot::WRITE) {
                space.for_each(vma.start, vma.end, |_, page| writable += usize::from(page.prot.contains(Prot::WRITE)));
            }
        }
        let mut budget = if hal::frame::is_small() { COPY_IN_SMALL } else { COPY_AHEAD };
        let copy_all = writable <= budget;
        let mut protected = false;
        let mut failed = false;
        // From the top, so that the stack comes first.
        for vma in vmas.iter().rev().filter(|v| copied(v.attrs.flags)) {
            if !vma.attrs.is_private() {
                space.for_each(vma.start, vma.end, |va, page| {
                    failed |= child.space.map(va, page.frame.clone(), page.prot).is_none();
                });
                continue;
            }
            space.update_range(vma.start, vma.end, |va, page| {
                if failed {
                    return page.prot;
                }
                if !page.prot.contains(Prot::WRITE) {
                    failed = child.space.map(va, page.frame.clone(), page.prot).is_none();
                    return page.prot;
                }
                if budget > 0 && (copy_all || page.dirty) {
                    budget -= 1;
                    let copy = Frame::alloc().inspect(|copy| copy.copy_from(&page.frame));
                    failed = copy.and_then(|copy| child.space.map(va, copy, page.prot)).is_none();
                    return page.prot;
                }
                let prot = page.prot - Prot::WRITE;
                failed = child.space.map(va, page.frame.clone(), prot).is_none();
                protected |= page.accessed;
                prot
            });
        }
        if protected {
            space.flush();
        }
        if failed { Err(Errno::ENOMEM) } else { Ok(protected) }
    }
}

//! Advice, presence, locks: madvise(2), mincore(2), msync(2), mlock(2).

use super::area::{Area, AreaFlags, Backing};
use super::{Access, FaultError, Inner, Mm, area::FileBacking};
use abi::layout::{PAGE_SIZE, USER_TOP};
use alloc::rc::Rc;
use alloc::vec::Vec;
use hal::paging::Prot;
use keel_core::vma::Vma;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Maximum number of pages that MADV_WILLNEED populates.
const WILL_NEED: usize = 256;

/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`.
const GUARD_INSTALL: u32 = 102;
const GUARD_REMOVE: u32 = 103;

/// Whether the advice would discard pages of a sealed mapping that the program can't write.
fn loses_sealed(area: &Area, advice: u32) -> bool {
    let discards = matches!(
        advice,
        g::MADV_FREE
            | g::MADV_DONTNEED
            | g::MADV_DONTNEED_LOCKED
            | g::MADV_REMOVE
            | g::MADV_DONTFORK
            | g::MADV_WIPEONFORK
            | GUARD_INSTALL
    );
    discards && area.is_private() && !area.prot.contains(Prot::WRITE)
}

/// Checks one piece of advice for one mapping, before any change.
fn check(area: &Area, advice: u32) -> Result<()> {
    let flags = area.flags;
    if flags.contains(AreaFlags::SEALED) && loses_sealed(area, advice) {
        return Err(Errno::EPERM);
    }
    let fits = match advice {
        GUARD_INSTALL => !flags.intersects(AreaFlags::LOCKED | AreaFlags::SPECIAL),
        GUARD_REMOVE => !flags.contains(AreaFlags::SPECIAL),
        g::MADV_DONTNEED | g::MADV_COLD | g::MADV_PAGEOUT => !flags.intersects(AreaFlags::LOCKED | AreaFlags::SPECIAL),
        g::MADV_DONTNEED_LOCKED | g::MADV_DOFORK | g::MADV_DODUMP | g::MADV_HUGEPAGE | g::MADV_NOHUGEPAGE => {
            !flags.contains(AreaFlags::SPECIAL)
        }
        g::MADV_FREE => area.is_anonymous() && !flags.contains(AreaFlags::LOCKED),
        g::MADV_WIPEONFORK => area.is_anonymous(),
        g::MADV_REMOVE if flags.contains(AreaFlags::LOCKED) || area.is_anonymous() => false,
        // Whether it can be made writable counts, not whether it is.
        g::MADV_REMOVE if area.is_private() || flags.contains(AreaFlags::NEVER_WRITE) => return Err(Errno::EACCES),
        g::MADV_REMOVE => matches!(area.backing, Backing::Shared(..) | Backing::File(..)),
        _ => true,
    };
    if fits { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Flags that advice sets and clears; `None` if it changes no flags.
fn flag_change(advice: u32) -> Option<(AreaFlags, AreaFlags)> {
    let none = AreaFlags::empty();
    Some(match advice {
        g::MADV_NORMAL => (none, AreaFlags::RANDOM | AreaFlags::SEQUENTIAL),
        g::MADV_RANDOM => (AreaFlags::RANDOM, AreaFlags::SEQUENTIAL),
        g::MADV_SEQUENTIAL => (AreaFlags::SEQUENTIAL, AreaFlags::RANDOM),
        g::MADV_DONTFORK => (AreaFlags::DONT_FORK, none),
        g::MADV_DOFORK => (none, AreaFlags::DONT_FORK),
        g::MADV_WIPEONFORK => (AreaFlags::WIPE_ON_FORK, none),
        g::MADV_KEEPONFORK => (none, AreaFlags::WIPE_ON_FORK),
        g::MADV_DONTDUMP => (AreaFlags::DONT_DUMP, none),
        g::MADV_DODUMP => (none, AreaFlags::DONT_DUMP),
        g::MADV_HUGEPAGE => (AreaFlags::HUGE, AreaFlags::NO_HUGE),
        g::MADV_NOHUGEPAGE => (AreaFlags::NO_HUGE, AreaFlags::HUGE),
        GUARD_INSTALL => (AreaFlags::GUARD, none),
        GUARD_REMOVE => (none, AreaFlags::GUARD),
        _ => return None,
    })
}

/// Whether the advice is supported.
pub fn is_known(advice: u32) -> bool {
    flag_change(advice).is_some()
        || matches!(
            advice,
            g::MADV_WILLNEED
                | g::MADV_DONTNEED
                | g::MADV_FREE
                | g::MADV_REMOVE
                | g::MADV_COLD
                | g::MADV_PAGEOUT
                | g::MADV_POPULATE_READ
                | g::MADV_POPULATE_WRITE
                | g::MADV_DONTNEED_LOCKED
        )
}

impl Mm {
    /// madvise(2) of page-aligned `[start, end)` with supported advice. ENOMEM if a part is not mapped (the rest is
    /// done nevertheless), EINVAL if the advice does not apply.
    pub fn advise(&self, start: usize, end: usize, advice: u32) -> Result<()> {
        if matches!(advice, g::MADV_POPULATE_READ | g::MADV_POPULATE_WRITE) {
            let write = advice == g::MADV_POPULATE_WRITE;
            return self.populate_strictly(start, end, if write { Access::Write } else { Access::Read });
        }
        let pieces = self.pieces(start, end)?;
        let mut at = start;
        let mut hole = false;
        let mut allowed = Ok(());
        let change = flag_change(advice);
        for (from, to, area) in pieces {
            allowed = check(&area, advice);
            if allowed.is_err() {
                break;
            }
            hole |= from > at;
            at = to;
            if change.is_none() {
                self.apply(from, to, &area, advice)?;
            }
        }
        if let Some((set, clear)) = change.filter(|_| at > start) {
            // At once: there may be many pieces, and each may merge with the next.
            self.change_flags(start, at, set, clear)?;
        }
        allowed?;
        if hole || at < end { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Changes the flags of what is mapped in `[start, end)`. ENOMEM.
    fn change_flags(&self, start: usize, end: usize, set: AreaFlags, clear: AreaFlags) -> Result<()> {
        let mut inner = self.inner();
        if (set | clear).contains(AreaFlags::GUARD) {
            inner.make_room_for_guard()?;
        } else {
            inner.make_room(2)?;
        }
        inner.vmas.update(start, end, |area| area.flags = (area.flags - clear) | set);
        drop(inner);
        if set.contains(AreaFlags::GUARD) {
            self.discard(start, end);
        }
        Ok(())
    }

    /// mseal(2) of page-aligned `[start, end)`. ENOMEM if a part is not mapped.
    pub fn seal(&self, start: usize, end: usize) -> Result<()> {
        let mut inner = self.inner();
        if !inner.vmas.is_covered(start, end) {
            return Err(Errno::ENOMEM);
        }
        inner.make_room(2)?;
        inner.vmas.update(start, end, |area| area.flags |= AreaFlags::SEALED);
        Ok(())
    }

    /// The mappings in `[start, end)`, clipped to it. ENOMEM.
    pub fn pieces(&self, start: usize, end: usize) -> Result<Vec<(usize, usize, Area)>> {
        let inner = self.inner();
        let cut = |v: &Vma<Area>| {
            let from = v.start.max(start);
            (from, v.end.min(end), keel_core::vma::Attributes::advance(&v.attrs, from - v.start))
        };
        vfs::memory::collect(inner.vmas.overlapping(start, end).map(cut))
    }

    fn apply(&self, from: usize, to: usize, area: &Area, advice: u32) -> Result<()> {
        match advice {
            g::MADV_DONTNEED | g::MADV_DONTNEED_LOCKED | g::MADV_FREE => self.discard(from, to),
            g::MADV_REMOVE => {
                let pages = ((to - from) / PAGE_SIZE) as u64;
                match &area.backing {
                    Backing::Shared(object, first) => object.clear(*first, pages),
                    Backing::File(file, first) => {
                        let hole = g::FALLOC_FL_PUNCH_HOLE | g::FALLOC_FL_KEEP_SIZE;
                        file.inode.fallocate(hole, first * PAGE_SIZE as u64, (to - from) as u64)?;
                        super::reverse::forget(&file.inode, *first, first + pages);
                    }
                    _ => {}
                }
            }
            g::MADV_WILLNEED if area.is_private() && !area.prot.is_empty() => {
                self.map_ahead(from, WILL_NEED.min((to - from) / PAGE_SIZE), Access::Read);
            }
            // MADV_COLD and MADV_PAGEOUT only affect reclaim order; keel does not reclaim program pages.
            _ => {}
        }
        Ok(())
    }

    /// Drops the pages of a range; the content of private ones is lost.
    fn discard(&self, start: usize, end: usize) {
        let mut inner = self.inner();
        let mut used = false;
        inner.space.unmap_range(start, end, |_, page| used |= page.accessed);
        if used {
            inner.space.set_stale();
        }
        inner.release();
    }

    /// Populates every page of a range for this access. ENOMEM: not mapped; EINVAL: not allowed; EFAULT.
    fn populate_strictly(&self, start: usize, end: usize, access: Access) -> Result<()> {
        for va in (start..end).step_by(PAGE_SIZE) {
            let wanted = if access == Access::Write { Prot::WRITE } else { Prot::READ };
            if self.inner().space.get(va).is_some_and(|page| page.prot.contains(wanted)) {
                continue;
            }
            let guarded = |vma: &Vma<Area>| vma.attrs.flags.contains(AreaFlags::GUARD);
            if self.inner().vmas.find(va).is_some_and(guarded) {
                return Err(Errno::EFAULT);
            }
            self.fault(va, access).map_err(|error| match error {
                FaultError::NotMapped | FaultError::NoMemory => Errno::ENOMEM,
                FaultError::Forbidden => Errno::EINVAL,
                FaultError::BeyondFile => Errno::EFAULT,
            })?;
        }
        Ok(())
    }

    /// mincore(2): one byte for each page of `[start, end)`, 1 if it is present. ENOMEM if a part is not mapped.
    pub fn residency(&self, start: usize, end: usize) -> Result<Vec<u8>> {
        let inner = self.inner();
        if !inner.vmas.is_covered(start, end) {
            return Err(Errno::ENOMEM);
        }
        let mut present = Vec::new();
        present.try_reserve_exact((end - start) / PAGE_SIZE).map_err(|_| Errno::EAGAIN)?;
        present.resize((end - start) / PAGE_SIZE, 0);
        inner.space.for_each(start, end, |va, _| {
            if let Some(byte) = present.get_mut((va - start) / PAGE_SIZE) {
                *byte = 1;
            }
        });
        for vma in inner.vmas.overlapping(start, end) {
            let Backing::Shared(object, first) = &vma.attrs.backing else { continue };
            for va in (vma.start.max(start)..vma.end.min(end)).step_by(PAGE_SIZE) {
                if object.has(first + ((va - vma.start) / PAGE_SIZE) as u64) {
                    present[(va - start) / PAGE_SIZE] = 1;
                }
            }
        }
        Ok(present)
    }

    /// The shared writable files in `[start, end)`, for msync(2); whether the range is completely mapped, and whether
    /// any of it is locked.
    pub fn shared_files(&self, start: usize, end: usize) -> (Vec<Rc<FileBacking>>, bool, bool) {
        let inner = self.inner();
        let mut files: Vec<Rc<FileBacking>> = Vec::new();
        let mut locked = false;
        for vma in inner.vmas.overlapping(start, end) {
            locked |= vma.attrs.flags.contains(AreaFlags::LOCKED);
            if let Some((file, _)) = vma.attrs.file().filter(|_| !vma.attrs.is_private())
                && !files.iter().any(|have| Rc::ptr_eq(have, file))
            {
                files.push(file.clone());
            }
        }
        (files, inner.vmas.is_covered(start, end), locked)
    }

    /// Locks or unlocks `[start, end)`; locking populates it unless `on_fault`. ENOMEM if a part is not mapped.
    pub fn lock(&self, start: usize, end: usize, lock: bool, on_fault: bool) -> Result<()> {
        let mut inner = self.inner();
        let covered = inner.vmas.is_covered(start, end);
        inner.make_room(2)?;
        inner.vmas.update(start, end, |area| {
            area.set_locked(lock, on_fault);
        });
        drop(inner);
        if !covered {
            return Err(Errno::ENOMEM);
        }
        if lock && !on_fault {
            // A PROT_NONE mapping can't be populated.
            let untouchable = |v: &Vma<Area>| v.attrs.prot.is_empty();
            if self.inner().vmas.overlapping(start, end).any(untouchable) {
                return Err(Errno::ENOMEM);
            }
            self.populate(start, end).map_err(|error| match error {
                FaultError::NoMemory => Errno::EAGAIN,
                _ => Errno::ENOMEM,
            })?;
        }
        Ok(())
    }

    /// mlockall(2) and munlockall(2): existing mappings (`current`), new ones (`future`).
    pub fn lock_all(&self, current: bool, future: bool, on_fault: bool) {
        self.inner().lock_future = future;
        self.inner().lock_future_on_fault = future && on_fault;
        if current || !future {
            self.inner().vmas.update(0, USER_TOP, |area| {
                area.set_locked(current, on_fault);
            });
        }
        if current && !on_fault {
            // As in Linux, ignore errors: the rest is populated by faults.
            let _ = self.populate(0, USER_TOP);
        }
    }

    /// Number of locked bytes.
    pub fn locked_bytes(&self) -> u64 {
        self.inner().locked_bytes()
    }

    /// Number of locked bytes in `[start, end)`.
    pub fn locked_within(&self, start: usize, end: usize) -> u64 {
        let inner = self.inner();
        let within = |v: &Vma<Area>| (v.end.min(end) - v.start.max(start)) as u64;
        let locked = inner.vmas.overlapping(start, end).filter(|v| v.attrs.flags.contains(AreaFlags::LOCKED));
        locked.map(within).sum()
    }
}

impl Inner {
    /// Number of locked bytes.
    pub(super) fn locked_bytes(&self) -> u64 {
        self.vmas.totals().locked
    }
}

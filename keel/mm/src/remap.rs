//! Growing, shrinking and moving mappings, mremap(2).

use super::area::{Area, AreaFlags};
use super::caller::caller;
use super::commit;
use super::mmap::{Placement, Removed};
use super::{Inner, Limits, Mm, page_range};
use abi::layout::{PAGE_SIZE, USER_TOP};
use alloc::vec::Vec;
use keel_core::vma::Attributes;
use uapi::{Errno, Result};
use vfs::FILE_MAX;

/// Address range that a move handles at a time: that of one page table.
const CHUNK: usize = 2 << 20;

/// Target of a moved mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Do not move: ENOMEM if there is no room.
    Stay,
    /// Move to any address if there is no room.
    Anywhere,
    /// To this page-aligned address, replacing existing mappings.
    At(usize),
}

impl Mm {
    /// mremap(2) with page-aligned `old` and multiples of the page size as lengths (`new_len` not 0); returns the
    /// address. `keep`: MREMAP_DONTUNMAP. EFAULT, EINVAL, ENOMEM.
    pub fn remap(&self, old: usize, old_len: usize, new_len: usize, target: Target, keep: bool) -> Result<usize> {
        let mut inner = self.inner();
        let limits = self.limits.get();
        let mut removed = Removed::new();
        let result = inner.remap(old, old_len, new_len, target, keep, limits, &mut removed);
        let locked = inner.vmas.find(old).is_some_and(|v| v.attrs.flags.contains(AreaFlags::LOCKED));
        inner.release();
        drop(removed);
        if let (Ok(addr), true) = (result, locked && new_len > old_len) {
            // Locked pages are populated; ignore errors, the rest is populated by faults.
            let _ = self.populate(addr + old_len, addr + new_len);
        }
        result
    }
}

impl Inner {
    #[expect(clippy::too_many_arguments, reason = "the call's own arguments")]
    fn remap(
        &mut self,
        old: usize,
        old_len: usize,
        new_len: usize,
        target: Target,
        keep: bool,
        limits: Limits,
        removed: &mut Removed,
    ) -> Result<usize> {
        let vma = self.vmas.find(old).ok_or(Errno::EFAULT)?.clone();
        if vma.attrs.flags.contains(AreaFlags::SPECIAL) {
            return Err(Errno::EFAULT);
        }
        if let Target::At(new) = target {
            let to = page_range(new, new_len).ok_or(Errno::EINVAL)?;
            let from = page_range(old, old_len).ok_or(Errno::EINVAL)?;
            if from.start < to.end && to.start < from.end {
                return Err(Errno::EINVAL);
            }
        }
        self.check_seals(old, old.saturating_add(old_len.max(1)))?;
        if let Target::At(new) = target {
            self.check_seals(new, new.saturating_add(new_len))?;
        }
        self.make_room(3)?;
        let mut len = old_len;
        if old_len > new_len {
            // Shrinking may span mappings.
            let end = old.checked_add(old_len).filter(|end| *end <= USER_TOP).ok_or(Errno::EINVAL)?;
            self.check_few(old + new_len, end)?;
            removed.append(&mut self.unmap(old + new_len, end));
            len = new_len;
        }
        if !matches!(target, Target::At(_)) && !keep && old_len >= new_len {
            return Ok(old);
        }
        if len > vma.end - old {
            return Err(Errno::EFAULT);
        }
        if old_len == 0 && vma.attrs.is_private() {
            return Err(Errno::EINVAL);
        }
        if new_len > len && self.grows_beyond(new_len - len, &vma.attrs, limits) {
            return Err(Errno::ENOMEM);
        }
        if vma.attrs.counts() {
            commit::check(new_len.saturating_sub(len) as u64)?;
        }
        let area = vma.attrs.advance(old - vma.start);
        if area.flags.contains(AreaFlags::LOCKED) && new_len > len {
            caller().may_lock(self.locked_bytes(), (new_len - len) as u64).map_err(|_| Errno::EAGAIN)?;
        }
        if !matches!(target, Target::At(_)) && !keep && old_len != 0 {
            let end = old + len;
            let grown = page_range(old, new_len).map(|r| r.end);
            if let Some(grown) = grown.filter(|g| end == vma.end && self.has_room(end, *g)) {
                self.vmas.insert(end, grown, area.advance(len));
                return Ok(old);
            }
        }
        if target == Target::Stay {
            return Err(Errno::ENOMEM);
        }
        let new = match target {
            Target::At(new) => {
                self.check_few(new, new + new_len)?;
                removed.append(&mut self.unmap(new, new + new_len));
                new
            }
            _ => self.place(Placement::Hint(0), new_len, &area)?,
        };
        self.move_pages(old, len.min(new_len), new, &area)?;
        if old_len != 0 && !keep {
            removed.append(&mut self.unmap(old, old + len));
        }
        let mut area = area;
        area.flags.set(AreaFlags::GROWS_DOWN, area.flags.contains(AreaFlags::GROWS_DOWN) && !keep);
        self.vmas.insert(new, new + new_len, area);
        Ok(new)
    }

    /// Whether `[start, end)` is free and does not overlap the guard gap of the mapping above.
    fn has_room(&self, start: usize, end: usize) -> bool {
        self.vmas.is_free(start, end)
            && self.vmas.first_above(start).is_none_or(|v| v.start.saturating_sub(v.attrs.gap_below()) >= end)
    }

    /// Moves the pages of `[old, old + len)` to `new`, which is not mapped. ENOMEM: no memory for page tables; no page
    /// has been moved then.
    fn move_pages(&mut self, old: usize, len: usize, new: usize, area: &Area) -> Result<()> {
        // Patched text is valid at its address only; the pages are mapped again by faults.
        let drop_text = area.patched_text().is_some();
        let mut pages = Vec::new();
        pages.try_reserve_exact(CHUNK / PAGE_SIZE).map_err(|_| Errno::ENOMEM)?;
        let mut done = 0;
        let mut moved = false;
        let mut failed = false;
        while done < len && !failed {
            let end = (old + done + CHUNK) / CHUNK * CHUNK;
            let end = end.min(old + len);
            self.space.unmap_range(old + done, end, |va, page| pages.push((va, page)));
            for (va, page) in pages.drain(..) {
                moved |= page.accessed;
                if drop_text {
                    continue;
                }
                if failed || self.space.map(va - old + new, page.frame.clone(), page.prot).is_none() {
                    // The table at the old address exists.
                    failed = true;
                    let _ = self.space.map(va, page.frame, page.prot);
                }
            }
            done = end - old;
        }
        if failed {
            for start in (new..new + len).step_by(CHUNK) {
                let end = (start + CHUNK).min(new + len);
                self.space.unmap_range(start, end, |va, page| pages.push((va, page)));
                for (va, page) in pages.drain(..) {
                    let _ = self.space.map(va - new + old, page.frame, page.prot);
                }
            }
        }
        if moved {
            self.space.set_stale();
        }
        if failed { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}

impl Mm {
    /// remap_file_pages(2): maps the object from `page` on at `[start, end)`, a part of one or several adjacent shared
    /// mappings. EINVAL, ENOMEM, EOVERFLOW.
    pub fn rearrange(&self, start: usize, end: usize, page: u64, populate: bool) -> Result<()> {
        let pieces = self.pieces(start, end)?;
        let (_, _, first) = pieces.first().ok_or(Errno::EINVAL)?;
        let mut at = start;
        for (from, to, area) in &pieces {
            if *from != at || !first.is_alike(area) || !area.flags.contains(AreaFlags::SHARED) {
                return Err(Errno::EINVAL);
            }
            at = *to;
        }
        if at != end {
            return Err(Errno::EINVAL);
        }
        if page > (FILE_MAX - (end - start) as u64) / PAGE_SIZE as u64 {
            return Err(Errno::EOVERFLOW);
        }
        let area = Area { backing: first.backing.from_page(page).ok_or(Errno::EINVAL)?, policy: None, ..first.clone() };
        let is_accessible = !area.prot.is_empty();
        self.map(Placement::Fixed(start), end - start, area)?;
        if populate && is_accessible {
            // As with mmap(2), ignore errors: the rest is populated by faults.
            let _ = self.populate(start, end);
        }
        Ok(())
    }
}

//! Mapping, unmapping and protecting ranges; the heap.

use super::area::{Area, AreaFlags, Backing, TRAMPOLINE_ROOM};
use super::caller::caller;
use super::commit;
use super::text::PatchedText;
use super::{Access, Inner, Limits, MAX_MAPPINGS, MAX_PIECES, Mm, page_up};
use abi::layout::{PAGE_SIZE, USER_MIN, USER_TOP};
use hal::frame::Frame;
use hal::paging::Prot;
use keel_core::pieces::Pieces;
use keel_core::vma::{Attributes, Vma};
use uapi::{Errno, Result};

/// Anonymous memory up to this many bytes is made present when it is mapped: cheaper than the faults, if it is used.
pub(super) const PRESENT_AT_ONCE: usize = 16 * PAGE_SIZE;
/// Pages at the upper end of a thread's stack that are present at once, at least: its control block and the first frames.
const STACK_AT_ONCE: usize = 3;
/// From an aligned block of so many present pages software-nested KVM shows all when one is touched.
const SHOWN_TOGETHER: usize = 8;
/// Pages of a grown heap that are present at once: what malloc(3) asks for by default.
const HEAP_AT_ONCE: usize = 33;
/// Most pages of executable text that are present once it is mapped, as far as they are at hand.
const TEXT_AT_ONCE: usize = 512;
/// Pages of a library's constants and tables that are present once they are mapped.
const CONSTANTS_AT_ONCE: usize = 64;
/// Pages of a library's data that are copied when it is mapped.
const DATA_AT_ONCE: usize = 32;

/// Whether a program uses its small mappings: some make stacks for signal handlers that never run, and taking
/// present pages away costs more than all else of that.
#[derive(Debug)]
pub(super) struct SmallMappings {
    /// Above 0: make them present at once.
    score: i8,
}

impl Default for SmallMappings {
    fn default() -> Self {
        Self { score: Self::FIRST }
    }
}

impl SmallMappings {
    const FIRST: i8 = 3;
    const MOST: i8 = 7;

    /// Whether to make them present at once.
    pub(super) const fn are_likely_used(&self) -> bool {
        self.score > 0
    }

    /// One with present pages is gone, with data in it or without.
    pub(super) fn learn(&mut self, used: bool) {
        self.score = (self.score + if used { 1 } else { -1 }).clamp(0, Self::MOST);
    }
}

/// Whether a page was written to, but for zeros.
pub(super) fn holds_data(frame: &Frame) -> bool {
    let mut part = [0; 512];
    (0..PAGE_SIZE).step_by(part.len()).any(|offset| {
        frame.read(offset, &mut part);
        part != [0; 512]
    })
}

/// Where a new mapping goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At the address if there is room, otherwise anywhere; 0: anywhere.
    Hint(usize),
    /// Anywhere below 2 GiB (MAP_32BIT).
    Low,
    /// At the address, replacing what is there (MAP_FIXED).
    Fixed(usize),
    /// At the address; EEXIST if something is there (MAP_FIXED_NOREPLACE).
    FixedNoReplace(usize),
}

/// Most mappings that are taken out in one piece.
const MOST_AT_ONCE: usize = 512;

/// Mappings that were taken out of an address space. Dropping them may close files and so block: do it
/// when nothing is borrowed.
pub type Removed = Pieces<Vma<Area>>;

impl Mm {
    /// Adds a mapping of `len` bytes (a page multiple, not 0): its address. ENOMEM, EEXIST, EPERM.
    pub fn map(&self, placement: Placement, len: usize, area: Area) -> Result<usize> {
        if let Some((file, _)) = area.text_file() {
            PatchedText::refresh(&file.inode);
        }
        let mut inner = self.inner();
        inner.make_room(1)?;
        let start = inner.place(placement, len, &area)?;
        inner.check_seals(start, start + len)?;
        inner.rules.check(area.prot, area.prot)?;
        if inner.limited && inner.exceeds((start, len), &area, self.limits.get()) {
            return Err(Errno::ENOMEM);
        }
        inner.check_commit(start, len, &area)?;
        let locked = inner.lock_future || area.flags.contains(AreaFlags::LOCKED);
        let on_fault = inner.lock_future_on_fault;
        if locked {
            caller().may_lock(inner.locked_bytes(), len as u64).map_err(|errno| match errno {
                Errno::EPERM if !inner.lock_future => Errno::EPERM,
                _ => Errno::EAGAIN,
            })?;
        }
        let mut area = area;
        area.flags.set(AreaFlags::LOCKED, locked);
        area.flags.set(AreaFlags::LOCK_ON_FAULT, locked && on_fault);
        if matches!(placement, Placement::Fixed(_) | Placement::FixedNoReplace(_)) {
            area.flags -= AreaFlags::TRAMPOLINES;
        }
        let (prot, anonymous, image) = (area.prot, area.is_anonymous(), area.flags.contains(AreaFlags::IMAGE));
        let text = prot.contains(Prot::EXEC) && area.file().is_some();
        if inner.check_few(start, start + len).is_err() {
            drop(inner);
            self.unmap(start, start + len)?;
            inner = self.inner();
            inner.make_room(1)?;
        }
        let removed = inner.unmap(start, start + len);
        inner.vmas.insert(start, start + len, area);
        let likely_used = inner.small.are_likely_used();
        inner.release();
        drop(removed);
        // Likely touched at once; a failure shows when the program does.
        if locked {
            if !on_fault {
                let _ = self.populate(start, start + len);
            }
        } else if anonymous && prot.contains(Prot::WRITE) && len <= PRESENT_AT_ONCE && likely_used {
            let _ = self.fault(start, Access::Write);
        } else if text {
            self.map_ahead(start, TEXT_AT_ONCE, Access::Exec);
        } else if image && prot.contains(Prot::WRITE) {
            self.map_ahead(start, DATA_AT_ONCE, Access::Write);
        } else if image && prot.contains(Prot::READ) {
            self.map_ahead(start, CONSTANTS_AT_ONCE, Access::Read);
        }
        Ok(start)
    }

    /// Whether something is mapped in the `len` bytes from `start` on.
    pub fn is_used(&self, start: usize, len: usize) -> bool {
        start.checked_add(len).is_some_and(|end| end <= USER_TOP && !self.inner().vmas.is_free(start, end))
    }

    /// munmap(2) of page-aligned `[start, end)`. ENOMEM: too many mappings; EPERM: sealed.
    pub fn unmap(&self, start: usize, end: usize) -> Result<()> {
        self.inner().check_seals(start, end)?;
        let mut at = start;
        while at < end {
            let mut inner = self.inner();
            let splits = inner.vmas.find(at).is_some_and(|v| v.start < at && end < v.end);
            if splits {
                inner.make_room(1)?;
            }
            let next = inner.vmas.overlapping(at, end).nth(MOST_AT_ONCE).map_or(end, |v| v.start);
            let removed = inner.unmap(at, next);
            inner.release();
            drop(removed);
            at = next;
        }
        Ok(())
    }

    /// mprotect(2) of page-aligned `[start, end)`. ENOMEM: something there is not mapped; EACCES: a shared file
    /// that was not opened for writing. What lies below the failing mapping has changed then.
    pub fn protect(&self, start: usize, end: usize, prot: Prot) -> Result<()> {
        let limit = self.limits.get().data;
        let mut inner = self.inner();
        let mut at = start;
        let mut result = Ok(());
        let limited = prot.contains(Prot::WRITE) && limit != u64::MAX;
        let mut data = if limited { inner.data_bytes() } else { 0 };
        for vma in inner.vmas.overlapping(start, end) {
            if vma.start > at {
                break;
            }
            if vma.attrs.flags.contains(AreaFlags::SEALED) {
                result = Err(Errno::EPERM);
                break;
            }
            if vma.attrs.flags.contains(AreaFlags::NEVER_WRITE) && prot.contains(Prot::WRITE)
                || vma.attrs.flags.contains(AreaFlags::SPECIAL)
                || inner.rules.check(vma.attrs.prot, prot).is_err()
            {
                result = Err(Errno::EACCES);
                break;
            }
            let next = vma.end.min(end);
            let grows = prot.contains(Prot::WRITE) && vma.attrs.may_count() && !vma.attrs.counts();
            if grows && commit::check((next - at) as u64).is_err() {
                result = Err(Errno::ENOMEM);
                break;
            }
            if limited && !vma.attrs.is_data() && vma.attrs.may_be_data() {
                data = data.saturating_add((next - at) as u64);
                if data > limit {
                    result = Err(Errno::ENOMEM);
                    break;
                }
            }
            at = next;
        }
        if at < end && result.is_ok() {
            result = Err(Errno::ENOMEM);
        }
        let stack = inner.opens_stack(start, at, prot);
        inner.make_room(2)?;
        inner.protect(start, at, prot);
        if stack {
            let first = (at - STACK_AT_ONCE * PAGE_SIZE) / (SHOWN_TOGETHER * PAGE_SIZE) * (SHOWN_TOGETHER * PAGE_SIZE);
            inner.prefault(first.max(start), at, Access::Write);
        }
        inner.release();
        result
    }

    /// Start of the stack that PROT_GROWSDOWN extends a change of `[addr, end)` to; `None` if what is there is
    /// no stack. ENOMEM if nothing is mapped.
    pub fn stack_start(&self, addr: usize, end: usize) -> Result<Option<usize>> {
        let inner = self.inner();
        let vma = inner.vmas.first_above(addr).filter(|v| v.start < end).ok_or(Errno::ENOMEM)?;
        Ok(vma.attrs.flags.contains(AreaFlags::GROWS_DOWN).then_some(vma.start))
    }

    /// brk(2): sets the end of the heap, whose pages get `prot`, if that is possible; the end after it.
    pub fn brk(&self, wanted: usize, prot: Prot) -> usize {
        let start = self.layout.get().start_brk;
        let limits = self.limits.get();
        let mut inner = self.inner();
        let old = inner.brk;
        let (Some(old_end), Some(new_end)) = (page_up(old), page_up(wanted)) else { return old };
        if wanted < start || new_end > USER_TOP || (wanted - start) as u64 > limits.data {
            return old;
        }
        if new_end <= old_end {
            drop(inner);
            if self.unmap(new_end, old_end).is_err() {
                return old;
            }
            self.inner().brk = wanted;
            return wanted;
        }
        if inner.make_room(1).is_err() {
            return old;
        }
        // A free page stays above the heap, and a stack keeps its gap.
        let above = inner.vmas.first_above(old_end);
        let ceiling = above.map_or(USER_TOP, |v| v.start.saturating_sub(v.attrs.gap_below()));
        let len = new_end - old_end;
        let mut area = Area::anonymous(prot);
        if new_end.saturating_add(PAGE_SIZE) > ceiling
            || inner.limited && inner.exceeds((old_end, len), &area, limits)
            || commit::check(len as u64).is_err()
        {
            return old;
        }
        if inner.lock_future && caller().may_lock(inner.locked_bytes(), len as u64).is_err() {
            return old;
        }
        area.flags.set(AreaFlags::LOCKED, inner.lock_future);
        area.flags.set(AreaFlags::LOCK_ON_FAULT, inner.lock_future_on_fault);
        inner.vmas.insert(old_end, new_end, area);
        inner.brk = wanted;
        inner.prefault(old_end, new_end.min(old_end + HEAP_AT_ONCE * PAGE_SIZE), Access::Write);
        wanted
    }
}

impl Inner {
    /// EPERM if something in `[start, end)` is sealed.
    pub(super) fn check_seals(&self, start: usize, end: usize) -> Result<()> {
        let sealed = |vma: &Vma<Area>| vma.attrs.flags.contains(AreaFlags::SEALED);
        if self.vmas.overlapping(start, end).any(sealed) { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Whether an area of `len` bytes at `start`, in place of what is there, would exceed RLIMIT_AS or RLIMIT_DATA. As in
    /// Linux all that it replaces counts, whatever it is.
    fn exceeds(&self, (start, len): (usize, usize), area: &Area, limits: Limits) -> bool {
        let end = start + len;
        let replaced = self.vmas.overlapping(start, end).map(|v| v.end.min(end) - v.start.max(start)).sum();
        self.grows_beyond(len.saturating_sub(replaced), area, limits)
    }

    /// Whether `len` more bytes of an area would exceed RLIMIT_AS or RLIMIT_DATA.
    pub(super) fn grows_beyond(&self, len: usize, area: &Area, limits: Limits) -> bool {
        let beyond = |have: u64, limit: u64| have.saturating_add(len as u64) > limit;
        limits.address_space != u64::MAX && beyond(self.mapped_bytes(), limits.address_space)
            || limits.data != u64::MAX && area.is_data() && beyond(self.data_bytes(), limits.data)
    }

    /// Number of bytes that RLIMIT_DATA limits.
    fn data_bytes(&self) -> u64 {
        self.vmas.totals().data
    }

    /// The address for a new mapping.
    pub(super) fn place(&self, placement: Placement, len: usize, area: &Area) -> Result<usize> {
        if len > USER_TOP {
            return Err(Errno::ENOMEM);
        }
        let gap = if area.flags.contains(AreaFlags::TRAMPOLINES) { TRAMPOLINE_ROOM } else { 0 };
        match placement {
            Placement::Fixed(addr) | Placement::FixedNoReplace(addr) => {
                if addr > USER_TOP - len {
                    return Err(Errno::ENOMEM);
                }
                if !addr.is_multiple_of(PAGE_SIZE) {
                    return Err(Errno::EINVAL);
                }
                if addr < USER_MIN && !caller().may_map_low() {
                    return Err(Errno::EPERM);
                }
                if matches!(placement, Placement::FixedNoReplace(_)) && !self.vmas.is_free(addr, addr + len) {
                    return Err(Errno::EEXIST);
                }
                Ok(addr)
            }
            Placement::Low => self.vmas.find_free(len, 0x4000_0000, 0x8000_0000, gap).ok_or(Errno::ENOMEM),
            Placement::Hint(hint) => {
                let hint = page_up(hint).unwrap_or(0);
                if hint >= USER_MIN && hint <= USER_TOP - len && self.vmas.is_free(hint, hint + len) {
                    let above = self.vmas.first_above(hint);
                    if above.is_none_or(|v| hint + len <= v.start.saturating_sub(v.attrs.gap_below())) {
                        return Ok(hint);
                    }
                }
                let found = self.vmas.find_free(len, USER_MIN, self.mmap_base, gap);
                // The room above, if the ordinary one is used up.
                found.or_else(|| self.vmas.find_free(len, USER_MIN, USER_TOP, 0)).ok_or(Errno::ENOMEM)
            }
        }
    }

    /// Makes room for `count` mappings more. ENOMEM: too many, or no memory.
    pub(super) fn make_room(&mut self, count: usize) -> Result<()> {
        let most = MAX_MAPPINGS.saturating_sub(count);
        if self.vmas.len() > most && self.vmas.totals().mappings > most {
            return Err(Errno::ENOMEM);
        }
        self.make_room_for_guard()
    }

    /// Makes room for the pieces that the edges of a change of guard pages split. ENOMEM.
    pub(super) fn make_room_for_guard(&mut self) -> Result<()> {
        // What is split or moved on the way counts little.
        const ROOM: usize = 4;
        // Calls that may split mappings are admitted while memory is scarce.
        let is_short = hal::frame::is_short() && self.vmas.would_grow(ROOM);
        if is_short || self.vmas.len() + ROOM > MAX_PIECES || !self.vmas.try_reserve(ROOM) {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// ENOMEM if there are too many mappings in `[start, end)` for [`Inner::unmap`].
    pub(super) fn check_few(&self, start: usize, end: usize) -> Result<()> {
        if self.vmas.overlapping(start, end).nth(MOST_AT_ONCE).is_some() { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Takes everything out of `[start, end)`. The caller drops what comes back when nothing is
    /// borrowed.
    #[must_use]
    pub(super) fn unmap(&mut self, start: usize, end: usize) -> Removed {
        let mut removed = self.vmas.remove(start, end);
        super::shared::note_detached(removed.iter());
        let mut used = false;
        // Of the small mappings: they have pages, and data in them.
        let (mut present, mut written) = (false, false);
        for vma in removed.iter() {
            let small = vma.attrs.is_anonymous() && vma.end - vma.start <= PRESENT_AT_ONCE;
            self.space.unmap_range(vma.start, vma.end, |_, page| {
                used |= page.accessed;
                present |= small;
                written |= small && !written && holds_data(&page.frame);
            });
        }
        if present {
            self.small.learn(written);
        }
        if !removed.is_empty() {
            let mut trampolines = self.retire_trampolines(&removed);
            used |= !trampolines.is_empty();
            removed.append(&mut trampolines);
        }
        if used {
            self.space.set_stale();
        }
        removed
    }

    /// Whether a change of `[start, end)` to `prot` makes a thread's stack accessible, as C libraries do: they map it
    /// without permissions (MAP_STACK) and then open all but the guard pages. Its upper end is touched at once.
    fn opens_stack(&self, start: usize, end: usize, prot: Prot) -> bool {
        let large = end - start > PRESENT_AT_ONCE && prot.contains(Prot::READ | Prot::WRITE);
        large
            && self.vmas.find(start).is_some_and(|vma| {
                let area = &vma.attrs;
                // A guard page of the stack above may have joined it.
                vma.end >= end && area.is_anonymous() && area.prot.is_empty() && area.flags.contains(AreaFlags::NO_HUGE)
            })
    }

    /// Changes the protection of mappings and of the pages present.
    fn protect(&mut self, start: usize, end: usize, prot: Prot) {
        let mut shrinks = false;
        for vma in self.vmas.overlapping(start, end) {
            let (from, to) = (vma.start.max(start), vma.end.min(end));
            let writes = prot.contains(Prot::WRITE);
            if writes && vma.attrs.patched_text().is_some() {
                // What the program writes to, and reads before, is the file's text.
                self.space.unmap_range(from, to, |_, page| shrinks |= page.accessed);
                continue;
            }
            let new = Area { prot, ..vma.attrs.clone() }.page_prot();
            let private = vma.attrs.is_private();
            let shared_file = !private && vma.attrs.file().is_some();
            self.space.update_range(from, to, |_, page| {
                // Stores to private pages that somebody else holds fault and copy; to pages of a file
                // they fault so that it learns of the writer.
                let keep = page.prot.contains(Prot::WRITE) || private && super::fault::is_sole(page);
                let new = if keep || !(private || shared_file) { new } else { new - Prot::WRITE };
                shrinks |= page.accessed && !new.contains(page.prot);
                new
            });
        }
        self.vmas.update(start, end, |area| {
            area.prot = prot;
            if prot.contains(Prot::WRITE) && matches!(area.backing, Backing::File(..)) {
                area.flags |= AreaFlags::WAS_WRITABLE;
            }
        });
        if shrinks {
            self.space.set_stale();
        }
    }
}

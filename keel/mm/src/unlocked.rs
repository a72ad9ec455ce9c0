//! Page faults, and changes of private anonymous mappings, that are served without the big lock while several virtual CPUs are
//! awake: those that need no file, no wait and no more of the host's memory.
//!
//! As with other calls (`syscall::unlocked` of the kernel), the virtual CPU counts as the program meanwhile. So who stops the
//! program waits until this is over, and holds its space's lock perhaps: then this gives up. Nothing else is
//! waited for with that lock. Pages are added here, and permissions grow; pages are taken away, or replaced by copies, only
//! where no other virtual CPU can have their translations.
//!
//! Counted handles, those in mappings as well, are not touched: their counts are no atomics.

use super::area::{Area, AreaFlags, Backing};
use super::commit;
use super::mmap::{PRESENT_AT_ONCE, Placement, holds_data};
use super::{Access, Inner, Space, page_down};
use abi::layout::{LARGE_PAGE_SIZE, USER_TOP};
use hal::paging::Prot;
use hal::percpu;
use hal::sync::Guard;
use keel_core::vma::Vma;

/// What other mappings than a program's plain anonymous ones have.
const NOT_PLAIN: AreaFlags = AreaFlags::all()
    .difference(AreaFlags::NO_RESERVE)
    .difference(AreaFlags::NO_HUGE)
    .difference(AreaFlags::HUGE)
    .difference(AreaFlags::RANDOM)
    .difference(AreaFlags::SEQUENTIAL);

impl Space {
    fn unless_stopped(&self) -> Option<Guard<'_, Inner>> {
        self.inner.lock_unless(percpu::work_pending)
    }

    /// mmap(2) of private anonymous memory where there is room, or of the wish: its address. `None`: nothing was done.
    pub fn map(&self, wish: usize, len: usize, area: Area) -> Option<usize> {
        self.unless_stopped()?.unlocked_map(wish, len, area)
    }

    /// munmap(2) of page-aligned `[start, end)`. `None`: nothing was done.
    pub fn unmap(&self, start: usize, end: usize) -> Option<()> {
        self.unless_stopped()?.unlocked_unmap(start, end)
    }

    /// MADV_DONTNEED and MADV_FREE for page-aligned `[start, end)`. `None`: nothing was done.
    pub fn discard(&self, start: usize, end: usize) -> Option<()> {
        self.unless_stopped()?.unlocked_discard(start, end)
    }

    /// Serves a page fault of the program that runs here; false: nothing was done.
    pub fn fault(&self, address: usize, access: Access) -> bool {
        if address >= USER_TOP || hal::ring::has_losses() {
            return false;
        }
        self.unless_stopped().is_some_and(|mut inner| inner.unlocked_fault(page_down(address), access))
    }
}

impl Inner {
    fn unlocked_fault(&mut self, va: usize, access: Access) -> bool {
        let Some(vma) = self.vmas.find(va) else { return false };
        let anonymous = vma.attrs.is_anonymous();
        // How much is copied ahead of a program does not depend on the file of its image.
        if !(anonymous || vma.attrs.flags.contains(AreaFlags::IMAGE) && vma.attrs.is_private())
            || vma.attrs.flags.contains(AreaFlags::GUARD)
            || !vma.attrs.allows(access)
        {
            return false;
        }
        let Area { prot, flags, policy, .. } = vma.attrs;
        let area = Area { prot, flags, policy, backing: Backing::Anonymous };
        let vma = Vma { start: vma.start, end: vma.end, attrs: area };
        let Some(page) = self.space.get(va) else { return anonymous && self.fill_zeroed(&vma, va).is_ok() };
        match self.refreshed(&vma, va, access, &page) {
            Ok(false) => self.copy_on_write(&vma, va, &page).is_ok(),
            done => done.is_ok(),
        }
    }

    fn unlocked_map(&mut self, wish: usize, len: usize, area: Area) -> Option<usize> {
        if self.limited
            || self.lock_future
            || self.rules.needs_lock()
            || self.rules.check(area.prot, area.prot).is_err()
            || area.counts() && commit::check(len as u64).is_err()
        {
            return None;
        }
        self.make_room(1).ok()?;
        let start = self.place(Placement::Hint(wish), len, &area).ok()?;
        let fills = area.prot.contains(Prot::WRITE) && len <= PRESENT_AT_ONCE && self.small.are_likely_used();
        self.vmas.insert(start, start + len, area.clone());
        if fills {
            // What can't be had now is had by a fault.
            let _ = self.fill_zeroed(&Vma { start, end: start + len, attrs: area }, start);
        }
        Some(start)
    }

    /// Whether the range is of a size that can be taken away at once, and holds nothing but plain anonymous mappings.
    fn is_plain(&self, start: usize, end: usize) -> bool {
        let plain = |vma: &Vma<Area>| vma.attrs.is_anonymous() && !vma.attrs.flags.intersects(NOT_PLAIN);
        end - start <= LARGE_PAGE_SIZE && self.vmas.overlapping(start, end).all(plain)
    }

    fn unlocked_unmap(&mut self, start: usize, end: usize) -> Option<()> {
        if !self.is_plain(start, end) {
            return None;
        }
        self.make_room(1).ok()?;
        let small = end - start <= PRESENT_AT_ONCE;
        let mut written = false;
        let present = self.space.unmap_alone(start, end, |frame| {
            written |= small && !written && holds_data(frame);
        })?;
        self.vmas.discard(start, end);
        if present {
            if small {
                self.small.learn(written);
            }
            self.space.flush();
        }
        Some(())
    }

    fn unlocked_discard(&mut self, start: usize, end: usize) -> Option<()> {
        if !self.is_plain(start, end) || !self.vmas.is_covered(start, end) {
            return None;
        }
        if self.space.unmap_alone(start, end, |_| ())? {
            self.space.flush();
        }
        Some(())
    }
}

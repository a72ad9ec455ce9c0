//! Page faults that are served without the big lock while several virtual CPUs are awake: those that need no file, no wait
//! and no more of the host's memory.
//!
//! As with [calls](crate::syscall::unlocked), the virtual CPU counts as the program meanwhile. So who stops the
//! program waits until the fault is over, and holds its space's lock perhaps: then the fault gives up. Nothing else is
//! waited for with that lock. Pages are added here, and permissions grow; a page is replaced by its copy only
//! where no other virtual CPU can have its translation.
//!
//! Counted handles, those in mappings as well, are not touched: their counts are no atomics.

use super::area::{Area, AreaFlags, Backing};
use super::{Access, Inner, Space, page_down};
use abi::layout::USER_TOP;
use hal::percpu;
use keel_core::vma::Vma;

impl Space {
    /// Serves a page fault of the program that runs here; false: nothing was done.
    pub(crate) fn fault(&self, address: usize, access: Access) -> bool {
        if address >= USER_TOP || hal::ring::has_losses() {
            return false;
        }
        let inner = self.inner.lock_unless(percpu::work_pending);
        inner.is_some_and(|mut inner| inner.unlocked_fault(page_down(address), access))
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
}

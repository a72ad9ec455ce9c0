//! Descriptors that calls without the big lock opened, see [`crate::file::spare`].

use super::{FdTable, Inner, index};
use crate::file::spare::{self, DESCRIPTORS, Lent};
use alloc::sync::Arc;
use core::cell::{Ref, RefMut};

impl FdTable {
    /// Descriptors that are lent, one bit each.
    #[inline(always)]
    pub(super) fn lent(&self) -> u64 {
        self.lent.get().map_or(0, |lent| lent.mask())
    }

    #[inline(always)]
    pub(super) fn is_lent(&self, fd: i32) -> bool {
        let lent = self.lent();
        lent != 0 && index(fd) < DESCRIPTORS && lent >> fd & 1 != 0
    }

    /// Moves the descriptions that are lent into their slots.
    #[cold]
    #[inline(never)]
    pub(super) fn take_lent(&self) {
        let Some(lent) = self.lent.get() else { return };
        while let Some(note) = lent.take() {
            let mut inner = self.inner.borrow_mut();
            let file = spare::take(note.place);
            // There is room: only descriptors with a slot are lent.
            if let Some(slot) = inner.slots.get_mut(note.fd) {
                *slot = file;
                inner.used.insert(note.fd);
                inner.close_on_exec.set(note.fd, note.close_on_exec);
            }
            lent.taken(note.fd);
        }
    }

    /// All descriptors, with none lent.
    #[inline(always)]
    pub(super) fn all(&self) -> Ref<'_, Inner> {
        if self.lent() != 0 {
            self.take_lent();
        }
        self.inner.borrow()
    }

    /// All descriptors, to be changed.
    #[inline(always)]
    pub(super) fn all_mut(&self) -> RefMut<'_, Inner> {
        if self.lent() != 0 {
            self.take_lent();
        }
        self.inner.borrow_mut()
    }

    /// Descriptors were given away or became free.
    #[inline(always)]
    pub(super) fn changed(&self, inner: &Inner) {
        if let Some(lent) = self.lent.get()
            && !self.lends_none.get()
        {
            lent.set_used(inner.low());
        }
    }

    /// Lets calls without the big lock open files with a spare description. `None`: they can't.
    pub fn lend(&self) -> Option<Arc<Lent>> {
        if self.lends_none.get() || !self.unlocked.reserve(DESCRIPTORS) {
            return None;
        }
        let lent = self.lent.get_or_init(Lent::new);
        lent.set_used(self.inner.borrow().low());
        Some(lent.clone())
    }

    /// Lets them do so no longer.
    pub fn lend_none(&self) {
        self.lends_none.set(true);
        if let Some(lent) = self.lent.get() {
            lent.set_used(u64::MAX);
            self.take_lent();
        }
    }
}

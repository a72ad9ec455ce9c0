//! Descriptors that calls without the big lock opened, see [`crate::spare`].
//!
//! Once such calls are possible, [`Lent`] says which descriptors below [`DESCRIPTORS`] are free. Handlers claim theirs
//! there before they fill a slot, and free them after they emptied it.

use super::{FdTable, Inner, index};
use crate::File;
use crate::spare::{self, DESCRIPTORS, Lent, Note};
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Ref;
use uapi::{Errno, Result};

impl FdTable {
    /// What is lent, if something can be.
    #[inline(always)]
    fn lending(&self) -> Option<&Lent> {
        self.lent.get().filter(|_| !self.lends_none.get()).map(|lent| &**lent)
    }

    /// Whether a descriptor without a slot's file may have been opened by a call without the big lock.
    #[inline(always)]
    fn may_be_lent(&self, fd: i32) -> bool {
        self.lending().is_some_and(|lent| index(fd) < DESCRIPTORS && lent.taken() >> index(fd) & 1 != 0)
    }

    /// Moves the description of a descriptor into its slot, if it is lent.
    #[inline(always)]
    pub(super) fn take_lent(&self, fd: i32) {
        if self.may_be_lent(fd) {
            self.take_one(index(fd));
        }
    }

    /// The description of a descriptor whose slot has none, if it is lent; it is in the slot then. EBADF.
    #[cold]
    #[inline(never)]
    pub(super) fn get_lent(&self, fd: i32) -> Result<Rc<File>> {
        self.take_lent(fd);
        self.inner.borrow().slots.get(index(fd)).cloned().flatten().ok_or(Errno::EBADF)
    }

    #[cold]
    #[inline(never)]
    fn take_one(&self, fd: usize) {
        let Some(lent) = self.lending() else { return };
        let mut inner = self.inner.borrow_mut();
        if !inner.used.contains(fd)
            && let Some(note) = lent.take(fd)
        {
            self.put_taken(&mut inner, fd, note);
        }
    }

    /// Puts the description of a note that was taken into its slot.
    fn put_taken(&self, inner: &mut Inner, fd: usize, note: Note) {
        // There is room: slots were reserved before any was lent.
        match spare::take(note.place) {
            Some(file) => drop(inner.put(fd, file, note.close_on_exec, &self.unlocked)),
            None => self.freed(fd),
        }
    }

    /// Moves all descriptions that are lent into their slots.
    #[inline(always)]
    pub(super) fn take_all_lent(&self) {
        if let Some(lent) = self.lending() {
            let mut others = lent.taken() & !self.inner.borrow().used.first_word();
            while others != 0 {
                self.take_one(others.trailing_zeros() as usize);
                others &= others - 1;
            }
        }
    }

    /// All descriptors at one moment: what is lent is taken while none is opened without the big lock.
    pub(super) fn at_once(&self) -> Ref<'_, Inner> {
        if let Some(lent) = self.lending() {
            lent.while_closed(|| self.take_all_lent());
        }
        self.inner.borrow()
    }

    /// All descriptors; those that are opened from now on may be lent.
    #[inline(always)]
    pub(super) fn all(&self) -> Ref<'_, Inner> {
        self.take_all_lent();
        self.inner.borrow()
    }

    /// The lowest free descriptor now.
    pub(super) fn lowest(&self, inner: &Inner) -> usize {
        match self.lending().map(|lent| lent.taken().trailing_ones() as usize) {
            Some(lowest) if lowest < DESCRIPTORS => lowest,
            Some(_) => inner.used.first_absent(DESCRIPTORS),
            None => inner.lowest(0),
        }
    }

    /// Claims the lowest free descriptor that is not below `from`. `None`: it is not below the limit.
    #[inline(always)]
    pub(super) fn choose(&self, inner: &Inner, from: usize, limit: usize) -> Option<usize> {
        let fd = match self.lending() {
            None => inner.lowest(from),
            Some(lent) => match lent.take_free(from, limit) {
                Some(fd) => fd,
                None => inner.used.first_absent(from.max(DESCRIPTORS)),
            },
        };
        (fd < limit).then_some(fd)
    }

    /// Claims a descriptor with a slot; if it is lent, its description is in the slot then.
    pub(super) fn seize(&self, inner: &mut Inner, fd: usize) {
        if let Some(lent) = self.lending()
            && fd < DESCRIPTORS
            && !inner.used.contains(fd)
            && let Some(note) = lent.seize(fd)
        {
            let file = spare::take(note.place);
            if let Some(slot) = inner.slots.get_mut(fd) {
                *slot = file;
            }
        }
    }

    /// A descriptor is free again, and its slot empty.
    #[inline(always)]
    pub(super) fn freed(&self, fd: usize) {
        if let Some(lent) = self.lending() {
            lent.free(fd);
        }
    }

    /// Lets calls without the big lock open files with a spare description. `false`: they can't.
    pub fn lend(&self) -> bool {
        if self.lends_none.get() {
            return false;
        }
        if self.lent.get().is_none() {
            let mut inner = self.inner.borrow_mut();
            if inner.reserve(DESCRIPTORS - 1).is_err() {
                return false;
            }
            let used = inner.used.first_word();
            self.lent.get_or_init(|| Lent::new(used, self.is_shared.get()));
        }
        true
    }

    /// What is lent, for calls without the big lock.
    pub fn what_is_lent(&self) -> Option<Arc<Lent>> {
        self.lent.get().cloned()
    }

    /// Several threads use the table from now on. By its only thread, unless they do already.
    pub fn share(&self) {
        self.is_shared.set(true);
        if let Some(lent) = self.lending() {
            lent.share();
        }
    }

    /// Lets no call without the big lock open files any more.
    pub fn lend_none(&self) {
        if let Some(lent) = self.lending() {
            lent.close();
            self.take_all_lent();
        }
        self.lends_none.set(true);
    }
}

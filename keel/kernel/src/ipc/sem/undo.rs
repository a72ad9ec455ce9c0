//! Undo of semaphore operations at the end of a process (`SEM_UNDO`).

use super::{SEMVMX, Semaphore, Set};
use crate::task::Task;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// Undo structure of one set.
pub struct Undo {
    set: Weak<Set>,
    /// Adjustment of each semaphore.
    changes: Vec<Cell<i16>>,
}

/// Undo structures of all sets; threads may share the list (`CLONE_SYSVSEM`).
#[derive(Default)]
pub struct UndoList {
    undos: RefCell<Vec<Rc<Undo>>>,
}

impl core::fmt::Debug for UndoList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("UndoList").finish_non_exhaustive()
    }
}

impl Undo {
    /// Adds to an adjustment; false if it is out of range.
    pub(super) fn add(&self, number: usize, change: i32) -> bool {
        let Some(cell) = self.changes.get(number) else { return false };
        let Some(sum) = i16::try_from(i32::from(cell.get()) + change).ok() else { return false };
        cell.set(sum);
        true
    }

    /// Clears the adjustments of one semaphore, or all.
    pub(super) fn clear(&self, number: Option<usize>) {
        match number {
            Some(number) => self.changes.get(number).into_iter().for_each(|c| c.set(0)),
            None => self.changes.iter().for_each(|c| c.set(0)),
        }
    }
}

/// The thread's undo structure for a set. ENOMEM.
pub(super) fn of(task: &Rc<Task>, set: &Rc<Set>) -> Result<Rc<Undo>> {
    let list = task.sem_undo.borrow_mut().get_or_insert_default().clone();
    let mut undos = list.undos.borrow_mut();
    undos.retain(|undo| undo.set.upgrade().is_some_and(|set| !set.removed.get()));
    if let Some(undo) = undos.iter().find(|undo| Weak::as_ptr(&undo.set) == Rc::as_ptr(set)) {
        return Ok(undo.clone());
    }
    let mut changes = Vec::new();
    changes.try_reserve_exact(set.len()).map_err(|_| Errno::ENOMEM)?;
    changes.resize(set.len(), Cell::new(0));
    let undo = Rc::new(Undo { set: Rc::downgrade(set), changes });
    let mut of_set = set.undos.borrow_mut();
    of_set.retain(|undo| undo.strong_count() > 0);
    of_set.push(Rc::downgrade(&undo));
    undos.push(undo.clone());
    Ok(undo)
}

/// A new thread shares its creator's list (`CLONE_SYSVSEM`).
pub fn inherit(from: &Task, to: &Task) {
    let list = from.sem_undo.borrow_mut().get_or_insert_default().clone();
    let _none = to.sem_undo.replace(Some(list));
}

/// unshare(2) `CLONE_SYSVSEM`, and the end of a thread: the last reference to the list applies it.
pub fn unshare(task: &Task) {
    let list = task.sem_undo.take();
    if let Some(list) = list {
        leave(list, task.pid());
    }
}

/// Applies an undo list if this is its last reference.
pub fn leave(list: Rc<UndoList>, pid: i32) {
    let Ok(list) = Rc::try_unwrap(list) else { return };
    for undo in list.undos.into_inner() {
        let Some(set) = undo.set.upgrade().filter(|set| !set.removed.get()) else { continue };
        for (semaphore, change) in set.semaphores.borrow_mut().iter_mut().zip(&undo.changes) {
            if change.get() != 0 {
                let value = (semaphore.value + i32::from(change.get())).clamp(0, SEMVMX);
                *semaphore = Semaphore { value, pid };
            }
        }
        set.operated.set(super::super::now());
        set.update();
    }
}

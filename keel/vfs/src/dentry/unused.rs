//! How many names are kept that nobody uses, and how they go.

use super::Dentry;
use crate::ways;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;
use hal::frame::FRAME_SIZE;
use keel_core::pieces::Pieces;

/// Number of dentries in children tables, and the number at which unused ones are dropped (0: not known yet).
static COUNT: Global<Cell<usize>> = Global::new(Cell::new(0));
static LIMIT: Global<Cell<usize>> = Global::new(Cell::new(0));
/// How many requests for memory are left that look for no unused names.
static PAUSE: Global<Cell<u32>> = Global::new(Cell::new(0));

/// Memory of the pod for each name that may be kept: with its inodes a name takes an eighth of that, about.
const MEMORY_PER_NAME: u64 = 8 << 10;
/// What a name takes with its inodes, about.
const NAME_BYTES: usize = 1 << 10;
/// Names that may be kept in the smallest pod.
const LEAST: usize = 1 << 10;
/// How many requests for memory pass after one that found no unused names: looking for them visits all names.
const PAUSE_AFTER: u32 = 64;

/// Which unused names are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    All,
    /// Every second one. A program that visits more names than are kept, again and again, would not find one if the
    /// oldest were dropped, or all.
    Half,
}

/// Names that may be kept in this pod.
fn least_limit() -> usize {
    usize::try_from(hal::frame::ram_usage().limit / MEMORY_PER_NAME).unwrap_or(usize::MAX).max(LEAST)
}

/// Another dentry is in a table. Drops unused ones if there are too many.
pub(super) fn entered() {
    COUNT.set(COUNT.get() + 1);
    if COUNT.get() > LIMIT.get() {
        prune();
    }
}

/// So many dentries are in no table any more.
pub(super) fn left(count: usize) {
    COUNT.set(COUNT.get().saturating_sub(count));
}

#[cold]
fn prune() {
    let least = least_limit();
    let mut in_use = 0;
    if COUNT.get() > least {
        let spared = crate::mount::shrink(Share::Half);
        in_use = COUNT.get().saturating_sub(spared);
    }
    // If most are in use, all are not visited again soon.
    LIMIT.set(least.max(in_use.saturating_mul(2)));
}

/// Pages that the names take which are kept, about.
pub fn pages() -> usize {
    COUNT.get() * NAME_BYTES / FRAME_SIZE
}

/// Drops all names that nobody uses because memory is short: the number of pages that gave back, about. Must be called
/// where threads may wait, so without a borrow.
pub fn drop_unused() -> usize {
    if PAUSE.get() > 0 {
        PAUSE.set(PAUSE.get() - 1);
        return 0;
    }
    let before = COUNT.get();
    crate::mount::shrink(Share::All);
    let pages = before.saturating_sub(COUNT.get()) * NAME_BYTES / FRAME_SIZE;
    if pages == 0 {
        PAUSE.set(PAUSE_AFTER);
    }
    pages
}

#[cfg(test)]
pub(crate) fn count() -> usize {
    COUNT.get()
}

impl Dentry {
    /// Drops unused dentries beneath this one. Returns how many stay that are unused.
    pub(crate) fn shrink(self: &Rc<Self>, share: Share) -> usize {
        // Changes of what is not in the tables any more are not counted.
        ways::changed_everywhere();
        // With an explicit list: directories come before what lies in them. Those for which there is no room stay.
        let mut directories = Pieces::new();
        directories.push_back(self.clone());
        let mut next = 0;
        while let Some(directory) = directories.get(next).map(Rc::clone) {
            for child in directory.children.borrow().values().filter(|c| !c.children.borrow().is_empty()) {
                if directories.try_push_back(child.clone()).is_err() {
                    break;
                }
            }
            next += 1;
        }
        let (mut spared, mut is_second) = (0, false);
        while let Some(directory) = directories.pop_back() {
            let mut unused = Pieces::new();
            let mut children = directory.children.borrow_mut();
            children.retain(|_, child| {
                if Rc::strong_count(child) > 1 || !child.children.borrow().is_empty() {
                    return true;
                }
                is_second = !is_second;
                // Those for which there is no room in the list stay for now.
                let stays = share == Share::Half && is_second || unused.try_push_back(child.clone()).is_err();
                spared += usize::from(stays);
                stays
            });
            if children.is_empty() {
                // So the table's memory is given back.
                *children = Default::default();
            }
            drop(children);
            left(unused.len());
        }
        spared
    }
}

//! Locks of granted files, which processes of the host and other pods see and respect.
//!
//! keel decides between the programs of the pod. The host holds what they hold together, the strongest lock of each byte and of
//! flock(2): it is asked before a lock is granted here, and told after one is given up. Where a program may take a lock, nobody
//! else in the pod holds what conflicts, so what the pod holds of that range is then the program's own kind, and one request does
//! it. One thread at a time is busy with a file on the host ([`State::turn`]); none keeps its turn while it waits for others to give
//! up a lock. Who ends without a chance to wait (close, exit) gives up what is not held any more with a request that nobody
//! waits for, or leaves that to the thread that has the turn.

use super::{FileLocks, SleepLock};
use crate::File;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use hal::clock::monotonic_ns;
use sched::wait::{Interrupt, wait_until};
use uapi::{Errno, Result};
use vfs::host::{HostNode, Outside};
use vfs::locks::{Owner, Record, Whole};

/// How long a thread waits before it asks the host again for a lock that somebody outside holds, in ns: at first, and at most.
const PAUSE_NS: core::ops::RangeInclusive<u64> = 1_000_000..=20_000_000;

/// A file's locks on the host.
#[derive(Default)]
pub(super) struct State {
    /// The host's file, since a lock was taken there.
    node: RefCell<Weak<HostNode>>,
    /// Held by the thread that asks the host.
    turn: SleepLock,
    /// Locks were given up while a thread had the turn: those that nobody holds any more are still to be given up on the host.
    has_ended: Cell<bool>,
}

/// What became of an attempt to take a lock.
enum Attempt<B> {
    Taken,
    /// A lock in the pod is in the way.
    Held(B),
    /// One outside is.
    HeldOutside,
}

/// The host's file that locks taken now concern: not once the pod has a copy of its own.
pub(super) fn node_of(file: &File) -> Option<Rc<HostNode>> {
    file.ops.inode()?.locked_outside()
}

impl FileLocks {
    /// The host's file of which the pod may hold locks.
    fn node(&self) -> Option<Rc<HostNode>> {
        self.outside.node.borrow().upgrade()
    }

    /// Whether the pod may hold locks of it on the host.
    pub(super) fn may_be_held_outside(&self) -> bool {
        self.outside.node.borrow().strong_count() > 0
    }

    /// Runs `f` while no other thread asks the host about this file.
    fn in_turn<T>(&self, node: &Rc<HostNode>, f: impl FnOnce() -> T) -> T {
        let turn = self.outside.turn.lock();
        if self.outside.node.borrow().strong_count() == 0 {
            self.outside.node.replace(Rc::downgrade(node));
        }
        let result = f();
        while self.outside.has_ended.replace(false) {
            self.give_up_free(node, 0, u64::MAX);
            if self.locks.whole().is_none() {
                node.funlock_outside();
            }
        }
        if self.locks.has_no_records() && self.locks.whole().is_none() {
            node.is_unlocked();
        }
        drop(turn);
        result
    }

    /// The parts of `[start, end]` in which nobody of the pod holds a record lock.
    fn free_parts(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        // No lock is taken while the parts are walked: the byte before the next one stays free.
        let part_behind = move |(_, last): &(u64, u64)| {
            let next = last.checked_add(1).filter(|next| *next <= end)?;
            // The byte at `next` is locked, or was when the part before was found.
            self.locks.next_free(next, end)
        };
        core::iter::successors(self.locks.free(start, end), part_behind)
    }

    /// Has the host drop the locks of those parts that nobody holds. Never waits.
    fn give_up_free(&self, node: &HostNode, start: u64, end: u64) {
        if self.locks.has_no_records() {
            return node.unlock_outside(0, u64::MAX);
        }
        self.free_parts(start, end).for_each(|(free, last)| node.unlock_outside(free, last));
    }

    /// Record locks between `extent`'s first and last byte were given up, or (`None`) one of flock(2). Never waits.
    pub(super) fn ended(&self, extent: Option<(u64, u64)>) {
        let Some(node) = self.node() else { return };
        if self.outside.turn.is_held() {
            self.outside.has_ended.set(true);
            return;
        }
        match extent {
            Some((start, end)) => self.give_up_free(&node, start, end),
            None if self.locks.whole().is_none() => node.funlock_outside(),
            None => {}
        }
        if self.locks.has_no_records() && self.locks.whole().is_none() {
            node.is_unlocked();
        }
    }

    /// Gives up an owner's record locks in a range. ENOLCK: the host had no memory to split one of its own.
    pub(super) fn clear_outside(&self, owner: Owner, start: u64, end: u64) -> Result<bool> {
        let Some(node) = self.node() else { return self.locks.clear(owner, start, end) };
        if !self.locks.holds(owner, start, end) {
            return Ok(false);
        }
        self.in_turn(&node, || {
            // No more than it holds: parts between the locks of others are free already.
            let (first, last) = self.locks.extent(owner).unwrap_or((start, end));
            let (start, end) = (start.max(first), end.min(last));
            let changed = self.locks.clear(owner, start, end)?;
            if self.locks.has_no_records() {
                // One request, which is never refused; it also ends what an earlier one could not.
                return node.lock_outside(0, u64::MAX, None).map(|()| changed);
            }
            // All of them, also after an error; the last error counts.
            let tell = |result, (free, last)| node.lock_outside(free, last, None).and(result);
            self.free_parts(start, end).fold(Ok(changed), tell)
        })
    }

    /// Gives up the lock that a description has by flock(2).
    pub(super) fn funlock_outside(&self, description: u64) -> Result<bool> {
        let Some(node) = self.node() else { return Ok(self.locks.funlock(description)) };
        self.in_turn(&node, || {
            let before = self.locks.whole();
            let changed = self.locks.funlock(description);
            if before.is_some() && self.locks.whole().is_none() {
                node.flock_outside(None)?;
            }
            Ok(changed)
        })
    }

    fn attempt(&self, node: &Rc<HostNode>, record: Record) -> Result<Attempt<Record>> {
        let Record { start, end, kind, .. } = record;
        self.in_turn(node, || {
            if let Some(blocker) = self.locks.conflict(&record) {
                return Ok(Attempt::Held(blocker));
            }
            self.locks.reserve()?;
            if !self.locks.is_locked_so(start, end, kind) {
                match node.lock_outside(start, end, Some(kind)) {
                    Err(Errno::EAGAIN) => return Ok(Attempt::HeldOutside),
                    asked => asked?,
                }
            }
            // Meanwhile locks were given up at most.
            Ok(self.locks.set(record).map_or_else(Attempt::Held, |()| Attempt::Taken))
        })
    }

    /// Takes a record lock here and on the host. EAGAIN, EDEADLK, ERESTARTSYS, ENOLCK.
    pub(super) fn set_outside(&self, file: &File, node: &Rc<HostNode>, record: Record, waits: bool) -> Result<()> {
        let mut pause = *PAUSE_NS.start();
        loop {
            match self.attempt(node, record)? {
                Attempt::Taken => break,
                _ if !waits => return Err(Errno::EAGAIN),
                Attempt::Held(blocker) => {
                    let is_free = || self.locks.conflict(&record).map_or(Ok(()), Err);
                    super::wait_for(self, record, blocker, is_free)?;
                }
                Attempt::HeldOutside => self.pause(&mut pause)?,
            }
        }
        has_locked(file, node);
        Ok(())
    }

    /// Waits before the host is asked again, each time longer. ERESTARTSYS.
    fn pause(&self, pause: &mut u64) -> Result<()> {
        let until = monotonic_ns() + *pause;
        *pause = (*pause * 2).min(*PAUSE_NS.end());
        match wait_until::<()>(&[], Some(until), Interrupt::BySignal, || None) {
            Err(Errno::ETIMEDOUT) => Ok(()),
            other => other,
        }
    }

    /// Takes a lock of flock(2) here and on the host. EWOULDBLOCK, ERESTARTSYS, ENOLCK.
    pub(super) fn flock_outside(&self, file: &File, node: &Rc<HostNode>, wanted: Whole, waits: bool) -> Result<()> {
        let mut pause = *PAUSE_NS.start();
        loop {
            let attempt = self.attempt_whole(node, wanted);
            // A conversion gives up the lock held before, even if it fails.
            self.changed.wake_all();
            match attempt? {
                Attempt::Taken => break,
                _ if !waits => return Err(Errno::EWOULDBLOCK),
                Attempt::Held(()) => {
                    crate::wait_on(&self.changed, || (!self.locks.is_whole_held(&wanted)).then_some(()))?;
                }
                Attempt::HeldOutside => self.pause(&mut pause)?,
            }
        }
        has_locked(file, node);
        Ok(())
    }

    fn attempt_whole(&self, node: &Rc<HostNode>, wanted: Whole) -> Result<Attempt<()>> {
        self.in_turn(node, || {
            self.locks.reserve()?;
            let before = self.locks.whole();
            if self.locks.flock(wanted).is_err() {
                if before.is_some() && self.locks.whole().is_none() {
                    node.flock_outside(None)?;
                }
                return Ok(Attempt::Held(()));
            }
            if before == Some(wanted.kind) {
                return Ok(Attempt::Taken);
            }
            match node.flock_outside(Some(wanted.kind)) {
                Ok(()) => Ok(Attempt::Taken),
                Err(errno) => {
                    // As on Linux, what it held before is lost.
                    self.locks.funlock(wanted.description);
                    if errno == Errno::EAGAIN { Ok(Attempt::HeldOutside) } else { Err(errno) }
                }
            }
        })
    }
}

/// A lock outside that is in the way of one of the pod. ENOLCK.
pub(super) fn conflict(of: &FileLocks, file: &File, record: &Record) -> Result<Option<Outside>> {
    match node_of(file) {
        Some(node) => of.in_turn(&node, || node.locked_outside(record.start, record.end, record.kind)),
        None => Ok(None),
    }
}

/// Others may have changed the file, and what lies beside it, before the lock was taken.
fn has_locked(file: &File, node: &HostNode) {
    let believed = node.has_locked();
    if let Some(place) = &file.path {
        place.dentry().doubt_names_beside(believed);
    }
}

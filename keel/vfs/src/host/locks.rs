//! Locks of host files that others on the host see.
//!
//! The monitor holds what the pod as a whole holds of a file, on one open file description ([`HoldLocks`]). Who in the pod holds
//! what is not known here, but by the caller, who also sees to it that one request of a file is under way at a time. Writes
//! that were gathered precede every request in the ring, so the host has them before a lock is given up; and others may have
//! changed anything while the pod held none, so what is known of the export is not believed after one was taken
//! ([`HostNode::has_locked`]).

use super::{HostNode, now};
use crate::FileType;
use crate::locks::Kind;
use abi::operation::Operation;
use abi::request::{FoundLock, HoldLocks, Lock, LockHolder, LockKind, LockWhole, TestLock};
use core::sync::atomic::Ordering::Relaxed;
use uapi::{Errno, Result};

/// Most files whose handle for locks is kept while the pod holds none.
const MAX_IDLE: usize = 64;

/// A lock that another process of the host holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// First byte.
    pub start: u64,
    /// Last byte; `u64::MAX`: the end of the file.
    pub end: u64,
    /// Shared or exclusive.
    pub kind: Kind,
    /// An open file description holds it, not a process.
    pub by_description: bool,
}

/// The monitor's handle for the locks of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    id: u64,
    writable: bool,
}

fn kind_of(kind: Option<Kind>) -> LockKind {
    match kind {
        None => LockKind::None,
        Some(Kind::Read) => LockKind::Shared,
        Some(Kind::Write) => LockKind::Exclusive,
    }
}

impl HostNode {
    /// From now on locks of the files of its export are held on the host, too.
    pub fn share_locks(&self) {
        self.export.shares_locks.set(true);
    }

    /// Whether locks of it are held on the host, too: regular files alone can be opened there.
    pub(crate) fn has_outside_locks(&self) -> bool {
        self.export.shares_locks.get() && self.kind() == FileType::Regular
    }

    /// The handle for its locks. ENOLCK.
    fn holding(&self) -> Result<Holding> {
        let content = self.content();
        if let Some(holding) = content.holding.get() {
            return Ok(holding);
        }
        let mut writable = self.is_writable();
        let opened = match self.open_handle(writable) {
            // The host's permissions may allow no more than to read it.
            Err(_) if writable => {
                writable = false;
                self.open_handle(false)
            }
            opened => opened,
        };
        let handle = opened.map_err(|_| Errno::ENOLCK)?;
        // The cache may have closed the handle meanwhile: again.
        let held = match self.host().call(HoldLocks { handle }, &(), &mut ()) {
            Err(Errno::EBADF) => {
                let handle = self.open_handle(writable).map_err(|_| Errno::ENOLCK)?;
                self.host().call(HoldLocks { handle }, &(), &mut ())
            }
            held => held,
        };
        let holding = Holding { id: held.map_err(|_| Errno::ENOLCK)?, writable };
        if let Some(other) = content.holding.get() {
            // Another thread was faster.
            self.host().close(holding.id);
            return Ok(other);
        }
        content.holding.set(Some(holding));
        self.host().holdings.set(self.host().holdings.get() + 1);
        Ok(holding)
    }

    /// What the host can hold of a lock of this kind: where the pod can't write the file, no exclusive one of bytes.
    fn possible(holding: Holding, kind: Option<Kind>) -> Option<Kind> {
        if holding.writable { kind } else { kind.map(|_| Kind::Read) }
    }

    /// Takes, changes or gives up (`None`) what the pod holds of bytes. EAGAIN if somebody outside holds what conflicts, ENOLCK.
    pub fn lock_outside(&self, start: u64, end: u64, kind: Option<Kind>) -> Result<()> {
        let holding = self.holding()?;
        let kind = kind_of(Self::possible(holding, kind));
        self.host().call(Lock { handle: holding.id, start, end, kind }, &(), &mut ())
    }

    /// Gives up what the pod holds of bytes. Never waits; the host knows it soon.
    pub fn unlock_outside(&self, start: u64, end: u64) {
        if let Some(holding) = self.content().holding.get() {
            self.host().io.unlock(Lock { handle: holding.id, start, end, kind: LockKind::None }.encode());
        }
    }

    /// Takes, changes or gives up (`None`) what the pod holds of the whole file, flock(2). EAGAIN if somebody outside holds
    /// what conflicts: what was held before is lost then. ENOLCK.
    pub fn flock_outside(&self, kind: Option<Kind>) -> Result<()> {
        let holding = self.holding()?;
        self.host().call(LockWhole { handle: holding.id, kind: kind_of(kind) }, &(), &mut ())
    }

    /// Gives up what the pod holds of the whole file. Never waits; the host knows it soon.
    pub fn funlock_outside(&self) {
        if let Some(holding) = self.content().holding.get() {
            self.host().io.unlock(LockWhole { handle: holding.id, kind: LockKind::None }.encode());
        }
    }

    /// The first lock outside that conflicts with one of bytes. ENOLCK.
    pub fn locked_outside(&self, start: u64, end: u64, kind: Kind) -> Result<Option<Outside>> {
        let holding = self.holding()?;
        let test = TestLock { handle: holding.id, start, end, kind: kind_of(Self::possible(holding, Some(kind))) };
        let FoundLock { holder, start, end } = self.host().call(test, &(), &mut ())?;
        let (kind, by_description) = match holder {
            LockHolder::None => return Ok(None),
            LockHolder::SharedByProcess => (Kind::Read, false),
            LockHolder::ExclusiveByProcess => (Kind::Write, false),
            LockHolder::SharedByDescription => (Kind::Read, true),
            LockHolder::ExclusiveByDescription => (Kind::Write, true),
        };
        Ok(Some(Outside { start, end, kind, by_description }))
    }

    /// The pod holds no lock of it any more.
    pub fn is_unlocked(&self) {
        if self.host().holdings.get() > MAX_IDLE {
            self.let_go_of_locks();
        }
    }

    /// Closes the handle for its locks.
    pub(super) fn let_go_of_locks(&self) {
        if let Some(holding) = self.content.get().and_then(|content| content.holding.take()) {
            self.host().holdings.set(self.host().holdings.get().saturating_sub(1));
            self.host().close(holding.id);
        }
    }

    /// A lock was taken: what others on the host did under theirs must be seen. Nothing that is known of the export by now is
    /// believed any more. Until when (monotonic ns) names were believed that nobody asked for since.
    pub fn has_locked(&self) -> u64 {
        let now = now().max(self.export.locked_at() + 1);
        self.export.locked.store(now, Relaxed);
        now.saturating_add(self.export.fresh_ns)
    }
}

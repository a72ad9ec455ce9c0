//! Locks that a pod holds on files of the host, for other processes of the host to see.
//!
//! They lie on the open file description of a handle ([`LockedFile`] keeps a descriptor of it): flock(2) and `F_OFD_SETLK` need
//! no process that owns them, and the host drops them when the monitor ends, in any way. Nothing here waits for a lock.
#![allow(unsafe_code)]

use super::super::{Errno, Result};
use super::export::ExportConfig;
use super::handles::{Handle, Handles};
use abi::request::{FoundLock, HoldLocks, Lock, LockHolder, LockKind, LockWhole, TestLock};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::FlockOperation;
use std::collections::BTreeMap;

/// Most separate ranges that a pod may hold: each takes memory of the host's kernel, which looks at all ranges of a file for each
/// lock.
const MAX_RANGES: usize = 1 << 12;

/// A file whose locks a pod may hold.
#[derive(Debug)]
pub struct LockedFile {
    fd: OwnedFd,
    ranges: Ranges,
}

impl Drop for LockedFile {
    /// The description may have other descriptors.
    fn drop(&mut self) {
        // Neither fails for an open file, and there is nobody to tell.
        let _ = change(self.fd.as_fd(), LockKind::None, 0, u64::MAX);
        let _ = rustix::fs::flock(&self.fd, FlockOperation::NonBlockingUnlock);
    }
}

impl LockedFile {
    /// For locks on the description of `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, ranges: Ranges::default() }
    }

    /// Separate ranges that are held.
    pub fn ranges(&self) -> usize {
        self.ranges.0.len()
    }
}

/// What is held of a file: by first byte the last one and the kind. Neighbours of one kind are joined, as the host does.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u64, (u64, LockKind)>);

impl Ranges {
    /// Whether taking this part away leaves two of one.
    fn splits(&self, start: u64, end: u64) -> bool {
        self.0.range(..start).next_back().is_some_and(|(_, (last, _))| *last > end)
    }

    fn set(&mut self, mut start: u64, mut end: u64, kind: LockKind) {
        let before = self.0.range(..start).next_back().map(|(&at, &held)| (at, held));
        if let Some((at, (last, held))) = before
            && last >= start
        {
            self.0.insert(at, (start - 1, held));
            if last > end {
                self.0.insert(end + 1, (last, held));
            }
        }
        while let Some((at, (last, held))) = self.0.range(start..=end).next().map(|(&at, &held)| (at, held)) {
            self.0.remove(&at);
            if last > end {
                self.0.insert(end + 1, (last, held));
            }
        }
        if kind == LockKind::None {
            return;
        }
        if let Some((at, (last, held))) = self.0.range(..start).next_back().map(|(&at, &held)| (at, held))
            && held == kind
            && last.checked_add(1) == Some(start)
        {
            self.0.remove(&at);
            start = at;
        }
        if let Some(next) = end.checked_add(1)
            && let Some(&(last, held)) = self.0.get(&next)
            && held == kind
        {
            self.0.remove(&next);
            end = last;
        }
        self.0.insert(start, (end, kind));
    }
}

/// [`HoldLocks`].
pub fn hold(exports: &[ExportConfig], handles: &mut Handles, hold: HoldLocks) -> Result<u64> {
    handles.check_room()?;
    let file = handles.file(hold.handle)?;
    if !ExportConfig::find(exports, file.export)?.locks {
        return Err(Errno::ACCESS);
    }
    let (earlier, fd) = (file.locks, rustix::io::fcntl_dupfd_cloexec(&file.fd, 0)?);
    // Two would share the locks of one description, and each would count the other's as none.
    if earlier.is_some_and(|earlier| handles.locks(earlier).is_ok()) {
        return Err(Errno::BUSY);
    }
    let locks = handles.insert(Handle::Locks(Box::new(LockedFile::new(fd))))?;
    handles.set_locks(hold.handle, locks)?;
    Ok(locks)
}

/// [`Lock`]. EINVAL for a range that is none.
pub fn lock(handles: &mut Handles, lock: Lock) -> Result<()> {
    let Lock { handle, start, end, kind } = lock;
    let end = check(start, end)?;
    // At most two more.
    let is_full = handles.ranges() + 2 > MAX_RANGES;
    let file = handles.locks(handle)?;
    // What is given up is never refused as long as it makes no more of them.
    let grows = kind != LockKind::None || file.ranges.splits(start, end);
    if grows && is_full {
        return Err(Errno::NOLCK);
    }
    change(file.fd.as_fd(), kind, start, end)?;
    let before = file.ranges();
    file.ranges.set(start, end, kind);
    let after = file.ranges();
    handles.ranges_changed(before, after);
    Ok(())
}

/// [`TestLock`].
pub fn test(handles: &mut Handles, test: TestLock) -> Result<FoundLock> {
    let TestLock { handle, start, end, kind } = test;
    let end = check(start, end)?;
    if kind == LockKind::None {
        return Err(Errno::INVAL);
    }
    let mut range = range_of(kind, start, end);
    control(handles.locks(handle)?.fd.as_fd(), libc::F_OFD_GETLK, &mut range)?;
    let is_process = range.l_pid != -1;
    let holder = match (i32::from(range.l_type), is_process) {
        (libc::F_RDLCK, true) => LockHolder::SharedByProcess,
        (libc::F_RDLCK, false) => LockHolder::SharedByDescription,
        (libc::F_WRLCK, true) => LockHolder::ExclusiveByProcess,
        (libc::F_WRLCK, false) => LockHolder::ExclusiveByDescription,
        _ => return Ok(FoundLock::default()),
    };
    let start = u64::try_from(range.l_start).map_err(|_| Errno::IO)?;
    let len = u64::try_from(range.l_len).map_err(|_| Errno::IO)?;
    let end = if len == 0 { u64::MAX } else { start.saturating_add(len - 1) };
    Ok(FoundLock { holder, start, end })
}

/// [`LockWhole`].
pub fn lock_whole(handles: &mut Handles, lock: LockWhole) -> Result<()> {
    let operation = match lock.kind {
        LockKind::None => FlockOperation::NonBlockingUnlock,
        LockKind::Shared => FlockOperation::NonBlockingLockShared,
        LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    rustix::fs::flock(&handles.locks(lock.handle)?.fd, operation)
}

/// The last byte of a range as the host counts, which knows none behind `i64::MAX`. EINVAL.
fn check(start: u64, end: u64) -> Result<u64> {
    const LAST: u64 = i64::MAX as u64;
    if start > LAST || end < start {
        return Err(Errno::INVAL);
    }
    Ok(if end >= LAST { u64::MAX } else { end })
}

fn range_of(kind: LockKind, start: u64, end: u64) -> libc::flock {
    let l_type = match kind {
        LockKind::None => libc::F_UNLCK,
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    let l_len = if end == u64::MAX { 0 } else { (end - start + 1) as i64 };
    libc::flock {
        l_type: l_type as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start as i64,
        l_len,
        // Anything else is refused.
        l_pid: 0,
    }
}

fn change(fd: BorrowedFd<'_>, kind: LockKind, start: u64, end: u64) -> Result<()> {
    match control(fd, libc::F_OFD_SETLK, &mut range_of(kind, start, end)) {
        Err(Errno::ACCESS) => Err(Errno::AGAIN),
        other => other,
    }
}

fn control(fd: BorrowedFd<'_>, command: libc::c_int, range: &mut libc::flock) -> Result<()> {
    // SAFETY: the kernel reads and writes one structure of this type.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), command, &raw mut *range) };
    if result != -1 {
        return Ok(());
    }
    Err(Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(ranges: &Ranges) -> Vec<(u64, u64, LockKind)> {
        ranges.0.iter().map(|(&start, &(end, kind))| (start, end, kind)).collect()
    }

    #[test]
    fn ranges_are_joined_and_split() {
        use LockKind::{Exclusive, None, Shared};
        let mut ranges = Ranges::default();
        ranges.set(10, 19, Shared);
        ranges.set(30, u64::MAX, Shared);
        ranges.set(20, 29, Shared);
        assert_eq!(held(&ranges), [(10, u64::MAX, Shared)]);
        assert!(ranges.splits(11, 12) && !ranges.splits(10, 12) && !ranges.splits(11, u64::MAX));
        ranges.set(15, 24, Exclusive);
        assert_eq!(held(&ranges), [(10, 14, Shared), (15, 24, Exclusive), (25, u64::MAX, Shared)]);
        ranges.set(0, 12, None);
        ranges.set(20, 20, None);
        assert_eq!(held(&ranges), [(13, 14, Shared), (15, 19, Exclusive), (21, 24, Exclusive), (25, u64::MAX, Shared)]);
        ranges.set(14, 30, Exclusive);
        assert_eq!(held(&ranges), [(13, 13, Shared), (14, 30, Exclusive), (31, u64::MAX, Shared)]);
        ranges.set(0, u64::MAX, None);
        assert_eq!(held(&ranges), []);
    }
}

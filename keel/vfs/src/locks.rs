//! File locks: flock(2), and record locks of fcntl(2) by process or by open file description.
//!
//! Pure bookkeeping, stored as an attachment of the inode ([`crate::inode::Attachments`]); the caller implements
//! waiting.

use alloc::vec::Vec;
use core::cell::RefCell;
use uapi::{Errno, Result};

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Others may read-lock too.
    Read,
    /// No other owner.
    Write,
}

/// Owner of a record lock. The caller chooses the numbers, which must be unique while the owner exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process (its descriptor table).
    Process(u64),
    /// An open file description.
    Description(u64),
}

/// A record lock. `end` is inclusive; `u64::MAX` means the end of the file, even if that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// Shared or exclusive.
    pub kind: Kind,
    /// Holder.
    pub owner: Owner,
    /// Process id that F_GETLK reports; -1 for descriptions.
    pub pid: i32,
}

impl Record {
    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner && self.overlaps(other) && (self.kind == Kind::Write || other.kind == Kind::Write)
    }
}

/// Turns `l_start`, `l_len` (relative to `base`) into first and last byte. EINVAL, EOVERFLOW.
pub fn range(base: u64, start: i64, len: i64) -> Result<(u64, u64)> {
    let from = i64::try_from(base).ok().and_then(|b| b.checked_add(start)).ok_or(Errno::EOVERFLOW)?;
    let (first, last) = match len {
        0 => (from, None),
        // The largest offset is the end of the file, too.
        1.. => (from, Some(from.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?).filter(|last| *last < i64::MAX)),
        _ => (from.checked_add(len).ok_or(Errno::EINVAL)?, Some(from - 1)),
    };
    let first = u64::try_from(first).map_err(|_| Errno::EINVAL)?;
    match last {
        None => Ok((first, u64::MAX)),
        Some(last) => Ok((first, u64::try_from(last).map_err(|_| Errno::EINVAL)?)),
    }
}

/// A lock of flock(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Holder: an open file description.
    pub description: u64,
    /// Shared or exclusive.
    pub kind: Kind,
    /// Process that set it, for `/proc/locks`.
    pub pid: i32,
}

/// Maximum number of record locks, and of flock(2) locks, of one file: each call scans all of them.
const MOST: usize = 8192;

/// Frees the memory of a list without locks: the inode keeps the list for as long as the file exists.
fn free_if_empty<T>(list: &mut Vec<T>) {
    if list.is_empty() {
        *list = Vec::new();
    }
}

/// All locks of a file.
#[derive(Debug, Default)]
pub struct Locks {
    /// By start; records of one owner do not overlap.
    records: RefCell<Vec<Record>>,
    /// Locks of flock(2).
    whole: RefCell<Vec<Whole>>,
}

impl Locks {
    /// The first lock that conflicts with `wanted` (F_GETLK).
    pub fn conflict(&self, wanted: &Record) -> Option<Record> {
        let records = self.records.borrow();
        records.iter().filter(|r| r.conflicts(wanted)).min_by_key(|r| r.start).copied()
    }

    /// Reserves memory for one more lock and a split. ENOLCK.
    pub fn reserve(&self) -> Result<()> {
        let (mut records, mut whole) = (self.records.borrow_mut(), self.whole.borrow_mut());
        let has_room = records.len().max(whole.len()) < MOST && !hal::frame::is_scarce();
        if has_room && records.try_reserve(3).is_ok() && whole.try_reserve(1).is_ok() {
            Ok(())
        } else {
            Err(Errno::ENOLCK)
        }
    }

    /// Sets a record lock (F_SETLK), or returns the conflicting one. Replaces the owner's locks in the range and merges
    /// adjacent ones of the same kind.
    pub fn set(&self, wanted: Record) -> core::result::Result<(), Record> {
        if let Some(blocker) = self.conflict(&wanted) {
            return Err(blocker);
        }
        let mut records = self.records.borrow_mut();
        // The memory of an emptied list serves the new lock.
        Self::cut(&mut records, wanted.owner, wanted.start, wanted.end);
        let mut joined = wanted;
        records.retain(|r| {
            let touches = r.owner == wanted.owner
                && r.kind == wanted.kind
                && (r.end.checked_add(1) == Some(joined.start) || joined.end.checked_add(1) == Some(r.start));
            if touches {
                joined.start = joined.start.min(r.start);
                joined.end = joined.end.max(r.end);
            }
            !touches
        });
        Self::insert(&mut records, joined);
        Ok(())
    }

    /// Adds a record at its place in the list.
    fn insert(records: &mut Vec<Record>, record: Record) {
        let at = records.partition_point(|r| r.start <= record.start);
        records.insert(at, record);
    }

    /// Removes the owner's locks from `[start, end]` (F_UNLCK); returns whether there were any. ENOLCK: there is no room for
    /// the two parts of one that is split.
    pub fn clear(&self, owner: Owner, start: u64, end: u64) -> Result<bool> {
        let mut records = self.records.borrow_mut();
        let splits = records.iter().any(|r| r.owner == owner && r.start < start && end < r.end);
        if splits && (records.len() >= MOST || records.try_reserve(1).is_err()) {
            return Err(Errno::ENOLCK);
        }
        let changed = Self::cut(&mut records, owner, start, end);
        free_if_empty(&mut records);
        Ok(changed)
    }

    /// Removes the owner's locks from `[start, end]`; returns whether there were any.
    fn cut(records: &mut Vec<Record>, owner: Owner, start: u64, end: u64) -> bool {
        let mut rests = Vec::new();
        let before = records.len();
        records.retain(|r| {
            if r.owner != owner || r.end < start || r.start > end {
                return true;
            }
            if r.start < start {
                rests.push(Record { end: start - 1, ..*r });
            }
            if r.end > end {
                rests.push(Record { start: end + 1, ..*r });
            }
            false
        });
        let changed = records.len() != before;
        for rest in rests {
            Self::insert(records, rest);
        }
        changed
    }

    /// A record lock that an owner holds in a range.
    pub fn held(&self, owner: Owner, start: u64, end: u64) -> Option<Record> {
        let records = self.records.borrow();
        records.iter().find(|r| r.owner == owner && r.start <= end && start <= r.end).copied()
    }

    /// Whether an owner holds locks in `[start, end]`.
    pub fn holds(&self, owner: Owner, start: u64, end: u64) -> bool {
        self.records.borrow().iter().any(|r| r.owner == owner && r.start <= end && start <= r.end)
    }

    /// First and last byte of all that an owner holds.
    pub fn extent(&self, owner: Owner) -> Option<(u64, u64)> {
        let records = self.records.borrow();
        let mut held = records.iter().filter(|r| r.owner == owner).map(|r| (r.start, r.end));
        let first = held.next()?;
        Some(held.fold(first, |(start, end), held| (start.min(held.0), end.max(held.1))))
    }

    /// The first part of `[start, end]` in which no lock is held.
    pub fn free(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        Self::first_free(&self.records.borrow(), start, end)
    }

    /// As [`Self::free`], where the byte before `start` is free: skips the locks that begin before it, so that all free parts
    /// are found in one pass.
    pub fn next_free(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let records = self.records.borrow();
        let at = records.partition_point(|r| r.start < start);
        Self::first_free(records.get(at..)?, start, end)
    }

    fn first_free(records: &[Record], start: u64, end: u64) -> Option<(u64, u64)> {
        let mut from = start;
        for r in records.iter().filter(|r| r.end >= start) {
            if r.start > from {
                return Some((from, end.min(r.start - 1)));
            }
            if r.end >= from {
                from = r.end.checked_add(1).filter(|from| *from <= end)?;
            }
        }
        Some((from, end))
    }

    /// Whether all of `[start, end]` is locked, and by no stronger lock than one of this kind, nor a weaker one.
    pub fn is_locked_so(&self, start: u64, end: u64, kind: Kind) -> bool {
        self.free(start, end).is_none()
            && self.records.borrow().iter().all(|r| r.kind == kind || r.end < start || end < r.start)
    }

    /// Whether no record lock is held.
    pub fn has_no_records(&self) -> bool {
        self.records.borrow().is_empty()
    }

    /// The strongest lock of flock(2) that is held.
    pub fn whole(&self) -> Option<Kind> {
        let whole = self.whole.borrow();
        if whole.iter().any(|w| w.kind == Kind::Write) { Some(Kind::Write) } else { whole.first().map(|w| w.kind) }
    }

    /// Whether another description's lock is in the way of one of flock(2).
    pub fn is_whole_held(&self, wanted: &Whole) -> bool {
        let conflicts =
            |w: &Whole| w.description != wanted.description && (wanted.kind == Kind::Write || w.kind == Kind::Write);
        self.whole.borrow().iter().any(conflicts)
    }

    /// Removes all record locks of an owner (close, exit); returns whether there were any.
    pub fn clear_owner(&self, owner: Owner) -> bool {
        let mut records = self.records.borrow_mut();
        let before = records.len();
        records.retain(|r| r.owner != owner);
        let changed = records.len() != before;
        free_if_empty(&mut records);
        changed
    }

    /// flock(2) by a description. EWOULDBLOCK; a lock that it held of another kind is then lost, as
    /// in Linux, where converting is not atomic.
    pub fn flock(&self, wanted: Whole) -> Result<()> {
        let mut whole = self.whole.borrow_mut();
        if whole.iter().any(|w| w.description == wanted.description && w.kind == wanted.kind) {
            return Ok(());
        }
        whole.retain(|w| w.description != wanted.description);
        let blocked = whole.iter().any(|w| wanted.kind == Kind::Write || w.kind == Kind::Write);
        if blocked {
            return Err(Errno::EWOULDBLOCK);
        }
        whole.push(wanted);
        Ok(())
    }

    /// LOCK_UN, or the last close; returns whether there was a lock.
    pub fn funlock(&self, description: u64) -> bool {
        let mut whole = self.whole.borrow_mut();
        let before = whole.len();
        whole.retain(|w| w.description != description);
        let changed = whole.len() != before;
        free_if_empty(&mut whole);
        changed
    }

    /// All record locks and flocks, for `/proc/locks`. ENOMEM.
    pub fn all(&self) -> Result<(Vec<Record>, Vec<Whole>)> {
        let records = crate::memory::collect(self.records.borrow().iter().copied())?;
        Ok((records, crate::memory::collect(self.whole.borrow().iter().copied())?))
    }
}

/// The wait-for graph: finds deadlocks between processes that wait for record locks.
#[derive(Debug, Default)]
pub struct Waits(RefCell<Vec<(Owner, Owner)>>);

impl Waits {
    /// There are no waiters.
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// `waiter` is about to wait for `holder`. EDEADLK if `holder` waits for it already, directly or
    /// through others. Descriptions are not checked, as in Linux. ENOMEM.
    pub fn begin(&self, waiter: Owner, holder: Owner) -> Result<()> {
        let mut waits = self.0.borrow_mut();
        if matches!(waiter, Owner::Process(_)) {
            let mut at = holder;
            for _ in 0..=waits.len() {
                if at == waiter {
                    return Err(Errno::EDEADLK);
                }
                match waits.iter().find(|(w, _)| *w == at) {
                    Some((_, next)) => at = *next,
                    None => break,
                }
            }
        }
        crate::memory::push(&mut waits, (waiter, holder))
    }

    /// `waiter` does not wait any more.
    pub fn end(&self, waiter: Owner) {
        let mut waits = self.0.borrow_mut();
        if let Some(at) = waits.iter().position(|(w, _)| *w == waiter) {
            waits.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: u64, start: u64, end: u64, kind: Kind) -> Record {
        Record { start, end, kind, owner: Owner::Process(owner), pid: owner as i32 }
    }

    #[test]
    fn ranges_follow_fcntl() {
        assert_eq!(range(0, 10, 5), Ok((10, 14)));
        assert_eq!(range(100, -10, 0), Ok((90, u64::MAX)));
        assert_eq!(range(0, 10, -10), Ok((0, 9)));
        assert_eq!(range(0, -1, 5), Err(Errno::EINVAL));
        assert_eq!(range(0, i64::MAX, 2), Err(Errno::EOVERFLOW));
    }

    #[test]
    fn unlocking_the_middle_splits() {
        let locks = Locks::default();
        locks.set(record(1, 0, 99, Kind::Write)).unwrap();
        assert_eq!(locks.clear(Owner::Process(1), 40, 59), Ok(true));
        assert!(locks.set(record(2, 40, 59, Kind::Write)).is_ok());
        assert_eq!(locks.set(record(2, 60, 60, Kind::Read)).unwrap_err().start, 60);
        assert_eq!(locks.set(record(2, 0, 0, Kind::Read)).unwrap_err().end, 39);
    }

    #[test]
    fn neighbours_join_and_kinds_replace() {
        let locks = Locks::default();
        for (start, end) in [(0, 9), (20, 29), (10, 19)] {
            locks.set(record(1, start, end, Kind::Read)).unwrap();
        }
        assert_eq!(locks.all().unwrap().0, [record(1, 0, 29, Kind::Read)]);
        locks.set(record(1, 5, 6, Kind::Write)).unwrap();
        assert_eq!(locks.all().unwrap().0.len(), 3);
        assert!(locks.set(record(2, 7, u64::MAX, Kind::Read)).is_ok());
        assert!(locks.set(record(2, 6, 6, Kind::Read)).is_err());
    }

    #[test]
    fn what_is_free_lies_between_the_locks_of_all() {
        let locks = Locks::default();
        for (owner, start, end) in [(1, 10, 19), (2, 15, 29), (1, 40, 49)] {
            locks.set(record(owner, start, end, Kind::Read)).unwrap();
        }
        assert_eq!(locks.free(0, 100), Some((0, 9)));
        assert_eq!((locks.free(10, 29), locks.free(12, 35)), (None, Some((30, 35))));
        assert_eq!((locks.free(45, u64::MAX), locks.free(40, 49)), (Some((50, u64::MAX)), None));
        assert!(locks.is_locked_so(10, 29, Kind::Read) && !locks.is_locked_so(10, 29, Kind::Write));
        assert!(!locks.is_locked_so(10, 30, Kind::Read));
        assert_eq!((locks.extent(Owner::Process(1)), locks.extent(Owner::Process(3))), (Some((10, 49)), None));
        assert!(locks.holds(Owner::Process(2), 29, 99) && !locks.holds(Owner::Process(2), 30, 99));
        assert!(locks.clear_owner(Owner::Process(1)));
        locks.set(record(2, 60, u64::MAX, Kind::Write)).unwrap();
        assert_eq!((locks.free(16, 70), locks.free(60, u64::MAX)), (Some((30, 59)), None));
        assert!(!locks.has_no_records() && locks.whole().is_none());
    }

    #[test]
    fn free_parts_are_those_of_a_model() {
        const LAST: u64 = 39;
        let mut seed = 7_u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let locks = Locks::default();
        let mut model = [[None; LAST as usize + 1]; 4];
        for step in 0..20_000 {
            let (owner, start) = (below(4), below(LAST + 1));
            let end = start + below(LAST + 1 - start).min(below(12));
            let kind = [None, Some(Kind::Read), Some(Kind::Write)][below(3) as usize];
            let is_set = match kind {
                Some(kind) => locks.set(record(owner, start, end, kind)).is_ok(),
                None => locks.clear(Owner::Process(owner), start, end).is_ok(),
            };
            if is_set {
                model[owner as usize][start as usize..=end as usize].fill(kind);
            }
            let is_free = |at: u64| model.iter().all(|held| held[at as usize].is_none());
            let first = (start..=LAST).find(|at| is_free(*at));
            let part = first.map(|first| (first, (first..=LAST).take_while(|at| is_free(*at)).last().unwrap()));
            assert_eq!(locks.free(start, LAST), part, "step {step} from {start}");
            if start > 0 && is_free(start - 1) {
                assert_eq!(locks.next_free(start, LAST), part, "step {step} behind {start}");
            }
            assert!(locks.all().unwrap().0.is_sorted_by_key(|r| r.start));
        }
    }

    /// A search that starts anew behind each lock needs minutes for this.
    #[test]
    fn searches_in_many_locks_take_one_pass() {
        let locks = Locks::default();
        for at in 0..MOST as u64 {
            locks.set(record(1, at, at, if at % 2 == 0 { Kind::Read } else { Kind::Write })).unwrap();
        }
        let begin = std::time::Instant::now();
        for _ in 0..1000 {
            assert_eq!(locks.free(0, MOST as u64 - 1), None);
        }
        assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    }

    #[test]
    fn flock_converts_and_blocks() {
        let locks = Locks::default();
        let flock = |description, kind| locks.flock(Whole { description, kind, pid: 1 });
        flock(1, Kind::Read).unwrap();
        flock(2, Kind::Read).unwrap();
        assert_eq!(flock(1, Kind::Write), Err(Errno::EWOULDBLOCK));
        assert!(locks.funlock(2));
        flock(1, Kind::Write).unwrap();
        assert_eq!(flock(2, Kind::Read), Err(Errno::EWOULDBLOCK));
    }

    #[test]
    fn cycles_are_deadlocks() {
        let waits = Waits::default();
        let p = Owner::Process;
        waits.begin(p(1), p(2)).unwrap();
        waits.begin(p(2), p(3)).unwrap();
        assert_eq!(waits.begin(p(3), p(1)), Err(Errno::EDEADLK));
        waits.end(p(1));
        waits.begin(p(3), p(1)).unwrap();
    }
}

//! System V IPC: shared memory ([`shm`]), semaphores ([`sem`]), message queues ([`msg`]); sysvipc(7). And the
//! message queues of POSIX ([`mqueue`]).
//!
//! System V objects of a kind are in a [`Table`] and have an id: the index in the table in the low bits, and above it a
//! sequence number that is incremented when indices wrap, so that a stale id rarely names a new object. Each kind
//! begins with a [`Perm`], which has its owner and mode.

pub mod mqueue;
pub mod msg;
mod namespace;
mod notify;
pub mod sem;
pub mod shm;

pub use namespace::{Namespace, here};

use crate::cred::userns::Ids;
use crate::task::{self, cred::cap};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::Cell;
use uapi::{Errno, Result};

/// Key of objects that can be found by id only.
const IPC_PRIVATE: i32 = 0;
/// Create the object if it does not exist.
const IPC_CREAT: u32 = 0o1000;
/// Fail if it exists.
const IPC_EXCL: u32 = 0o2000;
/// Fail instead of waiting.
const IPC_NOWAIT: u32 = 0o4000;
/// Commands of the `ctl` calls.
const IPC_RMID: i32 = 0;
const IPC_SET: i32 = 1;
const IPC_STAT: i32 = 2;
const IPC_INFO: i32 = 3;
/// Permission bits of a mode.
const MODE_BITS: u32 = 0o777;
/// Requested permissions, in all three classes.
const READ: u32 = 0o444;
const WRITE: u32 = 0o222;
const EXEC: u32 = 0o111;

/// Bits of the index in an id.
const INDEX_BITS: u32 = 15;
/// Minimum number of indices before one is reused.
const MIN_CYCLE: usize = 64;

/// `struct ipc64_perm` as it is copied to programs.
type RawPerm = [u64; 6];

/// Owner, creator and permissions of an object.
#[derive(Debug)]
pub struct Perm {
    id: i32,
    key: Cell<i32>,
    uid: Cell<u32>,
    gid: Cell<u32>,
    creator_uid: u32,
    creator_gid: u32,
    mode: Cell<u32>,
}

impl Perm {
    /// For a new object of the current thread.
    fn new(id: i32, key: i32, flags: u32) -> Self {
        let cred = task::current().cred();
        Self {
            id,
            key: Cell::new(key),
            uid: Cell::new(cred.euid),
            gid: Cell::new(cred.egid),
            creator_uid: cred.euid,
            creator_gid: cred.egid,
            mode: Cell::new(flags & MODE_BITS),
        }
    }

    /// Checks the current thread's permission for `wanted` (three equal groups of bits). EACCES.
    fn check(&self, wanted: u32) -> Result<()> {
        let cred = task::current().cred();
        let wanted = wanted >> 6 | wanted >> 3 | wanted;
        let granted = match () {
            () if cred.euid == self.creator_uid || cred.euid == self.uid.get() => self.mode.get() >> 6,
            () if cred.in_group(self.creator_gid) || cred.in_group(self.gid.get()) => self.mode.get() >> 3,
            () => self.mode.get(),
        };
        if wanted & !granted & 7 != 0 && !cred.capable_in(namespace::here().user_ns(), cap::IPC_OWNER) {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// Whether the current thread's user is owner or creator.
    fn is_own(&self) -> bool {
        let euid = task::current().cred().euid;
        euid == self.uid.get() || euid == self.creator_uid
    }

    /// Whether the current thread may change or remove it. EPERM.
    fn check_owner(&self) -> Result<()> {
        let may = || task::current().cred().capable_in(namespace::here().user_ns(), cap::SYS_ADMIN);
        if self.is_own() || may() { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// `IPC_SET`: owner and permissions as given. EINVAL.
    fn set(&self, raw: RawPerm) -> Result<()> {
        let (uid, gid, mode) = ((raw[0] >> 32) as u32, raw[1] as u32, (raw[2] >> 32) as u32);
        let user_ns = task::with_current(|me| me.cred().user_ns.clone());
        let uid = user_ns.outward(Ids::Users, uid).ok_or(Errno::EINVAL)?;
        let gid = user_ns.outward(Ids::Groups, gid).ok_or(Errno::EINVAL)?;
        self.uid.set(uid);
        self.gid.set(gid);
        self.mode.set(self.mode.get() & !MODE_BITS | mode & MODE_BITS);
        Ok(())
    }

    fn raw(&self) -> RawPerm {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let user_ns = task::with_current(|me| me.cred().user_ns.clone());
        let (user, group) = (|id| user_ns.shown_uid(id), |id| user_ns.shown_gid(id));
        [
            pair(self.key.get() as u32, user(self.uid.get())),
            pair(group(self.gid.get()), user(self.creator_uid)),
            pair(group(self.creator_gid), self.mode.get()),
            (self.id >> INDEX_BITS) as u64,
            0,
            0,
        ]
    }
}

/// Index part of an id.
fn index_of(id: i32) -> usize {
    (id & ((1 << INDEX_BITS) - 1)) as usize
}

/// A kind of object.
trait Object {
    fn perm(&self) -> &Perm;
}

/// All objects of a kind in a namespace, by index.
struct Table<T> {
    items: BTreeMap<usize, Rc<T>>,
    /// The last allocated index, and the number of wraps.
    last: Option<usize>,
    round: i32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    const fn new() -> Self {
        Self { items: BTreeMap::new(), last: None, round: 0 }
    }
}

impl<T: Object> Table<T> {
    /// The object of an id. EINVAL.
    fn get(&self, id: i32) -> Result<Rc<T>> {
        let found = self.at(id)?;
        if found.perm().id == id { Ok(found) } else { Err(Errno::EINVAL) }
    }

    /// The object at the index of any id, as in Linux (`*_STAT`). EINVAL.
    fn at(&self, id: i32) -> Result<Rc<T>> {
        self.items.get(&index_of(id)).cloned().ok_or(Errno::EINVAL)
    }

    fn by_key(&self, key: i32) -> Option<Rc<T>> {
        self.items.values().find(|item| item.perm().key.get() == key).cloned()
    }

    /// Adds the object that `make` returns for its id. ENOSPC if there are `limit` objects.
    fn insert(&mut self, limit: usize, make: impl FnOnce(i32) -> Result<Rc<T>>) -> Result<i32> {
        let count = self.items.len();
        if count >= limit {
            return Err(Errno::ENOSPC);
        }
        let cycle = (count * 3 / 2).max(MIN_CYCLE).max(count + 1).min(1 << INDEX_BITS);
        let from = self.last.map_or(0, |last| last + 1);
        let free = |index: &usize| !self.items.contains_key(index);
        let index = (from..cycle).find(free).or_else(|| (0..cycle).find(free)).ok_or(Errno::ENOSPC)?;
        let mut round = self.round;
        if self.last.is_some_and(|last| index <= last) {
            round = (round + 1) & 0xffff;
        }
        let id = round << INDEX_BITS | index as i32;
        self.items.insert(index, make(id)?);
        (self.last, self.round) = (Some(index), round);
        Ok(id)
    }

    /// Removes an object, if it is still in the table.
    fn remove(&mut self, perm: &Perm) -> Option<Rc<T>> {
        let index = index_of(perm.id);
        if self.items.get(&index)?.perm().id == perm.id { self.items.remove(&index) } else { None }
    }

    /// The highest used index, or 0: the return value of the `INFO` commands.
    fn highest(&self) -> usize {
        self.items.last_key_value().map_or(0, |(index, _)| *index)
    }
}

/// Result of looking up a key.
enum Got<T> {
    /// An object; the caller checks the size, then the permissions.
    Existing(Rc<T>),
    /// No object; the caller must create it.
    New,
}

/// Looks a key up for a `get` call. ENOENT, EEXIST.
fn find<T: Object>(table: &Table<T>, key: i32, flags: u32) -> Result<Got<T>> {
    if key == IPC_PRIVATE {
        return Ok(Got::New);
    }
    match table.by_key(key) {
        None if flags & IPC_CREAT == 0 => Err(Errno::ENOENT),
        None => Ok(Got::New),
        Some(_) if flags & IPC_CREAT != 0 && flags & IPC_EXCL != 0 => Err(Errno::EEXIST),
        Some(found) => Ok(Got::Existing(found)),
    }
}

/// Wall-clock time in seconds.
fn now() -> i64 {
    (hal::clock::realtime_ns() / crate::time::SECOND) as i64
}

/// Process id of the caller, recorded as an object's last user.
fn caller() -> i32 {
    task::try_current().map_or(0, |task| task.pid())
}

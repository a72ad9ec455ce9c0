//! Locks of files for programs: flock(2), record locks of fcntl(2), seals; and a lock for keel's own
//! use that may be held while program memory is copied.

use super::caller::caller;
use super::{FdTable, File, anon};
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;
pub use list::{all, held_by};
use mm::user;
use sched::wait::{Interrupt, WaitQueue, wait_until};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::Attachments;
use vfs::locks::{Kind, Locks, Owner, Record, Waits, Whole, range};
use vfs::node::{F_SEAL_SEAL, F_SEAL_WRITE, Node};

mod list;
mod outside;

/// A lock that may be held across copies to and from program memory (which may block). Taking a
/// free one costs a load and a store.
#[derive(Debug, Default)]
pub struct SleepLock {
    held: Cell<bool>,
    /// There was a waiter at the last check.
    wanted: Cell<bool>,
    waiters: Rc<WaitQueue>,
}

/// Holds a [`SleepLock`].
#[derive(Debug)]
pub struct SleepGuard<'a>(&'a SleepLock);

impl SleepLock {
    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> SleepGuard<'_> {
        if self.held.replace(true) {
            self.wait();
        }
        SleepGuard(self)
    }

    /// Whether somebody holds it.
    pub fn is_held(&self) -> bool {
        self.held.get()
    }

    #[cold]
    fn wait(&self) {
        let taken = || {
            self.wanted.set(true);
            (!self.held.replace(true)).then_some(())
        };
        // Holders wait for memory only, so this wait is short and needs no interruption; one that
        // can't be interrupted has no way to fail.
        while wait_until(core::slice::from_ref(&self.waiters), None, Interrupt::Never, taken).is_err() {}
    }
}

impl Drop for SleepGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.set(false);
        if self.0.wanted.replace(false) {
            self.0.waiters.wake_all();
        }
    }
}

/// The locks of a file; an attachment of its inode.
#[derive(Default)]
struct FileLocks {
    /// Device and number of the file.
    file: (u64, u64),
    locks: Locks,
    changed: Rc<WaitQueue>,
    /// Those that the host holds, too.
    outside: outside::State,
}

/// Processes that wait for record locks.
static WAITS: Global<Waits> = Global::new(Waits::new());

fn of(file: &File) -> Result<Rc<FileLocks>> {
    if let Some(found) = existing(file) {
        return Ok(found);
    }
    let attr = file.ops.attr()?;
    if let Some(found) = existing(file) {
        return Ok(found);
    }
    let make = || FileLocks { file: (attr.dev, attr.ino), ..FileLocks::default() };
    let new = with_attachments(file, |at| at.get_or_insert(make)).ok_or(Errno::ENOLCK)?;
    list::enter(&new);
    Ok(new)
}

fn existing(file: &File) -> Option<Rc<FileLocks>> {
    with_attachments(file, Attachments::get).flatten()
}

/// What hangs on a file's inode, also where that is in no tree.
fn with_attachments<T>(file: &File, f: impl FnOnce(&Attachments) -> T) -> Option<T> {
    if let Some(attachments) = file.ops.host_attachments() {
        return Some(f(&attachments));
    }
    if let Some(inode) = file.ops.inode() {
        return inode.attachments().map(f);
    }
    match file.ops.nameless() {
        Some(inode) => Some(f(&inode.attachments)),
        None => Some(f(&*anon::shared_attachments(&file.ops.attr().ok()?)?)),
    }
}

/// Names a description while it lives.
fn description(file: &File) -> u64 {
    core::ptr::from_ref(file).addr() as u64
}

/// Names a process while it lives: its threads share the table.
fn process(table: &FdTable) -> Owner {
    Owner::Process(core::ptr::from_ref(table).addr() as u64)
}

/// A process closed a descriptor: all its record locks on that file end, fcntl(2).
pub fn descriptor_closed(table: &FdTable, file: &File) {
    if table.took_locks()
        && let Some(of) = existing(file)
        && of.clear_owner(process(table))
    {
        of.changed.wake_all();
    }
}

/// A description ends: its own locks do too.
pub fn description_released(file: &File) {
    if file.took_locks.get()
        && let Some(of) = existing(file)
    {
        let records = of.clear_owner(Owner::Description(description(file)));
        let whole = of.locks.funlock(description(file));
        if whole {
            of.ended(None);
        }
        if whole || records {
            of.changed.wake_all();
        }
    }
}

impl FileLocks {
    /// Removes all record locks of an owner, of which nobody hears any more. Never waits.
    fn clear_owner(&self, owner: Owner) -> bool {
        if !self.may_be_held_outside() {
            return self.locks.clear_owner(owner);
        }
        let extent = self.locks.extent(owner);
        let changed = self.locks.clear_owner(owner);
        if extent.is_some() {
            self.ended(extent);
        }
        changed
    }
}

/// Flag of flock(2): do not wait.
pub const LOCK_NB: u32 = 4;

/// flock(2).
pub fn flock(file: &Rc<File>, operation: u32) -> Result<()> {
    let kind = match operation & !LOCK_NB {
        1 => Some(Kind::Read),
        2 => Some(Kind::Write),
        8 => None,
        _ => return Err(Errno::EINVAL),
    };
    let of = of(file)?;
    let me = description(file);
    let Some(kind) = kind else {
        if of.funlock_outside(me)? {
            of.changed.wake_all();
        }
        return Ok(());
    };
    of.locks.reserve()?;
    file.took_locks.set(true);
    let wanted = Whole { description: me, kind, pid: caller().pid() };
    if let Some(node) = outside::node_of(file) {
        return of.flock_outside(file, &node, wanted, operation & LOCK_NB == 0);
    }
    let set = || of.locks.flock(wanted);
    let result = match set() {
        Err(Errno::EWOULDBLOCK) if operation & LOCK_NB == 0 => super::wait_on(&of.changed, || set().ok()),
        result => result,
    };
    // A conversion may have given up the lock held before, even if it failed.
    of.changed.wake_all();
    result
}

/// `F_GETLK`, `F_SETLK`, `F_SETLKW` and their `F_OFD_` variants.
pub fn fcntl(table: &FdTable, fd: i32, file: &Rc<File>, command: u32, address: usize) -> Result<usize> {
    let mut request: g::flock = user::read(address)?;
    let by_description = matches!(command, g::F_OFD_GETLK | g::F_OFD_SETLK | g::F_OFD_SETLKW);
    let owner = if by_description { Owner::Description(description(file)) } else { process(table) };
    let base = match u32::from(request.l_whence as u16) {
        g::SEEK_SET => 0,
        g::SEEK_CUR => file.ops.seek(file, 0, g::SEEK_CUR).unwrap_or(file.pos.get()),
        g::SEEK_END => file.ops.attr()?.size,
        _ => return Err(Errno::EINVAL),
    };
    let (start, end) = range(base, request.l_start, request.l_len)?;
    let kind = match u32::from(request.l_type as u16) {
        g::F_RDLCK => Some(Kind::Read),
        g::F_WRLCK => Some(Kind::Write),
        g::F_UNLCK => None,
        _ => return Err(Errno::EINVAL),
    };
    let asks = matches!(command, g::F_GETLK | g::F_OFD_GETLK);
    let allowed = match kind {
        Some(Kind::Read) => asks || file.readable(),
        Some(Kind::Write) => asks || file.writable(),
        None => true,
    };
    if !allowed {
        return Err(Errno::EBADF);
    }
    if by_description && request.l_pid != 0 {
        return Err(Errno::EINVAL);
    }
    let of = of(file)?;
    let pid = if by_description { -1 } else { caller().pid() };
    let record = kind.map(|kind| Record { start, end, kind, owner, pid });

    if asks {
        let found = match record {
            Some(record) => of.locks.conflict(&record),
            // Locks of the description itself.
            None if by_description => of.locks.held(owner, start, end),
            None => return Err(Errno::EINVAL),
        };
        let outside = match (&found, &record) {
            (None, Some(record)) => outside::conflict(&of, file, record)?,
            _ => None,
        };
        match (found, outside) {
            (Some(other), _) => describe(&mut request, other.kind, (other.start, other.end), caller().shown(other.pid)),
            // As in a process id namespace without the holder.
            (None, Some(other)) => {
                let pid = if other.by_description { -1 } else { 0 };
                describe(&mut request, other.kind, (other.start, other.end), pid);
            }
            (None, None) => request.l_type = g::F_UNLCK as i16,
        }
        user::write(address, &request)?;
        return Ok(0);
    }

    let Some(record) = record else {
        let cleared = of.clear_outside(owner, start, end);
        // Also after an error: the pod's own locks may be gone.
        if cleared != Ok(false) {
            of.changed.wake_all();
        }
        return cleared.map(|_| 0);
    };
    of.locks.reserve()?;
    if by_description {
        file.took_locks.set(true);
    } else {
        table.set_took_locks();
    }
    let waits = matches!(command, g::F_SETLKW | g::F_OFD_SETLKW);
    let has_slept = match outside::node_of(file) {
        Some(node) => {
            of.set_outside(file, &node, record, waits)?;
            true
        }
        None => match of.locks.set(record) {
            Ok(()) => false,
            Err(_) if !waits => return Err(Errno::EAGAIN),
            Err(blocker) => {
                wait_for(&of, record, blocker, || of.locks.set(record))?;
                true
            }
        },
    };
    // Taking a weaker lock instead of a stronger one lets others in.
    of.changed.wake_all();
    // Another thread closed the descriptor meanwhile, which would have ended the lock.
    if has_slept && !by_description && !table.get_raw(fd).is_ok_and(|now| Rc::ptr_eq(&now, file)) {
        of.clear_outside(owner, start, end)?;
        of.changed.wake_all();
        return Err(Errno::EBADF);
    }
    Ok(0)
}

/// Describes the lock that is in the way.
fn describe(request: &mut g::flock, kind: Kind, (start, end): (u64, u64), pid: i32) {
    request.l_type = if kind == Kind::Read { g::F_RDLCK } else { g::F_WRLCK } as i16;
    request.l_whence = g::SEEK_SET as i16;
    request.l_start = start as i64;
    request.l_len = if end == u64::MAX { 0 } else { (end - start + 1) as i64 };
    request.l_pid = pid;
}

/// Waits until `attempt` no longer returns a lock of the pod that is in the way of a record lock, as `blocker` was. EDEADLK,
/// ERESTARTSYS.
fn wait_for(
    of: &FileLocks,
    record: Record,
    blocker: Record,
    attempt: impl Fn() -> core::result::Result<(), Record>,
) -> Result<()> {
    let mut holder = blocker.owner;
    WAITS.begin(record.owner, holder)?;
    let attempt = || match attempt() {
        Ok(()) => Some(Ok(())),
        Err(other) if other.owner == holder => None,
        Err(other) => {
            // Another owner conflicts now: the wait may complete a cycle (EDEADLK).
            holder = other.owner;
            WAITS.end(record.owner);
            WAITS.begin(record.owner, holder).err().map(Err)
        }
    };
    let result = super::wait_on(&of.changed, attempt);
    WAITS.end(record.owner);
    result?
}

/// `F_ADD_SEALS`, `F_GET_SEALS`: of files made by memfd_create(2). EINVAL for others.
/// EBUSY: a writable mapping exists.
pub fn seals(file: &File, command: u32, arg: usize) -> Result<usize> {
    if command == g::F_ADD_SEALS && !file.writable() {
        return Err(Errno::EPERM);
    }
    let inode = file.ops.inode().ok_or(Errno::EINVAL)?;
    let node = inode.as_any().downcast_ref::<Node>().ok_or(Errno::EINVAL)?;
    let present = node.seals().ok_or(Errno::EINVAL)?;
    if command == g::F_GET_SEALS {
        return Ok(present as usize);
    }
    let seals_writes = arg as u32 & F_SEAL_WRITE != 0 && present & F_SEAL_SEAL == 0;
    if seals_writes && mm::reverse::is_mapped_writable(&inode) {
        return Err(Errno::EBUSY);
    }
    node.add_seals(arg as u32).map(|()| 0)
}

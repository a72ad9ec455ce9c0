//! The descriptors of a process.

mod lending;

use super::File;
use super::caller::caller;
use super::spare::Lent;
use super::unlocked::{Core, Cores};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use hal::sync::several;
use keel_core::fdset::FdSet;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// Descriptors of a process, shared by its threads.
#[derive(Debug, Default)]
pub struct FdTable {
    inner: RefCell<Inner>,
    /// State of the files for calls without the big lock: updated with the slots.
    unlocked: Arc<Cores>,
    /// Descriptions that calls without the big lock opened, once such a call is possible.
    lent: OnceCell<Arc<Lent>>,
    /// No description is lent: the process may hold record locks, or has ended.
    lends_none: Cell<bool>,
    /// Several threads may use the table.
    is_shared: Cell<bool>,
    /// The process may hold record locks.
    took_locks: Cell<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    slots: Vec<Option<Rc<File>>>,
    used: FdSet,
    close_on_exec: FdSet,
}

impl Inner {
    /// Takes a description out of its slot.
    fn take(&mut self, fd: usize, unlocked: &Cores) -> Option<Rc<File>> {
        let file = self.slots.get_mut(fd)?.take()?;
        if file.unlocked.get().is_some() {
            unlocked.set(fd, None);
        }
        self.used.remove(fd);
        self.close_on_exec.remove(fd);
        Some(file)
    }

    /// The lowest free descriptor that is not below `from`.
    #[inline(always)]
    fn lowest(&self, from: usize) -> usize {
        let free = !self.used.first_word() & u64::MAX.checked_shl(from as u32).unwrap_or(0);
        if free != 0 { free.trailing_zeros() as usize } else { self.used.first_absent(from.max(64)) }
    }

    /// Makes room for a descriptor. ENOMEM.
    fn reserve(&mut self, fd: usize) -> Result<()> {
        if fd >= self.slots.len() {
            self.slots.try_reserve(fd + 1 - self.slots.len()).map_err(|_| Errno::ENOMEM)?;
            if !self.used.try_reserve(fd) || !self.close_on_exec.try_reserve(fd) {
                return Err(Errno::ENOMEM);
            }
            self.slots.resize(fd + 1, None);
        }
        Ok(())
    }

    /// Fills a reserved slot; returns its previous content.
    fn put(&mut self, fd: usize, file: Rc<File>, close_on_exec: bool, unlocked: &Cores) -> Option<Rc<File>> {
        self.used.insert(fd);
        self.close_on_exec.set(fd, close_on_exec);
        // While one virtual CPU is awake only labels are needed; the values are set at their first use.
        let core = file.unlocked.get().filter(|core| several() || core.label() != 0).cloned();
        let is_there = core.is_some();
        let old = self.slots.get_mut(fd)?.replace(file);
        if is_there || old.as_ref().is_some_and(|old| old.unlocked.get().is_some()) {
            unlocked.set(fd, core.map(labelled));
        }
        old
    }
}

fn labelled(core: Arc<Core>) -> (Arc<Core>, u32) {
    let label = core.label();
    (core, label)
}

/// Index of a descriptor; negative ones become too large for any table.
#[inline]
fn index(fd: i32) -> usize {
    fd as u32 as usize
}

impl FdTable {
    /// No descriptors.
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// The process may hold record locks from now on.
    pub(super) fn set_took_locks(&self) {
        self.took_locks.set(true);
        self.lend_none();
    }

    /// The process may hold record locks.
    pub(super) fn took_locks(&self) -> bool {
        self.took_locks.get()
    }

    /// The description behind a descriptor, for calls that read, write or change the file. EBADF, also if it was opened
    /// with `O_PATH`.
    #[inline(always)]
    pub fn get(&self, fd: i32) -> Result<Rc<File>> {
        match self.inner.borrow().slots.get(index(fd)) {
            Some(Some(file)) if !file.is_path() => return Ok(file.clone()),
            Some(None) => {}
            _ => return Err(Errno::EBADF),
        }
        self.get_lent(fd)
    }

    /// Publishes the state of a file for calls without the big lock: it was installed while one virtual CPU was awake.
    pub fn publish(&self, fd: i32) {
        let inner = self.inner.borrow();
        let core = inner.slots.get(index(fd)).and_then(|slot| slot.as_ref()?.unlocked.get());
        if let Some(core) = core
            && !self.unlocked.has(index(fd))
        {
            self.unlocked.set(index(fd), Some(labelled(core.clone())));
        }
    }

    /// State of the files for calls without the big lock.
    pub fn unlocked(&self) -> Arc<Cores> {
        self.unlocked.clone()
    }

    /// The description behind a descriptor, `O_PATH` included: for fstat, fchdir, `*at` directories,
    /// dup. EBADF.
    pub fn get_raw(&self, fd: i32) -> Result<Rc<File>> {
        if let Some(Some(file)) = self.inner.borrow().slots.get(index(fd)) {
            return Ok(file.clone());
        }
        self.get_lent(fd)
    }

    /// Fails with EMFILE if [`FdTable::insert`] would: call it before an open that creates a file.
    pub fn check_room(&self) -> Result<()> {
        if self.lowest(&self.inner.borrow()) < limit() { Ok(()) } else { Err(Errno::EMFILE) }
    }

    /// Puts a description at the lowest free descriptor. EMFILE.
    pub fn insert(&self, file: Rc<File>, close_on_exec: bool) -> Result<i32> {
        self.insert_from(0, file, close_on_exec)
    }

    /// Puts a description at the lowest free descriptor that is not below `from`. EMFILE.
    pub fn insert_from(&self, from: usize, file: Rc<File>, close_on_exec: bool) -> Result<i32> {
        let mut inner = self.inner.borrow_mut();
        let Some(fd) = self.choose(&inner, from, limit()) else {
            drop(inner);
            return Err(Errno::EMFILE);
        };
        let put = inner.reserve(fd).map(|()| inner.put(fd, file.clone(), close_on_exec, &self.unlocked));
        if put.is_err() {
            self.freed(fd);
        }
        // The last reference must be dropped when nothing is borrowed.
        drop(inner);
        put.map(|_| fd as i32)
    }

    /// Installs a description at `fd` and closes the previous one. EBADF beyond the limit.
    pub fn replace(&self, fd: i32, file: Rc<File>, close_on_exec: bool) -> Result<()> {
        if index(fd) >= limit() {
            return Err(Errno::EBADF);
        }
        let mut inner = self.inner.borrow_mut();
        let old = inner.reserve(index(fd)).map(|()| {
            self.seize(&mut inner, index(fd));
            inner.put(index(fd), file.clone(), close_on_exec, &self.unlocked)
        });
        drop(inner);
        if let Some(old) = old? {
            self.closed(old);
        }
        Ok(())
    }

    /// Closes a descriptor, even on errors. EBADF, or the error of an earlier accepted write.
    pub fn close(&self, fd: i32) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        let file = match inner.take(index(fd), &self.unlocked) {
            Some(file) => file,
            None => {
                drop(inner);
                self.get_lent(fd)?;
                inner = self.inner.borrow_mut();
                inner.take(index(fd), &self.unlocked).ok_or(Errno::EBADF)?
            }
        };
        self.freed(index(fd));
        drop(inner);
        let stored = if file.is_path() { Ok(()) } else { file.ops.stored(&file) };
        self.closed(file);
        stored
    }

    /// The close-on-exec flag. EBADF.
    pub fn close_on_exec_flag(&self, fd: i32) -> Result<bool> {
        self.take_lent(fd);
        let inner = self.inner.borrow();
        if !inner.used.contains(index(fd)) {
            return Err(Errno::EBADF);
        }
        Ok(inner.close_on_exec.contains(index(fd)))
    }

    /// Sets the close-on-exec flag. EBADF.
    pub fn set_close_on_exec(&self, fd: i32, on: bool) -> Result<()> {
        self.take_lent(fd);
        let mut inner = self.inner.borrow_mut();
        if !inner.used.contains(index(fd)) {
            return Err(Errno::EBADF);
        }
        inner.close_on_exec.set(index(fd), on);
        Ok(())
    }

    /// Open descriptors in `[first, last]`, ascending; tolerates concurrent changes.
    pub fn range(&self, first: usize, last: usize) -> impl Iterator<Item = i32> + '_ {
        let mut from = first;
        core::iter::from_fn(move || {
            let fd = self.all().used.iter_from(from).next().filter(|&fd| fd <= last)?;
            from = fd + 1;
            Some(fd as i32)
        })
    }

    /// All open descriptors, ascending (`/proc/PID/fd`).
    pub fn numbers(&self) -> impl Iterator<Item = i32> + '_ {
        self.range(0, usize::MAX)
    }

    /// Number of open descriptors.
    pub fn count(&self) -> usize {
        self.all().used.len()
    }

    /// Size that Linux's table would have: select(2) ignores descriptors beyond it.
    pub fn slots(&self) -> usize {
        match self.inner.borrow().slots.len() {
            0..=64 => 64,
            used => ((used - 1) / 128 + 1).next_power_of_two() * 128,
        }
    }

    /// A copy for fork(2), no larger than its last open descriptor needs. ENOMEM.
    pub fn fork(&self) -> Result<Rc<Self>> {
        let inner = self.at_once();
        let len = inner.slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let mut slots = Vec::new();
        slots.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        slots.extend_from_slice(inner.slots.get(..len).unwrap_or_default());
        let sets = inner.used.try_clone().zip(inner.close_on_exec.try_clone());
        let (used, close_on_exec) = sets.ok_or(Errno::ENOMEM)?;
        let inner = RefCell::new(Inner { slots, used, close_on_exec });
        let (lent, lends_none, is_shared, took_locks) = Default::default();
        Ok(Rc::new(Self { inner, unlocked: Arc::new(self.unlocked.copy()), lent, lends_none, is_shared, took_locks }))
    }

    /// Closes descriptors with FD_CLOEXEC, for execve(2).
    pub fn close_on_exec(&self) {
        loop {
            self.take_all_lent();
            let mut inner = self.inner.borrow_mut();
            let Some(fd) = inner.close_on_exec.iter_from(0).next() else { return };
            let file = inner.take(fd, &self.unlocked);
            inner.close_on_exec.remove(fd);
            self.freed(fd);
            drop(inner);
            if let Some(file) = file {
                self.closed(file);
            }
        }
    }

    /// Closes all descriptors (exit of the last thread that uses the table; dropping it does so too).
    pub fn close_all(&self) {
        self.lend_none();
        let slots = core::mem::take(&mut *self.inner.borrow_mut()).slots;
        self.unlocked.clear();
        for file in slots.into_iter().flatten() {
            self.closed(file);
        }
    }

    /// A descriptor was closed: releases record locks of the process, and the description if this was its last
    /// reference.
    fn closed(&self, file: Rc<File>) {
        if !file.is_path() {
            super::lock::descriptor_closed(self, &file);
            super::dnotify::descriptor_closed(self, &file);
            file.ops.flush(&file);
        }
    }
}

impl Drop for FdTable {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// The lowest RLIMIT_NOFILE that was set in any process.
static LOWEST_LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// RLIMIT_NOFILE of some process was set.
pub fn limit_was_set(limit: u64) {
    LOWEST_LIMIT.fetch_min(limit, Relaxed);
}

/// Whether the limit of each process is at least this.
pub fn all_may_have(descriptors: usize) -> bool {
    LOWEST_LIMIT.load(Relaxed) >= descriptors as u64
}

/// RLIMIT_NOFILE of the current process; unlimited while the first process is created.
pub fn limit() -> usize {
    let limit = caller().limit(g::RLIMIT_NOFILE);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

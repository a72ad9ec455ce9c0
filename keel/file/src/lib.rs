//! Open files: descriptors, descriptions, and everything that is read and written through them.
//!
//! [`table::FdTable`] maps descriptors to [`File`]s (open file descriptions), which carry flags and
//! an offset and point to a [`FileOps`]: a regular file, a pipe ([`pipe`]), an event counter
//! ([`eventfd`]), a standard stream ([`stream`]), a socket ([`socket`]) … A description lives as
//! long as a descriptor or a running call holds its `Rc`; then [`FileOps::release`] runs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod abilities;
pub mod anon;
pub mod caller;
pub mod cred;
mod deferred_close;
pub mod dnotify;
pub mod epoll;
pub mod eventfd;
pub mod inotify;
pub mod landlock;
pub mod lock;
pub mod owner;
pub mod pipe;
pub mod place;
pub mod position;
pub mod siginfo;
pub mod sigio;

pub mod spare;
pub mod table;
pub mod timerfd;
pub mod unlocked;

pub use abilities::Abilities;
pub use table::FdTable;

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, OnceCell};
use sched::wait::{Interrupt, WaitQueue, wait_until};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::memory::Text;
use vfs::{Attr, Change, Dst, Inode, Src, notify};

/// An open file description, open(2).
pub struct File {
    /// Access mode and status flags (`O_RDWR | O_APPEND …`), changed by fcntl(2).
    pub flags: Cell<u32>,
    /// Offset. Of a regular file: valid while its lock is held, else see [`File::position`].
    pub pos: Cell<u64>,
    /// Held by the call that uses the position of a regular file.
    pub pos_lock: position::PositionLock,
    /// What it is.
    pub ops: Rc<dyn FileOps>,
    /// What that has operations for.
    pub abilities: Abilities,
    /// Name in the tree, if it was opened by one.
    pub path: Option<vfs::PathRef>,
    /// Who gets SIGIO, `F_SETOWN`.
    pub owner: owner::OwnerCell,
    /// Locks may be held through this description.
    took_locks: Cell<bool>,
    /// What calls without the big lock know of it, if it has a way without.
    pub unlocked: OnceCell<Arc<unlocked::Core>>,
    /// Calls that used it before it has that, while several virtual CPUs are awake.
    pub uses: Cell<u8>,
    /// The call that opened it made the file.
    pub created: Cell<bool>,
    /// Rights ([`vfs::landlock::access`]) that the domain of who opened it denied: to truncate, and ioctl(2) of a device.
    pub denied: Cell<u16>,
}

/// Counts a read for `/proc/PID/io`. What the quick way serves (the null device) is not counted.
#[inline(always)]
fn count_read(bytes: usize) {
    sched::with_current(|thread| thread.io.count_read(bytes));
}

/// Counts a write for `/proc/PID/io`.
#[inline(always)]
fn count_write(bytes: usize) {
    sched::with_current(|thread| thread.io.count_write(bytes));
}

impl File {
    /// A description at offset 0. Flags that only matter while opening (`O_CREAT`, `O_EXCL`,
    /// `O_NOCTTY`, `O_TRUNC`, `O_CLOEXEC`) are dropped.
    pub fn new(ops: Rc<dyn FileOps>, flags: u32, path: Option<vfs::PathRef>) -> Rc<Self> {
        let transient = g::O_CREAT | g::O_EXCL | g::O_NOCTTY | g::O_TRUNC | g::O_CLOEXEC;
        Rc::new(Self {
            flags: Cell::new(flags & !transient),
            pos: Cell::new(0),
            pos_lock: position::PositionLock::default(),
            abilities: ops.abilities(),
            ops,
            path,
            owner: owner::OwnerCell::default(),
            took_locks: Cell::new(false),
            unlocked: OnceCell::new(),
            uses: Cell::new(0),
            created: Cell::new(false),
            denied: Cell::new(0),
        })
    }

    /// EACCES if who opened it had no right ([`vfs::landlock::access`]) to do this with it.
    pub fn check_right(&self, right: u64) -> Result<()> {
        if u64::from(self.denied.get()) & right == 0 { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Opened for reading.
    #[inline]
    pub fn readable(&self) -> bool {
        // The access mode 3 allows neither (ioctl only).
        self.flags.get() & (g::O_WRONLY | g::O_PATH) == 0
    }

    /// Opened for writing.
    #[inline]
    pub fn writable(&self) -> bool {
        let flags = self.flags.get();
        matches!(flags & g::O_ACCMODE, g::O_WRONLY | g::O_RDWR) && flags & g::O_PATH == 0
    }

    /// Whether calls have an operation here, whatever it was opened for.
    #[inline(always)]
    pub fn can(&self, ability: Abilities) -> bool {
        self.abilities.has(ability)
    }

    /// Opened for writing, or for reading.
    #[inline(always)]
    pub fn allows(&self, write: bool) -> bool {
        if write { self.writable() } else { self.readable() }
    }

    /// `O_NONBLOCK` is set.
    #[inline]
    pub fn nonblocking(&self) -> bool {
        self.flags.get() & g::O_NONBLOCK != 0
    }

    /// `O_PATH`: a place in the tree, not open for anything.
    #[inline]
    pub fn is_path(&self) -> bool {
        self.flags.get() & g::O_PATH != 0
    }

    /// read(2) at its own position.
    #[inline]
    pub fn read(&self, dst: &mut dyn Dst) -> Result<usize> {
        let done = self.ops.read(self, dst)?;
        count_read(done);
        self.happened(done, g::IN_ACCESS);
        Ok(done)
    }

    /// write(2) at its own position.
    #[inline]
    pub fn write(&self, src: &mut dyn Src) -> Result<usize> {
        let done = self.ops.write(self, src)?;
        count_write(done);
        self.happened(done, g::IN_MODIFY);
        Ok(done)
    }

    /// pread(2).
    pub fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let done = self.ops.read_at(self, offset, dst)?;
        count_read(done);
        self.happened(done, g::IN_ACCESS);
        Ok(done)
    }

    /// pwrite(2).
    pub fn write_at(&self, offset: u64, src: &mut dyn Src) -> Result<usize> {
        let done = self.ops.write_at(self, offset, src)?;
        count_write(done);
        self.happened(done, g::IN_MODIFY);
        Ok(done)
    }

    /// Queues inotify(7) events, unless no byte was transferred.
    #[inline(always)]
    pub fn happened(&self, bytes: usize, mask: u32) {
        if notify::is_on()
            && bytes > 0
            && let Some(place) = &self.path
        {
            notify::happened(place, mask, true);
        }
    }

    /// The operations as a concrete type.
    pub fn downcast<T: FileOps>(&self) -> Option<&T> {
        self.ops.as_any().downcast_ref()
    }
}

impl File {
    /// The last use is over.
    fn end(&mut self) {
        if !self.is_path() {
            self.ops.release(self);
            let closed =
                if self.flags.get() & g::O_ACCMODE == g::O_RDONLY { g::IN_CLOSE_NOWRITE } else { g::IN_CLOSE_WRITE };
            self.happened(1, closed);
        }
        drop(core::mem::replace(&mut self.ops, deferred_close::gone()));
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.is_path() {
            self.set_gone();
            lock::description_released(self);
        }
        deferred_close::close(self);
    }
}

impl core::fmt::Debug for File {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("File").field("flags", &self.flags).finish_non_exhaustive()
    }
}

/// Operations of an open file. The defaults return Linux's errno for files without the operation.
///
/// No `RefCell` borrow may be held while a method here runs: most of them may block.
pub trait FileOps: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// What calls find operations for; never changes.
    fn abilities(&self) -> Abilities;
    /// Why its owner gets SIGIO when those who wait to read (`reads`) or to write are woken; `None`: no signal.
    fn change(&self, reads: bool) -> Option<sigio::Change> {
        Some(sigio::Change::usual(reads))
    }
    /// read(2) at the file's own position.
    fn read(&self, _file: &File, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// write(2) at the file's own position.
    fn write(&self, _file: &File, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// pread(2).
    fn read_at(&self, _file: &File, _offset: u64, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::ESPIPE)
    }
    /// pwrite(2).
    fn write_at(&self, _file: &File, _offset: u64, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::ESPIPE)
    }
    /// lseek(2).
    fn seek(&self, _file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    /// A call used it, and read bytes from an offset on, while several virtual CPUs are awake: the next ones may have a way
    /// without the big lock.
    fn in_use(&self, _file: &File, _offset: u64, _len: usize) {}
    /// fstat(2).
    fn attr(&self) -> Result<Attr>;
    /// Readiness now, as poll(2) event bits. Regular files are always ready. Must not block.
    fn poll(&self, _file: &File) -> u32 {
        g::POLLIN | g::POLLOUT | g::POLLRDNORM | g::POLLWRNORM
    }
    /// [`FileOps::poll`] answers from memory that [`FileOps::poll_prepare`] must refresh first.
    fn poll_needs_prepare(&self) -> bool {
        false
    }
    /// Updates the readiness for `events`, which [`FileOps::poll`] returns. May block briefly.
    fn poll_prepare(&self, _file: &File, _events: u32, _will_wait: bool) {}
    /// Queues woken when [`FileOps::poll`] may have changed for one of `events` (POLLERR and
    /// POLLHUP are always meant).
    fn poll_queues(&self, _file: &File, _events: u32, _out: &mut Queues) {}
    /// ioctl(2).
    fn ioctl(&self, _file: &File, _command: u32, _arg: usize) -> Result<usize> {
        Err(Errno::ENOTTY)
    }
    /// The inode, for mmap, fstat, getdents, fchmod …
    fn inode(&self) -> Option<Rc<dyn Inode>> {
        None
    }
    /// Attributes and attachments of a file outside the tree.
    fn nameless(&self) -> Option<&anon::Nameless> {
        None
    }
    /// Changes attributes of a file outside the tree (fchmod(2), fchown(2), futimens(2)) as `make` says, which gets those that
    /// it has. EOPNOTSUPP for files that share theirs with others (event counters).
    fn set_attr(&self, make: &dyn Fn(&Attr) -> Result<Change>) -> Result<()> {
        let inode = self.nameless().ok_or(Errno::EOPNOTSUPP)?;
        let old = inode.attr.get();
        inode.attr.set(anon::changed(old, &make(&old)?));
        Ok(())
    }
    /// Where locks hang, of files of the host that lie in no tree, and of those whose inode keeps none.
    fn host_attachments(&self) -> Option<Rc<vfs::Attachments>> {
        None
    }
    /// What `/proc/PID/fd/N` points to for files without a path (`pipe:[7]`).
    fn link_name(&self) -> Vec<u8> {
        b"anon_inode:[unknown]".to_vec()
    }
    /// Opens the same thing once more, for open(2) of `/proc/PID/fd/N`; only asked of files without a
    /// path. ENXIO for those that can't be.
    fn reopen(&self, _file: &File, _flags: u32) -> Result<Rc<File>> {
        Err(Errno::ENXIO)
    }
    /// Appends the lines of `/proc/PID/fdinfo/N` that only this kind of file has.
    fn describe(&self, _file: &File, _out: &mut Text) {}
    /// Waits until the host has what was written: for close(2) and fsync(2). The error of a write that failed after it was
    /// taken.
    fn stored(&self, _file: &File) -> Result<()> {
        Ok(())
    }
    /// A descriptor of this description was closed, or the process that held it ended.
    fn flush(&self, _file: &File) {}
    /// The last descriptor of this description was closed.
    fn release(&self, _file: &File) {}
}

/// Wait queues of one or several files.
pub type Queues = smallvec::SmallVec<[Rc<WaitQueue>; 4]>;

/// Waits on one queue for ever, or until a signal: ERESTARTSYS. Otherwise as [`wait_until`].
pub fn wait_on<T>(queue: &Rc<WaitQueue>, ready: impl FnMut() -> Option<T>) -> Result<T> {
    wait_until(core::slice::from_ref(queue), None, Interrupt::BySignal, ready)
}

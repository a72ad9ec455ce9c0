//! What every file system gives for a file.

use crate::acl::{Acl, Kind};
use crate::host::{End, HostNode};
use crate::shown::Shown;
use crate::{Attr, Dst, FileType, Listing, Name, PathRef, Src};
use abi::request::FsStat;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// A name found in a directory.
pub struct Found {
    /// What it names.
    pub inode: Rc<dyn Inode>,
    /// `CLOCK_MONOTONIC` ns until which the answer holds; `u64::MAX`: until keel changes it.
    pub expires: u64,
}

/// What to create.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// Type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u64,
    /// Target of a symbolic link.
    pub target: &'a [u8],
    /// Permissions that the process that makes it takes away, unless the directory has a default list.
    pub umask: u32,
}

impl NewNode<'_> {
    /// A node of a type without device number or target.
    pub const fn plain(mode: u32, uid: u32, gid: u32) -> Self {
        Self { mode, uid, gid, rdev: 0, target: &[], umask: 0 }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The current time.
    Now,
    /// Seconds and nanoseconds.
    At(i64, u32),
}

/// Attributes to change; the status change time follows by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
}

/// A file of any type in any file system.
///
/// Names are given without slashes, are not empty, not `.` or `..`, and at most 255 bytes long.
/// Permissions were checked by the caller. Any method may wait for the host, so the caller holds no
/// `RefCell` borrow.
pub trait Inode: Any {
    /// A regular file that epoll(7) watches nevertheless: it could tell of changes.
    fn is_polled(&self) -> bool {
        false
    }
    /// Whether mmap(2) of a regular file is possible at all.
    fn can_be_mapped(&self) -> bool {
        true
    }
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Attributes now.
    fn attr(&self) -> Result<Attr>;
    /// Type; never changes.
    fn file_type(&self) -> FileType;
    /// Reads from `offset` until `dst` is full or the file ends; 0 at or beyond the end.
    fn read_at(&self, _offset: u64, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// [`Self::read_at`] of what is in memory already, `RWF_NOWAIT`. EAGAIN if the first byte is not, EOPNOTSUPP for files that do not
    /// tell it.
    fn read_cached(&self, _offset: u64, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Writes at `offset`, growing the file.
    fn write_at(&self, _offset: u64, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Writes at the end, atomically against others: bytes written and the offset after them.
    fn append(&self, _src: &mut dyn Src) -> Result<(usize, u64)> {
        Err(Errno::EINVAL)
    }
    /// The same where the offset may be known later.
    fn append_later(&self, src: &mut dyn Src) -> Result<(usize, End)> {
        self.append(src).map(|(written, end)| (written, End::At(end)))
    }
    /// Waits until the host has what was written. [`Self::failure`] reports what failed.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    /// How many writes failed after they were taken, and how the last one did.
    fn failure(&self) -> (u32, Option<Errno>) {
        (0, None)
    }
    /// Pages for mmap(2), starting at page `first`: at least that one, at most `count`, fewer where
    /// more would cost a trip. `write`: they will be written through a shared mapping (for the
    /// others the caller copies before it writes). ENXIO beyond the end (SIGBUS).
    fn pages(&self, _first: u64, _count: usize, _write: bool) -> Result<Vec<Frame>> {
        Err(Errno::ENODEV)
    }
    /// The same for a mapping that is shared: pages that show what others write to the file.
    fn shared_pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        self.pages(first, count, write)
    }
    /// Whether the content is a host file's that this pod has not changed, and can't change but by a copy of its own.
    fn is_host_content(&self) -> bool {
        false
    }
    /// Copies of the pages `first ..`, at least one and at most `count`: for the caller alone. Only of a file whose content
    /// [is the host's](Self::is_host_content). ENXIO beyond the end.
    fn copies(&self, _first: u64, _count: usize) -> Result<Vec<Frame>> {
        Err(Errno::ENODEV)
    }
    /// Whether fsync(2) works: not of files that are generated.
    fn can_be_stored(&self) -> bool {
        true
    }
    /// Asks the host whether pages that [`Self::pages`] gave are gone: the size of the file if it was cut.
    fn was_cut(&self) -> Option<u64> {
        None
    }
    /// Whether pages for stores have to be asked for one by one, and only when they are stored to: asking takes room on a
    /// disk that may be full.
    fn has_scarce_pages(&self) -> bool {
        false
    }
    /// The host lost pages that [`Self::pages`] gave, of whatever file: gives none of them any more, and with `distrust` asks
    /// the host for each page of files that had some before it gives it.
    fn drop_window(&self, _distrust: bool) {}
    /// Where it is shown to calls without the big lock; `None`: this kind is not.
    fn shown(&self) -> Option<Arc<Shown>> {
        None
    }
    /// It was used, bytes from `offset` on were read: shows its state, with these pages, if that is known without asking
    /// the host.
    fn show(&self, _offset: u64, _len: usize) {}
    /// Its attributes were used: shows them, if they are known without asking the host and nothing is shown yet.
    fn show_attributes(&self) {}
    /// What stands for it in [`crate::ways`]: [`crate::ways::changed`] is called for this address when its names or
    /// permissions change. `None`: they may change without that.
    fn stamp_address(&self) -> Option<usize> {
        None
    }
    /// `CLOCK_MONOTONIC` ns until which the permissions that [`Cred::check`](crate::Cred::check) uses are believed;
    /// `u64::MAX`: until keel changes them.
    fn permissions_expire(&self) -> u64 {
        0
    }
    /// Changes the size.
    fn truncate(&self, _size: u64) -> Result<()> {
        Err(Errno::EINVAL)
    }
    /// Permission bits with type, owner, group.
    fn perm(&self) -> Result<(u32, u32, u32)> {
        self.attr().map(|a| (a.mode, a.uid, a.gid))
    }
    /// Whether the permission bits apply to all users, whatever their capabilities (`/proc/sys`).
    fn binds_everybody(&self) -> bool {
        false
    }
    /// Finds a name of a directory. `ahead` is the rest of the path that is being walked, a hint for
    /// what will be looked up next. ENOENT, ENOTDIR.
    fn lookup(&self, _name: &[u8], _ahead: &[u8]) -> Result<Found> {
        Err(Errno::ENOTDIR)
    }
    /// Whether stores into a shared mapping reach the file.
    fn takes_stores(&self) -> bool {
        true
    }
    /// Whether [`Inode::create`] would learn of a name what [`Inode::lookup`] would have to ask for.
    fn is_unknown(&self, _name: &[u8]) -> bool {
        false
    }
    /// Makes a new file of any type. EEXIST.
    fn create(&self, _name: &[u8], _new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        Err(Errno::EPERM)
    }
    /// Makes a regular file without a name (`O_TMPFILE`).
    fn create_unnamed(&self, _new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Gives a file of the same file system another name. EEXIST, EXDEV, EMLINK.
    fn link(&self, _name: &[u8], _target: &Rc<dyn Inode>) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Removes a name; `target` is what the caller found there. ENOTEMPTY for directories with entries.
    fn unlink(&self, _name: &[u8], _target: &Rc<dyn Inode>) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Moves a name to another directory of the same file system, replacing what is there (types
    /// agree, flags of renameat2(2) checked by the caller). Whether it is known
    /// which files that were: not if they were changed at the same time. EXDEV, ENOTEMPTY.
    fn rename(&self, _old: &[u8], _to: &Rc<dyn Inode>, _new: &[u8], _flags: u32) -> Result<bool> {
        Err(Errno::EPERM)
    }
    /// The same, and leaves a whiteout with these attributes in the place of the old name. EINVAL: there are none in this file
    /// system.
    fn rename_leaving(
        &self,
        _old: &[u8],
        _to: &Rc<dyn Inode>,
        _new: &[u8],
        _flags: u32,
        _whiteout: &NewNode<'_>,
    ) -> Result<bool> {
        Err(Errno::EINVAL)
    }
    /// Target of a symbolic link.
    fn readlink(&self) -> Result<Name> {
        Err(Errno::EINVAL)
    }
    /// Where a magic link (`/proc/PID/fd/N`) leads without a path.
    fn jump(&self) -> Option<Result<PathRef>> {
        None
    }
    /// All entries but `.` and `..`. ENOMEM.
    fn readdir(&self) -> Result<Listing> {
        Err(Errno::ENOTDIR)
    }
    /// Changes attributes.
    fn change(&self, _change: &Change) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Value of an extended attribute. ENODATA.
    fn get_xattr(&self, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Sets an extended attribute; flags of setxattr(2). EEXIST, ENODATA.
    fn set_xattr(&self, _name: &[u8], _value: &[u8], _flags: u32) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Names of extended attributes, each ended by a zero byte.
    fn list_xattrs(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    /// Removes an extended attribute. ENODATA.
    fn remove_xattr(&self, _name: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Capabilities that it gives to who runs it, [`crate::capability`].
    fn capability(&self) -> Option<Vec<u8>> {
        None
    }
    /// Takes those away: its owner or its content changed.
    fn drop_capability(&self) {}
    /// Whether it has access control lists that keel checks.
    fn has_acls(&self) -> bool {
        false
    }
    /// One of its access control lists.
    fn acl(&self, _kind: Kind) -> Result<Option<Rc<Acl>>> {
        Ok(None)
    }
    /// Keeps an access control list, or none, and the permission bits that go with it.
    fn put_acl(&self, _kind: Kind, _acl: Option<Rc<Acl>>, _mode: u32) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Takes the lists that it has of its directory, right after it was made.
    fn adopt_acls(&self, _access: Option<Rc<Acl>>, _default: Option<Rc<Acl>>) -> Result<()> {
        Ok(())
    }
    /// Figures of the file system.
    fn statfs(&self) -> Result<FsStat> {
        Err(Errno::ENOSYS)
    }
    /// Writes what is not yet on disk there.
    fn sync(&self, _data_only: bool) -> Result<()> {
        Ok(())
    }
    /// fallocate(2); offset and length are checked.
    fn fallocate(&self, _mode: u32, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Next data (or hole) at or after `offset`, for `SEEK_DATA` and `SEEK_HOLE`. ENXIO.
    fn seek_data(&self, offset: u64, hole: bool) -> Result<u64> {
        let size = self.attr()?.size;
        match () {
            () if offset >= size => Err(Errno::ENXIO),
            () if hole => Ok(size),
            () => Ok(offset),
        }
    }
    /// Where `SEEK_END` counts from. EINVAL for files whose end is only known by reading.
    fn seek_end(&self) -> Result<u64> {
        self.attr().map(|a| a.size)
    }
    /// Called by open(2) of a regular file or directory. What it gives is used in place of the
    /// inode through that open file: content that is made at open.
    fn open(&self, _write: bool) -> Result<Option<Rc<dyn Inode>>> {
        Ok(None)
    }
    /// After open(2) of a regular file for reading (`reads`) or writing, which is about to be emptied (`cut`): EACCES if the
    /// host does not let the monitor read what will be needed.
    fn check_readable(&self, _reads: bool, _cut: bool) -> Result<()> {
        Ok(())
    }
    /// The file of the host whose locks are held there too, for processes outside of the pod to see.
    fn locked_outside(&self) -> Option<Rc<HostNode>> {
        None
    }
    /// A value that other parts of keel hang on the inode: the pipe of a FIFO, a bound socket, the
    /// patched text pages of an executable. `None` if this kind keeps none.
    fn attachments(&self) -> Option<&Attachments> {
        None
    }
}

/// Values that other parts of keel keep with an inode, one per type.
#[derive(Default)]
pub struct Attachments {
    values: core::cell::RefCell<Vec<Rc<dyn Any>>>,
    /// How long what is written is expected to stay, `F_SET_RW_HINT` of fcntl(2).
    pub write_hint: core::cell::Cell<u8>,
    /// Who writes the file (positive) or executes it (negative), see [`crate::Claim`].
    pub(crate) claims: core::cell::Cell<i32>,
}

impl Attachments {
    /// The value of type `T`, made by `init` at first.
    pub fn get_or_insert<T: Any>(&self, init: impl FnOnce() -> T) -> Rc<T> {
        if let Some(found) = self.get() {
            return found;
        }
        let value = Rc::new(init());
        self.values.borrow_mut().push(value.clone());
        value
    }

    /// The value of type `T`, if there is one.
    pub fn get<T: Any>(&self) -> Option<Rc<T>> {
        self.values.borrow().iter().find_map(|v| v.clone().downcast().ok())
    }
}

impl core::fmt::Debug for Attachments {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Attachments").finish_non_exhaustive()
    }
}

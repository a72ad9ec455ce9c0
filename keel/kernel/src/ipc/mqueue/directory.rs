//! The directory of the queues of an IPC namespace, which is a file system of its own.

use super::limits::Limits;
use super::queue::Queue;
use crate::file::anon;
use crate::task::{self, cred::cap};
use abi::request::FsStat;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::any::Any;
use core::cell::{Cell, RefCell};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::attr::{self, now};
use vfs::{Attr, Change, FileType, Found, Inode, Listing, Name, NewNode, SetTime};

/// `f_type` of mqueue.
const MAGIC: u64 = 0x1980_0202;
/// What the directory shows as the size of a name, and of itself.
const NAME_SIZE: u64 = 20;

/// See the module.
pub struct Directory {
    limits: Rc<Limits>,
    attr: Cell<Attr>,
    names: RefCell<BTreeMap<Name, Rc<Queue>>>,
    /// The namespace is gone: no more queues are made.
    is_over: Cell<bool>,
}

/// Figures of the file system.
pub(super) fn figures() -> FsStat {
    FsStat { kind: MAGIC, bsize: 4096, namelen: 255, ..FsStat::default() }
}

/// Changes attributes as chmod(2) and the like ask for.
pub(super) fn change(attributes: &Cell<Attr>, change: &Change) {
    let mut attr = attributes.get();
    let time = |set: SetTime| match set {
        SetTime::Now => now(),
        SetTime::At(s, ns) => (s, ns),
    };
    if let Some(mode) = change.mode {
        attr.mode = attr.mode & !0o7777 | mode & 0o7777;
    }
    attr.uid = change.uid.unwrap_or(attr.uid);
    attr.gid = change.gid.unwrap_or(attr.gid);
    if let Some(at) = change.atime {
        (attr.atime, attr.atime_ns) = time(at);
    }
    if let Some(at) = change.mtime {
        (attr.mtime, attr.mtime_ns) = time(at);
    }
    (attr.ctime, attr.ctime_ns) = now();
    attributes.set(attr);
}

impl Directory {
    /// An empty one, which belongs to a user and a group.
    pub(in crate::ipc) fn new(limits: Rc<Limits>, uid: u32, gid: u32) -> Rc<Self> {
        let attr = Attr {
            ino: anon::next_ino(),
            dev: anon::dev::MQUEUE,
            mode: 0o041777,
            nlink: 2,
            uid,
            gid,
            size: 2 * NAME_SIZE,
            blksize: 4096,
            ..attr::since(now())
        };
        Rc::new(Self { limits, attr: Cell::new(attr), names: RefCell::default(), is_over: Cell::new(false) })
    }

    /// Its namespace is gone.
    pub(in crate::ipc) fn end(&self) {
        self.is_over.set(true);
    }

    /// Makes a queue with these attributes, or with the defaults. EACCES, EEXIST, EINVAL, EMFILE, ENOSPC.
    pub(super) fn make(&self, name: &[u8], new: &NewNode<'_>, attributes: Option<(i64, i64)>) -> Result<Rc<Queue>> {
        if self.is_over.get() {
            return Err(Errno::EACCES);
        }
        vfs::memory::check()?;
        let me = task::current();
        let is_privileged = me.cred().capable(cap::SYS_RESOURCE);
        if self.names.borrow().contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let queue = Queue::new(&self.limits, new, attributes, is_privileged, me.limit(g::RLIMIT_MSGQUEUE))?;
        self.names.borrow_mut().insert(Rc::from(name), queue.clone());
        self.has_changed(NAME_SIZE.cast_signed());
        Ok(queue)
    }

    fn has_changed(&self, bytes: i64) {
        let mut attr = self.attr.get();
        attr.size = attr.size.saturating_add_signed(bytes);
        (attr.mtime, attr.mtime_ns) = now();
        (attr.ctime, attr.ctime_ns) = (attr.mtime, attr.mtime_ns);
        (attr.atime, attr.atime_ns) = (attr.mtime, attr.mtime_ns);
        self.attr.set(attr);
    }
}

impl Inode for Directory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn can_be_stored(&self) -> bool {
        false
    }

    fn attr(&self) -> Result<Attr> {
        Ok(self.attr.get())
    }

    fn file_type(&self) -> FileType {
        FileType::Directory
    }

    fn lookup(&self, name: &[u8], _ahead: &[u8]) -> Result<Found> {
        let queue = self.names.borrow().get(name).cloned().ok_or(Errno::ENOENT)?;
        Ok(Found { inode: queue, expires: u64::MAX })
    }

    fn create(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        if FileType::of(new.mode) != FileType::Regular {
            return Err(Errno::EPERM);
        }
        Ok(self.make(name, new, None)?)
    }

    fn unlink(&self, name: &[u8], _target: &Rc<dyn Inode>) -> Result<()> {
        let queue = self.names.borrow_mut().remove(name).ok_or(Errno::ENOENT)?;
        queue.lost_name();
        self.has_changed(-NAME_SIZE.cast_signed());
        Ok(())
    }

    fn readdir(&self) -> Result<Listing> {
        let mut listing = Listing::new();
        for (name, queue) in &*self.names.borrow() {
            listing.push(name, queue.attr()?.ino, FileType::Regular)?;
        }
        Ok(listing)
    }

    fn change(&self, wanted: &Change) -> Result<()> {
        change(&self.attr, wanted);
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(figures())
    }
}

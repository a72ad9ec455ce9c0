//! Attributes of files that are in no tree: pipes, sockets, event counters.

use super::caller::caller;
use alloc::rc::Rc;
use core::cell::{Cell, OnceCell};
use hal::cell::Global;
use uapi::raw::general::S_IFMT;
use vfs::{Attachments, Attr, Change, SetTime};

/// State of an inode outside of the tree: attributes that may be changed, and attachments (locks).
pub struct Nameless {
    /// Attributes.
    pub attr: Cell<Attr>,
    /// Locks.
    pub attachments: Attachments,
}

impl Nameless {
    /// With these attributes.
    pub fn new(attr: Attr) -> Self {
        Self { attr: Cell::new(attr), attachments: Attachments::default() }
    }
}

/// Attachments of the inode that all `anon_inode` files share.
static SHARED: Global<OnceCell<Rc<Attachments>>> = Global::new(OnceCell::new());

/// Locks of the inode that these attributes are of, if it is the shared one.
pub fn shared_attachments(attr: &Attr) -> Option<Rc<Attachments>> {
    (attr.dev == dev::ANON && attr.ino == 1).then(|| SHARED.get_or_init(Rc::default).clone())
}

/// Device numbers of Linux's internal mounts differ from boot to boot; these are keel's.
pub mod dev {
    /// Pipes.
    pub const PIPE: u64 = 0xd;
    /// Sockets.
    pub const SOCKET: u64 = 0x8;
    /// Everything else without a name.
    pub const ANON: u64 = 0xe;
    /// Message queues.
    pub const MQUEUE: u64 = 0xf;
}

static NEXT_INO: Global<Cell<u64>> = Global::new(Cell::new(1024));

/// An unused inode number.
pub fn next_ino() -> u64 {
    let ino = NEXT_INO.get();
    NEXT_INO.set(ino + 1);
    ino
}

/// Attributes of a nameless file created now by the current thread. `mode` has the type.
pub fn attr(ino: u64, dev: u64, mode: u32) -> Attr {
    let now = hal::clock::realtime_ns();
    let (seconds, nanoseconds) = ((now / 1_000_000_000) as i64, (now % 1_000_000_000) as u32);
    let cred = caller().cred();
    Attr {
        ino,
        dev,
        mode,
        nlink: 1,
        uid: cred.fsuid,
        gid: cred.fsgid,
        blksize: 4096,
        atime: seconds,
        mtime: seconds,
        ctime: seconds,
        atime_ns: nanoseconds,
        mtime_ns: nanoseconds,
        ctime_ns: nanoseconds,
        ..Attr::default()
    }
}

/// Attributes after a change now.
pub fn changed(old: Attr, change: &Change) -> Attr {
    let mut new = old;
    new.mode = change.mode.map_or(new.mode, |mode| new.mode & S_IFMT | mode & !S_IFMT);
    new.uid = change.uid.unwrap_or(new.uid);
    new.gid = change.gid.unwrap_or(new.gid);
    (new.ctime, new.ctime_ns) = vfs::attr::now();
    let set = |old: (i64, u32), time: Option<SetTime>| match time {
        None => old,
        Some(SetTime::Now) => (new.ctime, new.ctime_ns),
        Some(SetTime::At(seconds, ns)) => (seconds, ns),
    };
    (new.atime, new.atime_ns) = set((new.atime, new.atime_ns), change.atime);
    (new.mtime, new.mtime_ns) = set((new.mtime, new.mtime_ns), change.mtime);
    new
}

/// Attributes of the inode that Linux's `anon_inode` files share: no type.
pub fn anon_attr() -> Attr {
    Attr { ino: 1, dev: dev::ANON, mode: 0o600, nlink: 1, blksize: 4096, ..Attr::default() }
}

//! IPC namespaces, ipc_namespaces(7): the objects that processes find by key, id or name.

use super::mqueue::{Directory, Limits};
use super::{Table, msg, sem, shm};
use crate::cred::userns::Ids;
use crate::cred::{UserNs, userns};
use crate::task;
use alloc::rc::Rc;
use core::cell::{OnceCell, RefCell};
use hal::cell::Global;
use uapi::Result;
use vfs::mount::FileSystem;
use vfs::{Mount, PathRef};

/// Inode number of the first one, as on Linux.
const FIRST_INODE: u64 = 4_026_531_839;

/// An IPC namespace.
pub struct Namespace {
    inode: u64,
    user_ns: Rc<UserNs>,
    pub(super) segments: RefCell<Table<shm::Segment>>,
    pub(super) sets: RefCell<Table<sem::Set>>,
    pub(super) queues: RefCell<Table<msg::Queue>>,
    /// Limits of the queues of POSIX.
    limits: Rc<Limits>,
    /// Mount of their file system that only the kernel uses, once there was a use for it.
    mount: OnceCell<Rc<Mount>>,
}

impl core::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Namespace").field("inode", &self.inode).finish_non_exhaustive()
    }
}

static FIRST: Global<RefCell<Option<Rc<Namespace>>>> = Global::new(RefCell::new(None));

impl Namespace {
    fn with_inode(inode: u64, user_ns: Rc<UserNs>) -> Rc<Self> {
        Rc::new(Self {
            inode,
            user_ns,
            segments: RefCell::new(Table::new()),
            sets: RefCell::new(Table::new()),
            queues: RefCell::new(Table::new()),
            limits: Rc::default(),
            mount: OnceCell::new(),
        })
    }

    /// The namespace of the pod's first program.
    pub fn first() -> Rc<Self> {
        if let Some(first) = &*FIRST.borrow() {
            return first.clone();
        }
        let first = Self::with_inode(FIRST_INODE, UserNs::first());
        FIRST.replace(Some(first.clone()));
        first
    }

    /// An empty one that belongs to a user namespace.
    pub fn create(user_ns: Rc<UserNs>) -> Rc<Self> {
        Self::with_inode(userns::new_inode(), user_ns)
    }

    /// The directory of its queues of POSIX. ENOMEM.
    pub fn queues(&self) -> Result<PathRef> {
        if let Some(mount) = self.mount.get() {
            return Ok(PathRef::root_of(mount));
        }
        let root = |ids| self.user_ns.outward(ids, 0).unwrap_or(0);
        let directory = Directory::new(self.limits.clone(), root(Ids::Users), root(Ids::Groups));
        let fs = FileSystem::new(directory, "mqueue");
        if !self.user_ns.is_first() {
            fs.set_owner(self.user_ns.clone());
        }
        let mount = Mount::new(&fs, fs.root(), Rc::from(&b"mqueue"[..]), 0)?;
        Ok(PathRef::root_of(self.mount.get_or_init(|| mount)))
    }

    /// Limits of its queues of POSIX.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Number that `/proc/PID/ns/ipc` shows.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The user namespace that it belongs to.
    pub fn user_ns(&self) -> &Rc<UserNs> {
        &self.user_ns
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A segment and its memory hold each other until the segment is removed.
        for segment in core::mem::take(&mut *self.segments.borrow_mut()).items.into_values() {
            shm::remove(&segment);
        }
        // Its file system may be mounted still.
        let root = self.mount.get().map(|mount| mount.fs().root().inode().clone());
        if let Some(directory) = root.as_ref().and_then(|root| root.as_any().downcast_ref::<Directory>()) {
            directory.end();
        }
    }
}

/// The namespace of the running thread.
pub fn here() -> Rc<Namespace> {
    task::current().namespaces().ipc.clone()
}

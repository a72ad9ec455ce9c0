//! IPC namespaces, ipc_namespaces(7): the objects that processes find by key, id or name.

use super::{Table, mqueue, msg, sem, shm};
use crate::cred::{UserNs, userns};
use crate::task;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;

/// Inode number of the first one, as on Linux.
const FIRST_INODE: u64 = 4_026_531_839;

/// An IPC namespace.
pub struct Namespace {
    inode: u64,
    user_ns: Rc<UserNs>,
    pub(super) segments: RefCell<Table<shm::Segment>>,
    pub(super) sets: RefCell<Table<sem::Set>>,
    pub(super) queues: RefCell<Table<msg::Queue>>,
    /// Queues of POSIX by name.
    pub(super) named: RefCell<BTreeMap<Vec<u8>, Rc<mqueue::Queue>>>,
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
            named: RefCell::default(),
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
    }
}

/// The namespace of the running thread.
pub(super) fn here() -> Rc<Namespace> {
    task::current().namespaces().ipc.clone()
}

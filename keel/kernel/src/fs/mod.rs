//! The pod's tree as processes see it: root, working directory, path system calls, /dev and /proc.
//!
//! The tree itself, path resolution and the file systems are in the `vfs` crate; here are what the
//! monitor is asked ([`host`]), the tree at boot ([`setup`]), open files of the tree
//! ([`regular`], [`directory`], [`dev`]) and the system calls by path.

pub mod dev;
pub mod directory;
pub mod host;
pub mod memfd;
pub mod open;
pub mod path;
pub mod proc;
pub mod regular;
pub mod setup;
pub mod sys;

pub use open::{Program, create_socket_node, find_socket_node, may_read, open_exec};
pub use setup::{init, tree};
pub use vfs::PathRef;

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

/// Root, working directory and umask of a process.
#[derive(Debug)]
pub struct FsContext {
    root: RefCell<PathRef>,
    cwd: RefCell<PathRef>,
    umask: Cell<u32>,
}

impl FsContext {
    /// A context.
    pub fn new(root: PathRef, cwd: PathRef, umask: u32) -> Rc<Self> {
        Rc::new(Self { root: RefCell::new(root), cwd: RefCell::new(cwd), umask: Cell::new(umask & 0o777) })
    }

    /// A copy for fork(2).
    pub fn fork(&self) -> Rc<Self> {
        Self::new(self.root(), self.cwd(), self.umask.get())
    }

    /// Root directory.
    pub fn root(&self) -> PathRef {
        self.root.borrow().clone()
    }

    /// Working directory.
    pub fn cwd(&self) -> PathRef {
        self.cwd.borrow().clone()
    }

    /// File mode creation mask.
    pub fn umask(&self) -> u32 {
        self.umask.get()
    }

    /// Sets the mask; returns the one before.
    pub fn set_umask(&self, mask: u32) -> u32 {
        self.umask.replace(mask & 0o777)
    }

    pub(crate) fn set_root(&self, root: PathRef) {
        let before = self.root.replace(root);
        drop(before);
    }

    pub(crate) fn set_cwd(&self, cwd: PathRef) {
        let before = self.cwd.replace(cwd);
        drop(before);
    }
}

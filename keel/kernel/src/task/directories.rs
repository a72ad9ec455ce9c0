//! Root, working directory and umask of a process.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use vfs::PathRef;

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

    /// Sets the umask; returns the previous one.
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

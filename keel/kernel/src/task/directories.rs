//! Root, working directory and umask of a process.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use vfs::PathRef;

/// Root, working directory and umask of a process.
#[derive(Debug)]
pub struct FsContext {
    root: RefCell<PathRef>,
    cwd: RefCell<PathRef>,
    umask: Cell<u32>,
    numbers: Arc<Numbers>,
}

/// Numbers of root and working directory, [`vfs::PathRef::number`], for calls without the big lock; 0: not known.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) root: AtomicU64,
    pub(crate) cwd: AtomicU64,
}

impl FsContext {
    /// A context.
    pub fn new(root: PathRef, cwd: PathRef, umask: u32) -> Rc<Self> {
        let (root, cwd, umask) = (RefCell::new(root), RefCell::new(cwd), Cell::new(umask & 0o777));
        Rc::new(Self { root, cwd, umask, numbers: Arc::default() })
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

    /// For calls without the big lock.
    pub(crate) fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }

    /// Numbers of root and working directory, which calls without the big lock know from now on.
    pub(crate) fn number(&self) -> (u64, u64) {
        let numbers = (self.root.borrow().number(), self.cwd.borrow().number());
        self.numbers.root.store(numbers.0, Relaxed);
        self.numbers.cwd.store(numbers.1, Relaxed);
        numbers
    }

    pub(crate) fn set_root(&self, root: PathRef) {
        self.numbers.root.store(0, Relaxed);
        let before = self.root.replace(root);
        drop(before);
    }

    pub(crate) fn set_cwd(&self, cwd: PathRef) {
        self.numbers.cwd.store(0, Relaxed);
        let before = self.cwd.replace(cwd);
        drop(before);
    }
}

//! Names in the tree: directory entries that are in use or were lately.
//!
//! A [`Dentry`] ties a name in a directory to an inode; its parent chain is its path. Directories
//! keep their looked-up children, so a path that was walked before costs one table lookup per
//! component. The file systems stay the authority: a child is used until its `expires`, then the
//! directory's inode is asked again. Names that do not exist are remembered by the file systems.
#![expect(clippy::disallowed_types, reason = "each insertion reserves first, or is left out")]

use crate::memory::{append, copy, push};
use crate::{Inode, NAME_MAX, Name};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hashbrown::HashMap;
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};

/// A place in the tree: an inode and the name it was reached by.
pub type PathRef = Rc<Dentry>;

/// An attached file system.
#[derive(Debug)]
pub struct Mount {
    /// Number, as `/proc/self/mountinfo` and statx(2) show it.
    pub id: u32,
    /// Number of the mount that it lies in.
    pub parent: u32,
    /// Absolute path where it is attached.
    pub at: Name,
    /// Type name (`tmpfs`, `overlay`, `proc` …).
    pub kind: &'static str,
    /// Source column.
    pub source: &'static str,
    /// Changes fail with EROFS.
    pub read_only: Cell<bool>,
}

/// A name in a directory.
pub struct Dentry {
    parent: RefCell<Option<PathRef>>,
    name: RefCell<Name>,
    inode: Rc<dyn Inode>,
    mount: Rc<Mount>,
    children: RefCell<HashMap<Name, PathRef>>,
    expires: Cell<u64>,
    deleted: Cell<bool>,
    /// Counts changes of its children: an answer of the file system that was asked for before the last one may be old.
    changes: Cell<u64>,
}

impl core::fmt::Debug for Dentry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Dentry({})", alloc::string::String::from_utf8_lossy(&self.name()))
    }
}

impl Drop for Dentry {
    fn drop(&mut self) {
        if self.deleted.get() && crate::notify::is_on() {
            crate::notify::name_dropped(&self.inode);
        }
        // The directories above, one after the other: the way up may be long, and kernel stacks are small.
        let mut next = self.parent.take();
        while let Some(dentry) = next.and_then(Rc::into_inner) {
            next = dentry.parent.take();
        }
    }
}

/// Number of dentries in children tables, and the number at which unused ones are dropped.
static COUNT: hal::cell::Global<Cell<usize>> = hal::cell::Global::new(Cell::new(0));
static LIMIT: hal::cell::Global<Cell<usize>> = hal::cell::Global::new(Cell::new(LIMIT_MIN));
const LIMIT_MIN: usize = 16 << 10;
/// How often a name is looked up again in a directory that changed meanwhile.
const TRIES: usize = 3;
/// Unused dentries that are collected before they are dropped.
const BATCH: usize = 512;

impl Dentry {
    /// The root of a tree.
    pub fn root(inode: Rc<dyn Inode>, mount: Rc<Mount>) -> PathRef {
        Rc::new(Self::make(None, Rc::from(&b"/"[..]), inode, mount, u64::MAX))
    }

    /// An inode that has no name in any directory (a memory file, `O_TMPFILE`); `name` is what
    /// `/proc/self/fd` shows. It counts as deleted.
    pub fn unnamed(name: &[u8], inode: Rc<dyn Inode>, mount: Rc<Mount>) -> PathRef {
        let dentry = Self::make(None, Rc::from(name), inode, mount, u64::MAX);
        dentry.deleted.set(true);
        Rc::new(dentry)
    }

    /// An inode without a name that was made in this directory (`O_TMPFILE`).
    pub fn unnamed_child(self: &Rc<Self>, name: &[u8], inode: Rc<dyn Inode>) -> PathRef {
        let dentry = Self::make(Some(self.clone()), Rc::from(name), inode, self.mount.clone(), u64::MAX);
        dentry.deleted.set(true);
        Rc::new(dentry)
    }

    fn make(parent: Option<PathRef>, name: Name, inode: Rc<dyn Inode>, mount: Rc<Mount>, expires: u64) -> Self {
        Self {
            parent: RefCell::new(parent),
            name: RefCell::new(name),
            inode,
            mount,
            children: RefCell::default(),
            expires: Cell::new(expires),
            deleted: Cell::new(false),
            changes: Cell::new(0),
        }
    }

    /// What the name stands for.
    pub fn inode(&self) -> &Rc<dyn Inode> {
        &self.inode
    }

    /// The file system it lies in.
    pub fn mount(&self) -> &Rc<Mount> {
        &self.mount
    }

    /// Last component of its path.
    pub fn name(&self) -> Name {
        self.name.borrow().clone()
    }

    /// Its directory; `None` for the root of the tree and for files without a name.
    pub fn parent(&self) -> Option<PathRef> {
        self.parent.borrow().clone()
    }

    /// Whether the name was removed since.
    pub fn is_deleted(&self) -> bool {
        self.deleted.get()
    }

    /// Whether it is the root of an attached file system.
    pub fn is_mount_root(&self) -> bool {
        match &*self.parent.borrow() {
            Some(parent) => !Rc::ptr_eq(&parent.mount, &self.mount),
            None => !self.deleted.get(),
        }
    }

    /// Whether `self` is `other` or lies beneath it.
    pub fn is_within(self: &Rc<Self>, other: &PathRef) -> bool {
        let mut at = self.clone();
        loop {
            if Rc::ptr_eq(&at, other) {
                return true;
            }
            match at.parent() {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }

    /// Absolute path as seen from `root` (`None`: the tree's root). A place outside of `root` shows
    /// its path in the whole tree. For an unnamed file, its name. ENOMEM: programs make paths of any length.
    pub fn path(&self, root: Option<&PathRef>) -> Result<Vec<u8>> {
        let mut names: Vec<Name> = Vec::new();
        let is_root = |d: &Dentry| root.is_some_and(|r| core::ptr::eq(Rc::as_ptr(r), d));
        if !is_root(self) {
            let mut at = match self.parent() {
                Some(parent) => {
                    push(&mut names, self.name())?;
                    parent
                }
                None if self.deleted.get() => return copy(&self.name()),
                None => return copy(b"/"),
            };
            while !is_root(&at) {
                let Some(parent) = at.parent() else { break };
                push(&mut names, at.name())?;
                at = parent;
            }
        }
        if names.is_empty() {
            return copy(b"/");
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            append(&mut path, b"/")?;
            append(&mut path, name)?;
        }
        Ok(path)
    }

    /// The path as `/proc` shows it: with ` (deleted)` if the name is gone. ENOMEM.
    pub fn display_path(&self, root: Option<&PathRef>) -> Result<Vec<u8>> {
        let mut path = self.path(root)?;
        if self.deleted.get() {
            append(&mut path, b" (deleted)")?;
        }
        Ok(path)
    }

    /// The child `name` if it is known and still valid at `now` (asked for only if it matters).
    fn cached(&self, name: &[u8], now: impl FnOnce() -> u64) -> Option<PathRef> {
        let children = self.children.borrow();
        let child = children.get(name)?;
        let expires = child.expires.get();
        (expires == u64::MAX || expires > now()).then(|| child.clone())
    }

    /// Looks a name up. `ahead`: what will be looked up beneath it. `cached_only`: EAGAIN where the
    /// file system would have to be asked. ENOENT, ENOTDIR, ENAMETOOLONG.
    pub fn lookup(self: &Rc<Self>, name: &[u8], ahead: &[u8], cached_only: bool) -> Result<PathRef> {
        if let Some(child) = self.cached(name, hal::clock::monotonic_ns) {
            return Ok(child);
        }
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if cached_only {
            return Err(Errno::EAGAIN);
        }
        for _ in 0..TRIES {
            let changes = self.changes();
            let found = self.inode.lookup(name, ahead);
            if self.changes() == changes {
                if let Err(Errno::ENOENT) = found {
                    self.forget(name);
                }
                return found.map(|found| self.adopt(name, found.inode, found.expires, found.mount));
            }
            // Names came or went while the file system was asked; most often this one is known now.
            if let Some(child) = self.cached(name, hal::clock::monotonic_ns) {
                return Ok(child);
            }
        }
        // It was valid during the request; the next lookup asks again.
        let found = self.inode.lookup(name, ahead)?;
        Ok(self.outside(name, found.inode, found.mount))
    }

    /// Whether nothing is known of a name, and making it tells as much as looking it up would.
    pub fn is_unknown(&self, name: &[u8]) -> bool {
        name.len() <= NAME_MAX && self.cached(name, hal::clock::monotonic_ns).is_none() && self.inode.is_unknown(name)
    }

    /// The child that stands for an inode, or one that is not in the table, to be looked up again at the next use.
    fn outside(self: &Rc<Self>, name: &[u8], inode: Rc<dyn Inode>, mount: Option<Rc<Mount>>) -> PathRef {
        let known = self.children.borrow().get(name).filter(|child| Rc::ptr_eq(&child.inode, &inode)).cloned();
        if let Some(child) = known {
            child.expires.set(child.expires.get().min(1));
            return child;
        }
        let mount = mount.unwrap_or_else(|| self.mount.clone());
        Rc::new(Self::make(Some(self.clone()), Rc::from(name), inode, mount, 1))
    }

    /// The number of changes of its children so far: to be asked before the file system is asked to change one.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The pod has changed `name`, after `changes` of the children were done before: whether this was the last change here.
    /// If not, the name's state is unknown, and the file system is asked at the next use.
    fn count_change(&self, name: &[u8], changes: u64) -> bool {
        let is_last = self.changes.get() == changes;
        self.changes.set(self.changes.get() + 1);
        if !is_last && let Some(child) = self.children.borrow().get(name) {
            child.expires.set(child.expires.get().min(1));
        }
        is_last
    }

    /// Enters a child that was just made, after `changes` of the children were done before. If there were others since, the
    /// file system is asked at the next use.
    pub fn adopt_new(self: &Rc<Self>, name: &[u8], inode: Rc<dyn Inode>, expires: u64, changes: u64) -> PathRef {
        if self.count_change(name, changes) {
            return self.adopt(name, inode, expires, None);
        }
        self.outside(name, inode, None)
    }

    /// Enters a child; the existing one is kept if it stands for the same inode.
    pub fn adopt(
        self: &Rc<Self>,
        name: &[u8],
        inode: Rc<dyn Inode>,
        expires: u64,
        mount: Option<Rc<Mount>>,
    ) -> PathRef {
        let existing = self.children.borrow().get(name).cloned();
        if let Some(child) = existing {
            if Rc::ptr_eq(&child.inode, &inode) {
                child.expires.set(expires);
                return child;
            }
            self.forget(name);
        }
        let name: Name = Rc::from(name);
        let mount = mount.unwrap_or_else(|| self.mount.clone());
        let child = Rc::new(Self::make(Some(self.clone()), name.clone(), inode, mount, expires));
        if self.children.borrow_mut().try_reserve(1).is_err() {
            // Without its place in the table it is looked up again the next time.
            return child;
        }
        self.children.borrow_mut().insert(name, child.clone());
        COUNT.set(COUNT.get() + 1);
        if COUNT.get() > LIMIT.get() {
            self.prune();
        }
        child
    }

    /// Takes a child out because its name was removed (by the pod or on the host).
    pub fn forget(&self, name: &[u8]) {
        // The removed dentry is dropped after the borrow ends: it may be the last use of an inode.
        let removed = self.children.borrow_mut().remove(name);
        if let Some(child) = removed {
            child.deleted.set(true);
            // What lies beneath a directory that vanished on the host goes with it; otherwise the
            // tables and parent links would keep each other alive.
            COUNT.set(COUNT.get().saturating_sub(1));
            let mut gone = Pieces::new();
            gone.push_back(child);
            while let Some(dentry) = gone.pop_back() {
                for child in dentry.children.take().into_values() {
                    COUNT.set(COUNT.get().saturating_sub(1));
                    if !child.children.borrow().is_empty() {
                        gone.push_back(child);
                    }
                }
            }
        }
    }

    /// The pod removed the name of `victim`, after `changes` of the children were done before.
    pub fn removed(&self, name: &[u8], victim: &PathRef, changes: u64) {
        self.count_change(name, changes);
        self.lost(name, victim);
        victim.deleted.set(true);
    }

    /// `victim` is no longer what has the name.
    fn lost(&self, name: &[u8], victim: &PathRef) {
        let child = self.children.borrow().get(name).cloned();
        match child {
            Some(child) if Rc::ptr_eq(&child, victim) => self.forget(name),
            Some(child) if Rc::ptr_eq(&child.inode, &victim.inode) => child.expires.set(child.expires.get().min(1)),
            _ => {}
        }
    }

    /// The pod moved `child` from one name to another (rename), after `changes` of the children here and there were done
    /// before: paths beneath it follow. What had the new name is gone.
    pub fn moved(
        self: &Rc<Self>,
        child: &PathRef,
        old: &[u8],
        (to, new): (&PathRef, &[u8]),
        replaced: Option<&PathRef>,
        (here, there): (u64, u64),
    ) {
        let is_last = (self.changes(), to.changes()) == (here, there);
        self.count_change(old, here);
        to.count_change(new, if is_last { to.changes() } else { there });
        if let Some(replaced) = replaced {
            to.lost(new, replaced);
            if is_last {
                replaced.deleted.set(true);
            }
        }
        if is_last {
            to.forget(new);
        }
        self.take(old, child);
        to.put(new, child, is_last);
    }

    /// The pod exchanged the names of two children.
    pub fn exchanged(
        self: &Rc<Self>,
        (old, first): (&[u8], &PathRef),
        to: &PathRef,
        (new, second): (&[u8], &PathRef),
        (here, there): (u64, u64),
    ) {
        let is_last = (self.changes(), to.changes()) == (here, there);
        self.count_change(old, here);
        to.count_change(new, if is_last { to.changes() } else { there });
        self.take(old, first);
        to.take(new, second);
        to.put(new, first, is_last);
        self.put(old, second, is_last);
    }

    /// Takes `child` out of the table, if it is there.
    fn take(&self, name: &[u8], child: &PathRef) {
        let mut children = self.children.borrow_mut();
        if children.get(name).is_some_and(|known| Rc::ptr_eq(known, child)) {
            children.remove(name);
            drop(children);
            COUNT.set(COUNT.get().saturating_sub(1));
        }
    }

    /// Gives `child`, which is in no table, a new name; into the table only if nothing else has happened there.
    fn put(self: &Rc<Self>, name: &[u8], child: &PathRef, is_last: bool) {
        let name: Name = Rc::from(name);
        child.place(self, name.clone());
        let mut children = self.children.borrow_mut();
        if !is_last || children.try_reserve(1).is_err() {
            // It is looked up again the next time.
            return;
        }
        let old = children.insert(name, child.clone());
        drop(children);
        if old.is_none() {
            COUNT.set(COUNT.get() + 1);
        }
    }

    fn place(&self, parent: &PathRef, name: Name) {
        let before = self.parent.replace(Some(parent.clone()));
        self.name.replace(name);
        drop(before);
    }

    /// Drops the children that nobody uses; for when the cache has grown or memory is short.
    fn prune(self: &Rc<Self>) {
        let mut top = self.clone();
        while let Some(parent) = top.parent() {
            top = parent;
        }
        top.shrink();
        LIMIT.set(LIMIT_MIN.max(COUNT.get() * 2));
    }

    /// Drops all unused dentries beneath this one.
    pub fn shrink(self: &Rc<Self>) {
        // With an explicit list: directories come before what lies in them. Those for which there is no room stay.
        let mut directories = Pieces::new();
        directories.push_back(self.clone());
        let mut next = 0;
        while let Some(directory) = directories.get(next).map(PathRef::clone) {
            for child in directory.children.borrow().values().filter(|c| !c.children.borrow().is_empty()) {
                if directories.try_push_back(child.clone()).is_err() {
                    break;
                }
            }
            next += 1;
        }
        while let Some(directory) = directories.pop_back() {
            let mut unused: Vec<PathRef> = Vec::new();
            directory.children.borrow_mut().retain(|_, child| {
                let keep = Rc::strong_count(child) > 1 || !child.children.borrow().is_empty();
                // Those for which there is no room stay for now.
                if keep || unused.len() == unused.capacity() && unused.try_reserve(BATCH).is_err() {
                    return true;
                }
                unused.push(child.clone());
                false
            });
            COUNT.set(COUNT.get().saturating_sub(unused.len()));
        }
    }
}

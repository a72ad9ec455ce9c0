//! Names in the tree: directory entries that are in use or were lately.
//!
//! A [`Dentry`] ties a name in a directory to an inode; its parent chain is its path. Directories
//! keep their looked-up children, so a path that was walked before costs one table lookup per
//! component. The file systems stay the authority: a child is used until its `expires`, then the
//! directory's inode is asked again. Names that do not exist are remembered by the file systems.
#![expect(clippy::disallowed_types, reason = "each insertion reserves first, or is left out")]

pub(crate) mod unused;

use crate::{Found, Inode, NAME_MAX, Name, ways};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hashbrown::HashMap;
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};

/// A name in a directory.
pub struct Dentry {
    parent: RefCell<Option<Rc<Self>>>,
    name: RefCell<Name>,
    inode: Rc<dyn Inode>,
    children: RefCell<HashMap<Name, Rc<Self>>>,
    expires: Cell<u64>,
    /// Names in it that were believed until then, or not as long, are asked for again.
    doubted: Cell<u64>,
    deleted: Cell<bool>,
    /// It is a root or lies in its parent's table. Another one keeps no children, which would keep it alive in turn.
    is_kept: Cell<bool>,
    /// Counts changes of its children: an answer of the file system that was asked for before the last one may be old.
    changes: Cell<u64>,
    /// Mounts that lie on it, in all namespaces.
    pub(crate) mounts: Cell<u32>,
    /// See [`Self::number`]; 0: none yet.
    number: Cell<u64>,
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

/// The last [`Dentry::number`].
static NUMBERS: hal::cell::Global<Cell<u64>> = hal::cell::Global::new(Cell::new(0));
/// How often a name is looked up again in a directory that changed meanwhile.
const TRIES: usize = 3;

impl Dentry {
    /// The root of a file system.
    pub(crate) fn root(inode: Rc<dyn Inode>) -> Rc<Self> {
        let root = Self::make(None, Rc::from(&b"/"[..]), inode, u64::MAX);
        root.is_kept.set(true);
        Rc::new(root)
    }

    /// An inode that has no name in any directory (a memory file), or none in `parent`, where it was made (`O_TMPFILE`);
    /// `name` is what `/proc/self/fd` shows. It counts as deleted.
    pub(crate) fn unnamed(parent: Option<Rc<Self>>, name: &[u8], inode: Rc<dyn Inode>) -> Rc<Self> {
        let dentry = Self::make(parent, Rc::from(name), inode, u64::MAX);
        dentry.deleted.set(true);
        Rc::new(dentry)
    }

    fn make(parent: Option<Rc<Self>>, name: Name, inode: Rc<dyn Inode>, expires: u64) -> Self {
        Self {
            parent: RefCell::new(parent),
            name: RefCell::new(name),
            inode,
            children: RefCell::default(),
            expires: Cell::new(expires),
            doubted: Cell::new(0),
            deleted: Cell::new(false),
            is_kept: Cell::new(false),
            changes: Cell::new(0),
            mounts: Cell::new(0),
            number: Cell::new(0),
        }
    }

    /// A number that no other dentry had or will have.
    pub fn number(&self) -> u64 {
        if self.number.get() == 0 {
            NUMBERS.set(NUMBERS.get() + 1);
            self.number.set(NUMBERS.get());
        }
        self.number.get()
    }

    /// `CLOCK_MONOTONIC` ns until which the name holds; `u64::MAX`: until keel changes it.
    pub fn expires(&self) -> u64 {
        self.expires.get()
    }

    /// What names here stand for was changed, or is not known any more.
    fn names_changed(&self) {
        if let Some(address) = self.inode.stamp_address() {
            ways::changed(address);
        }
    }

    /// What the name stands for.
    pub fn inode(&self) -> &Rc<dyn Inode> {
        &self.inode
    }

    /// Last component of its path.
    pub fn name(&self) -> Name {
        self.name.borrow().clone()
    }

    /// Its directory; `None` for the root of a file system and for files without a name.
    pub(crate) fn above(&self) -> Option<Rc<Self>> {
        self.parent.borrow().clone()
    }

    /// Whether the name was removed since.
    pub fn is_deleted(&self) -> bool {
        self.deleted.get()
    }

    /// Whether `self` is `other` or lies beneath it in the same file system.
    pub(crate) fn is_beneath(self: &Rc<Self>, other: &Rc<Self>) -> bool {
        let mut at = self.clone();
        while !Rc::ptr_eq(&at, other) {
            match at.above() {
                Some(above) => at = above,
                None => return false,
            }
        }
        true
    }

    /// Path from the root of its file system, with `//deleted` if the name is gone. ENOMEM.
    pub fn path_in_fs(self: &Rc<Self>) -> Result<Vec<u8>> {
        let mut names: Vec<Name> = Vec::new();
        let mut at = self.clone();
        while let Some(above) = at.above() {
            crate::memory::push(&mut names, at.name())?;
            at = above;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            crate::memory::append(&mut path, b"/")?;
            crate::memory::append(&mut path, name)?;
        }
        if path.is_empty() {
            crate::memory::append(&mut path, b"/")?;
        }
        if self.is_deleted() {
            crate::memory::append(&mut path, b"//deleted")?;
        }
        Ok(path)
    }

    /// The child `name` if it is known and still valid at `now` (asked for only if it matters).
    fn cached(&self, name: &[u8], now: impl FnOnce() -> u64) -> Option<Rc<Self>> {
        let children = self.children.borrow();
        let child = children.get(name)?;
        let expires = child.expires.get();
        (expires == u64::MAX || expires > now().max(self.doubted.get())).then(|| child.clone())
    }

    /// Names beside this one that are believed until `expires` or not as long are not believed any more.
    pub fn doubt_names_beside(&self, expires: u64) {
        if let Some(directory) = &*self.parent.borrow() {
            directory.doubted.set(expires);
            directory.names_changed();
        }
    }

    /// Looks a name up. `ahead`: what will be looked up beneath it. `cached_only`: EAGAIN where the
    /// file system would have to be asked. ENOENT, ENOTDIR, ENAMETOOLONG.
    pub(crate) fn lookup(self: &Rc<Self>, name: &[u8], ahead: &[u8], cached_only: bool) -> Result<Rc<Self>> {
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
            let found = self.ask(name, ahead);
            if self.changes() == changes {
                if let Err(Errno::ENOENT) = found {
                    self.forget(name);
                }
                return found.map(|found| self.adopt(name, found.inode, found.expires));
            }
            // Names came or went while the file system was asked; most often this one is known now.
            if let Some(child) = self.cached(name, hal::clock::monotonic_ns) {
                return Ok(child);
            }
        }
        // It was valid during the request; the next lookup asks again.
        let found = self.ask(name, ahead)?;
        Ok(self.outside(name, found.inode))
    }

    /// Asks the file system for a name.
    fn ask(&self, name: &[u8], ahead: &[u8]) -> Result<Found> {
        match self.inode.lookup(name, ahead) {
            // Unused names may take the memory.
            Err(Errno::ENOMEM) if unused::drop_unused() > 0 => {
                hal::heap::trim();
                self.inode.lookup(name, ahead)
            }
            found => found,
        }
    }

    /// Whether nothing is known of a name, and making it tells as much as looking it up would.
    pub fn is_unknown(&self, name: &[u8]) -> bool {
        name.len() <= NAME_MAX && self.cached(name, hal::clock::monotonic_ns).is_none() && self.inode.is_unknown(name)
    }

    /// The child that stands for an inode, or one that is not in the table, to be looked up again at the next use.
    fn outside(self: &Rc<Self>, name: &[u8], inode: Rc<dyn Inode>) -> Rc<Self> {
        let known = self.children.borrow().get(name).filter(|child| Rc::ptr_eq(&child.inode, &inode)).cloned();
        if let Some(child) = known {
            child.expires.set(child.expires.get().min(1));
            self.names_changed();
            return child;
        }
        Rc::new(Self::make(Some(self.clone()), Rc::from(name), inode, 1))
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
            self.names_changed();
        }
        is_last
    }

    /// What `name` stands for is not known: the file system is asked at the next use.
    #[cold]
    pub(crate) fn doubt(&self, name: &[u8]) {
        self.count_change(name, u64::MAX);
    }

    /// Enters a child that was just made, after `changes` of the children were done before. If there were others since, the
    /// file system is asked at the next use.
    pub(crate) fn adopt_new(
        self: &Rc<Self>,
        name: &[u8],
        inode: Rc<dyn Inode>,
        expires: u64,
        changes: u64,
    ) -> Rc<Self> {
        if self.count_change(name, changes) {
            return self.adopt(name, inode, expires);
        }
        self.outside(name, inode)
    }

    /// Enters a child; the existing one is kept if it stands for the same inode.
    pub(crate) fn adopt(self: &Rc<Self>, name: &[u8], inode: Rc<dyn Inode>, expires: u64) -> Rc<Self> {
        let existing = self.children.borrow().get(name).cloned();
        if let Some(child) = existing {
            if Rc::ptr_eq(&child.inode, &inode) {
                child.expires.set(expires);
                return child;
            }
            self.forget(name);
        }
        let name: Name = Rc::from(name);
        let child = Rc::new(Self::make(Some(self.clone()), name.clone(), inode, expires));
        if !self.is_kept.get() || self.children.borrow_mut().try_reserve(1).is_err() {
            // Without its place in the table it is looked up again the next time.
            return child;
        }
        self.children.borrow_mut().insert(name, child.clone());
        child.is_kept.set(true);
        unused::entered();
        child
    }

    /// Takes a child out because its name was removed (by the pod or on the host).
    pub fn forget(&self, name: &[u8]) {
        // The removed dentry is dropped after the borrow ends: it may be the last use of an inode.
        let removed = self.children.borrow_mut().remove(name);
        if let Some(child) = removed {
            self.names_changed();
            child.deleted.set(true);
            unused::left(1);
            child.let_go();
        }
    }

    /// It is in no table any more. Empties the tables of all directories beneath, which would keep each other alive: nobody
    /// finds names by them any more.
    #[cold]
    pub(crate) fn let_go(self: &Rc<Self>) {
        self.is_kept.set(false);
        let mut gone = Pieces::new();
        gone.push_back(self.clone());
        while let Some(dentry) = gone.pop_back() {
            dentry.names_changed();
            for child in dentry.children.take().into_values() {
                unused::left(1);
                child.is_kept.set(false);
                if !child.children.borrow().is_empty() {
                    gone.push_back(child);
                }
            }
        }
    }

    /// The pod removed the name of `victim`, after `changes` of the children were done before.
    pub(crate) fn removed(&self, name: &[u8], victim: &Rc<Self>, changes: u64) {
        self.count_change(name, changes);
        self.lost(name, victim);
        self.names_changed();
        victim.deleted.set(true);
    }

    /// `victim` is no longer what has the name.
    fn lost(&self, name: &[u8], victim: &Rc<Self>) {
        let child = self.children.borrow().get(name).cloned();
        match child {
            Some(child) if Rc::ptr_eq(&child, victim) => self.forget(name),
            Some(child) if Rc::ptr_eq(&child.inode, &victim.inode) => {
                child.expires.set(child.expires.get().min(1));
                self.names_changed();
            }
            _ => {}
        }
    }

    /// The pod moved `child` from one name to another (rename), after `changes` of the children here and there were done
    /// before: paths beneath it follow. What had the new name is gone.
    pub(crate) fn moved(
        self: &Rc<Self>,
        child: &Rc<Self>,
        old: &[u8],
        (to, new): (&Rc<Self>, &[u8]),
        replaced: Option<&Rc<Self>>,
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
        self.names_changed();
        to.names_changed();
    }

    /// The pod exchanged the names of two children.
    pub(crate) fn exchanged(
        self: &Rc<Self>,
        (old, first): (&[u8], &Rc<Self>),
        to: &Rc<Self>,
        (new, second): (&[u8], &Rc<Self>),
        (here, there): (u64, u64),
    ) {
        let is_last = (self.changes(), to.changes()) == (here, there);
        self.count_change(old, here);
        to.count_change(new, if is_last { to.changes() } else { there });
        self.take(old, first);
        to.take(new, second);
        to.put(new, first, is_last);
        self.put(old, second, is_last);
        self.names_changed();
        to.names_changed();
    }

    /// Takes `child` out of the table, if it is there.
    fn take(&self, name: &[u8], child: &Rc<Self>) {
        let mut children = self.children.borrow_mut();
        if children.get(name).is_some_and(|known| Rc::ptr_eq(known, child)) {
            children.remove(name);
            drop(children);
            unused::left(1);
        }
    }

    /// Gives `child`, which is in no table, a new name; into the table only if nothing else has happened there.
    fn put(self: &Rc<Self>, name: &[u8], child: &Rc<Self>, is_last: bool) {
        let name: Name = Rc::from(name);
        child.place(self, name.clone());
        let mut children = self.children.borrow_mut();
        if !is_last || !self.is_kept.get() || children.try_reserve(1).is_err() {
            drop(children);
            // It is looked up again the next time.
            child.let_go();
            return;
        }
        let old = children.insert(name, child.clone());
        drop(children);
        child.is_kept.set(true);
        match old {
            None => unused::entered(),
            Some(old) => old.let_go(),
        }
    }

    fn place(&self, parent: &Rc<Self>, name: Name) {
        let before = self.parent.replace(Some(parent.clone()));
        self.name.replace(name);
        drop(before);
    }
}

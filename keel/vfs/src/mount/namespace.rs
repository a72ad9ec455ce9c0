//! Mount namespaces: which mounts the paths of a process lead through.

use super::change::Loose;
use super::{FileSystem, MAX, Mount, dissolve, flags, propagation};
use crate::memory::{Living, check};
use crate::{Dentry, Name, PathRef};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use uapi::{Errno, Result};

static ALL: Global<RefCell<Living<Namespace>>> = Global::new(RefCell::new(Living::new()));

/// Frees what namespaces that have ended still take.
pub(super) fn forget_ended() {
    if let Ok(mut all) = ALL.try_borrow_mut() {
        all.forget();
    }
}

/// See the module.
#[derive(Debug)]
pub struct Namespace {
    /// Lies beneath everything, and is not shown.
    root: Rc<Mount>,
    mounts: RefCell<BTreeMap<u32, Rc<Mount>>>,
    changes: Cell<u64>,
    /// Holds a tree of mounts that is in no process's namespace yet.
    is_anonymous: bool,
    /// The tree went elsewhere.
    is_empty: Cell<bool>,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let mounts = self.mounts.take();
        drop(mounts);
        if !self.is_empty.get() {
            dissolve(&self.root, false);
        }
    }
}

impl Namespace {
    /// A namespace whose mounts are this tree. ENOMEM, ENOSPC.
    fn holding(tree: Loose, is_anonymous: bool) -> Result<Rc<Self>> {
        check()?;
        let all = tree.mounts()?;
        let mut list = ALL.borrow_mut();
        list.reserve()?;
        let new = Rc::new(Self {
            root: tree.take(),
            mounts: RefCell::default(),
            changes: Cell::new(0),
            is_anonymous,
            is_empty: Cell::new(false),
        });
        list.add(&new);
        drop(list);
        new.check_room(all.len())?;
        for mount in &all {
            new.add(mount);
        }
        Ok(new)
    }

    /// The first namespace: `root` on an empty file system that nobody sees.
    pub(crate) fn first(beneath: &Rc<FileSystem>, root: &Rc<Mount>) -> Result<Rc<Self>> {
        let bottom = Mount::numbered(1, beneath, beneath.root(), Rc::from(&b"rootfs"[..]), 0);
        root.put(&bottom, beneath.root());
        Self::holding(Loose::new(bottom), false)
    }

    /// A namespace that only holds a tree of mounts, until it is moved elsewhere. ENOMEM.
    pub fn anonymous(tree: Loose) -> Result<Rc<Self>> {
        Self::holding(tree, true)
    }

    /// Whether it is of that kind.
    pub fn is_anonymous(&self) -> bool {
        self.is_anonymous
    }

    /// The tree of an anonymous namespace, which is empty afterwards.
    pub(super) fn release(&self) {
        self.is_empty.set(true);
        for mount in self.mounts.take().into_values() {
            mount.namespace.take();
        }
    }

    /// A copy with copies of all mounts, and of places in them, clone(2) with `CLONE_NEWNS`. `unprivileged`: for another user
    /// namespace, which must not reveal what is hidden here, nor change what is seen here. ENOMEM, ENOSPC.
    pub fn copy(&self, unprivileged: bool, places: &mut [&mut PathRef]) -> Result<Rc<Self>> {
        let how = if unprivileged { propagation::Copy::SharedToSlave } else { propagation::Copy::Alike };
        let tree = Loose::copy_of(&self.root, self.root.root(), how, true)?;
        let (old, new) = (self.root.tree()?, tree.mounts()?);
        if unprivileged {
            for mount in &new {
                let set = mount.flags.get() & (flags::ALL & !flags::NO_SYMFOLLOW);
                mount.locked_flags.set(mount.locked_flags.get() | set | flags::ATIMES);
                mount.is_locked.set(true);
            }
        }
        let copy = Self::holding(tree, false)?;
        for place in places {
            let at = old.iter().position(|mount| Rc::ptr_eq(mount, place.mount()));
            if let Some(mount) = at.and_then(|at| new.get(at)) {
                **place = PathRef::new(mount.clone(), place.dentry().clone());
            }
        }
        Ok(copy)
    }

    /// Its root directory.
    pub fn root(&self) -> PathRef {
        PathRef::root_of(&self.root).covered()
    }

    /// The mount that lies beneath everything.
    pub fn bottom(&self) -> &Rc<Mount> {
        &self.root
    }

    /// All mounts, by number. ENOMEM.
    pub fn mounts(&self) -> Result<Vec<Rc<Mount>>> {
        crate::memory::list(self.mounts.borrow().values().cloned())
    }

    /// How often its mounts changed.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Counts a change.
    pub fn changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// ENOSPC if there is no room for so many more mounts.
    pub(super) fn check_room(&self, more: usize) -> Result<()> {
        if self.mounts.borrow().len().saturating_add(more) > MAX { Err(Errno::ENOSPC) } else { Ok(()) }
    }

    /// Counts a mount among its own.
    pub(super) fn add(self: &Rc<Self>, mount: &Rc<Mount>) {
        mount.namespace.replace(Rc::downgrade(self));
        let old = self.mounts.borrow_mut().insert(mount.id, mount.clone());
        drop(old);
        self.changed();
    }

    pub(super) fn lose(&self, mount: &Mount) {
        let gone = self.mounts.borrow_mut().remove(&mount.id);
        drop(gone);
        self.changed();
    }

    /// Whether anything is mounted on a name.
    pub(super) fn has_mount_on(&self, name: &Rc<Dentry>) -> bool {
        self.mounts.borrow().values().any(|mount| mount.is_on(name))
    }

    /// A mount by its number.
    pub fn find(&self, id: u32) -> Option<Rc<Mount>> {
        self.mounts.borrow().get(&id).cloned()
    }
}

impl Mount {
    /// Whether it is mounted on this name, whatever the parent.
    fn is_on(&self, name: &Rc<Dentry>) -> bool {
        self.place.borrow().as_ref().is_some_and(|(_, at)| Rc::ptr_eq(at, name))
    }
}

/// Takes all mounts from a name in all namespaces.
pub(super) fn detach_all(name: &Rc<Dentry>) {
    let mut at = 0;
    loop {
        let Some(namespace) = ALL.borrow().get(at) else { return };
        at += 1;
        let Some(namespace) = namespace else { continue };
        loop {
            let found = namespace.mounts.borrow().values().find(|mount| mount.is_on(name)).cloned();
            let Some(mount) = found else { break };
            mount.take();
            dissolve(&mount, true);
        }
    }
}

/// A name of a source or type.
pub fn name(text: &[u8]) -> Name {
    Rc::from(text)
}

//! Changes of a tree of mounts: bind, move, unmount, pivot_root(2). Permissions were checked by the caller.

use super::propagation::{self, Copy};
use super::{FileSystem, Mount, Namespace, dissolve};
use crate::{Dentry, FileType, Name, PathRef};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// A tree of mounts that is in no namespace. It is taken apart if it does not get into one.
#[derive(Debug)]
pub struct Loose(Option<Rc<Mount>>, Rc<Mount>);

impl Drop for Loose {
    fn drop(&mut self) {
        if let Some(top) = self.0.take() {
            dissolve(&top, false);
        }
    }
}

impl Loose {
    /// A tree by its root.
    pub(super) fn new(top: Rc<Mount>) -> Self {
        Self(Some(top.clone()), top)
    }

    /// A mount of a whole file system. ENOMEM.
    pub fn of(fs: &Rc<FileSystem>, source: Name, flags: u32) -> Result<Self> {
        Ok(Self::new(Mount::new(fs, fs.root(), source, flags)?))
    }

    /// The root of the tree.
    pub fn top(&self) -> &Rc<Mount> {
        &self.1
    }

    pub(super) fn take(mut self) -> Rc<Mount> {
        self.0.take();
        self.1.clone()
    }

    /// All its mounts, parents first. ENOMEM.
    pub fn mounts(&self) -> Result<Vec<Rc<Mount>>> {
        self.1.tree()
    }

    /// A copy of one mount that shows `root`. ENOMEM.
    fn single(original: &Rc<Mount>, root: &Rc<Dentry>, how: Copy) -> Result<Self> {
        let copy = Mount::new(&original.fs, root, original.source.clone(), original.flags())?;
        copy.locked_flags.set(original.locked_flags.get());
        copy.is_locked.set(original.is_locked());
        copy.join_as(original, how);
        Ok(Self::new(copy))
    }

    /// A copy of what is at `root` in `original` with all mounts beneath; those that must not be copied are left out unless
    /// `all`. ENOMEM; EPERM: one of those is locked.
    pub(super) fn copy_of(original: &Rc<Mount>, root: &Rc<Dentry>, how: Copy, all: bool) -> Result<Self> {
        let top = Self::single(original, root, how)?;
        // Originals and where their copies go, so that parents and then earlier mounts get lower numbers.
        let mut stack: Vec<(Rc<Mount>, Rc<Mount>)> = Vec::new();
        let mut next = (original.clone(), top.top().clone());
        loop {
            let (from, to) = next;
            for child in from.children()?.into_iter().rev() {
                if child.place().is_some_and(|place| to.shows(place.dentry())) {
                    crate::memory::push(&mut stack, (child, to.clone()))?;
                }
            }
            let copied = loop {
                let Some((child, to)) = stack.pop() else { return Ok(top) };
                if !child.is_unbindable() || all {
                    break (child, to);
                }
                if child.is_locked() {
                    return Err(Errno::EPERM);
                }
            };
            let (child, to) = copied;
            let copy = Self::single(&child, child.root(), how)?.take();
            if let Some(place) = child.place() {
                copy.put(&to, place.dentry());
            }
            next = (child, copy);
        }
    }
}

fn is_directory(name: &Rc<Dentry>) -> bool {
    name.inode().file_type() == FileType::Directory
}

/// Whether mounts beneath `root` in a mount hide something that must stay hidden.
fn has_locked_children(mount: &Rc<Mount>, root: &Rc<Dentry>) -> bool {
    mount
        .children
        .borrow()
        .values()
        .any(|child| child.is_locked() && child.place().is_some_and(|place| place.dentry().is_beneath(root)))
}

/// A copy of what is at a place, to be mounted elsewhere: `MS_BIND`, with `MS_REC` if `recursive`. EINVAL: it must not be
/// copied, or it would reveal what is hidden; ENOMEM.
pub fn copy(place: &PathRef, recursive: bool) -> Result<Loose> {
    let mount = place.mount();
    if mount.is_unbindable() || !recursive && has_locked_children(mount, place.dentry()) {
        return Err(Errno::EINVAL);
    }
    let copy = if recursive {
        Loose::copy_of(mount, place.dentry(), Copy::Alike, false)?
    } else {
        Loose::single(mount, place.dentry(), Copy::Alike)?
    };
    copy.top().is_locked.set(false);
    Ok(copy)
}

/// Puts a tree at a place, and copies of it wherever the place's mount reaches. ENOMEM, ENOSPC.
fn attach(tree: Loose, place: &PathRef) -> Result<()> {
    let namespace = place.mount().namespace().ok_or(Errno::EINVAL)?;
    let mounts = tree.mounts()?;
    namespace.check_room(mounts.len())?;
    let copies = copies_elsewhere(tree.top(), &mounts, place)?;
    settle(tree, place, &namespace, &mounts);
    settle_copies(copies)
}

/// Copies of a tree, whose mounts are given, and their places: those that a mount at `place` reaches. ENOMEM, ENOSPC.
fn copies_elsewhere(top: &Rc<Mount>, mounts: &[Rc<Mount>], place: &PathRef) -> Result<Vec<(PathRef, Loose)>> {
    if !place.mount().is_shared() {
        return Ok(Vec::new());
    }
    for mount in mounts {
        mount.make_shared();
    }
    propagation::copies(top, mounts.len(), place.mount(), place.dentry())
}

/// Puts copies at their places. ENOMEM: the others are taken apart.
fn settle_copies(copies: Vec<(PathRef, Loose)>) -> Result<()> {
    for (at, copy) in copies {
        let Some(namespace) = at.mount().namespace() else { continue };
        let mounts = copy.mounts()?;
        settle(copy, &at, &namespace, &mounts);
    }
    Ok(())
}

fn settle(tree: Loose, place: &PathRef, namespace: &Rc<Namespace>, mounts: &[Rc<Mount>]) {
    let top = tree.take();
    for mount in mounts {
        if !mount.is_in(namespace) {
            namespace.add(mount);
        }
    }
    top.put(place.mount(), place.dentry());
    namespace.changed();
}

/// Mounts a tree at a place, which nothing is mounted on. ENOTDIR: one is a directory and the other is not; ENOENT: the
/// place was removed; ENOMEM, ENOSPC.
pub fn mount(tree: Loose, place: &PathRef) -> Result<()> {
    if is_directory(tree.top().root()) != is_directory(place.dentry()) {
        return Err(Errno::ENOTDIR);
    }
    if place.is_deleted() {
        return Err(Errno::ENOENT);
    }
    attach(tree, place)
}

/// Moves a mount to a place, `MS_MOVE`. EINVAL: it is none, is locked, or lies in a shared one, or the place is of another
/// type; ELOOP: the place lies in it.
pub fn shift(from: &PathRef, place: &PathRef, namespace: &Rc<Namespace>) -> Result<()> {
    let mount = from.mount();
    let home = mount.namespace();
    let anonymous = home.as_ref().filter(|home| home.is_anonymous() && Rc::ptr_eq(home.bottom(), mount));
    if !from.is_mount_root() || !place.mount().is_in(namespace) {
        return Err(Errno::EINVAL);
    }
    if anonymous.is_none() && (!mount.is_in(namespace) || mount.is_locked()) {
        return Err(Errno::EINVAL);
    }
    if anonymous.is_none() && mount.place().is_none_or(|place| place.mount().is_shared()) {
        return Err(Errno::EINVAL);
    }
    if is_directory(from.dentry()) != is_directory(place.dentry()) {
        return Err(Errno::EINVAL);
    }
    if place.is_deleted() {
        return Err(Errno::ENOENT);
    }
    let mounts = mount.tree()?;
    if place.mount().is_shared() && mounts.iter().any(|mount| mount.is_unbindable()) {
        return Err(Errno::EINVAL);
    }
    if place.is_within(from) {
        return Err(Errno::ELOOP);
    }
    if let Some(home) = anonymous {
        home.release();
        return attach(Loose::new(mount.clone()), place);
    }
    let copies = copies_elsewhere(mount, &mounts, place)?;
    mount.take();
    mount.put(place.mount(), place.dentry());
    namespace.changed();
    settle_copies(copies)
}

/// Handles on a mount that it has by being in a namespace, mounted on another.
const OWN_HANDLES: usize = 2;

/// Whether programs use a mount, besides `handles` of the caller's, or something is mounted in it.
pub fn is_busy(mount: &Rc<Mount>, handles: usize) -> bool {
    !mount.children.borrow().is_empty() || Rc::strong_count(mount) > OWN_HANDLES + handles
}

/// The mounts that go when those of `tree` (parents first) are unmounted, in the places that they reach. ENOMEM.
fn reached(tree: &[Rc<Mount>]) -> Result<Vec<Rc<Mount>>> {
    let mut found: Vec<Rc<Mount>> = Vec::new();
    for mount in tree {
        let Some(place) = mount.place() else { continue };
        for other in propagation::reached(place.mount())? {
            if let Some(child) = other.child_at(place.dentry()).filter(|child| Rc::ptr_eq(child.root(), mount.root())) {
                crate::memory::push(&mut found, child)?;
            }
        }
    }
    // Children before their parents: those that keep something else stay.
    let operation = super::new_mark();
    tree.iter().for_each(|mount| mount.mark.set(operation));
    let mut going: Vec<Rc<Mount>> = Vec::new();
    for mount in found.into_iter().rev() {
        let is_going = |mount: &Rc<Mount>| mount.mark.get() == operation;
        let stays = mount.is_locked() || !mount.children.borrow().values().all(is_going);
        if !stays && !is_going(&mount) {
            mount.mark.set(operation);
            crate::memory::push(&mut going, mount)?;
        }
    }
    Ok(going)
}

/// Unmounts what is mounted at `place`, whose root it is. `lazily`: with all mounts beneath, and those that use it go on.
/// `handles`: how many the caller has on the mount. EBUSY, ENOMEM; EINVAL: it is the root of the namespace, or locked.
pub fn unmount(mount: &Rc<Mount>, lazily: bool, handles: usize) -> Result<()> {
    if mount.place().is_none() || mount.is_locked() {
        return Err(Errno::EINVAL);
    }
    if !lazily && is_busy(mount, handles) {
        return Err(Errno::EBUSY);
    }
    let tree = mount.tree()?;
    let others = reached(&tree)?;
    if !lazily && others.iter().any(|other| is_busy(other, 1)) {
        return Err(Errno::EBUSY);
    }
    drop(tree);
    for other in others {
        other.take();
        dissolve(&other, lazily);
    }
    mount.take();
    dissolve(mount, lazily);
    Ok(())
}

/// pivot_root(2): `new` becomes the root, and the root mount of the caller, `root`, goes to `old`. EBUSY: `new` or `old` are
/// on the root mount; EINVAL: shared, locked, not mounts, not beneath each other; ENOENT.
pub fn pivot(root: &PathRef, new: &PathRef, old: &PathRef, namespace: &Rc<Namespace>) -> Result<()> {
    let (root_mount, new_mount, old_mount) = (root.mount(), new.mount(), old.mount());
    let is_in_shared = |mount: &Rc<Mount>| mount.place().is_some_and(|place| place.mount().is_shared());
    if old_mount.is_shared() || is_in_shared(new_mount) || is_in_shared(root_mount) {
        return Err(Errno::EINVAL);
    }
    if !root_mount.is_in(namespace) || !new_mount.is_in(namespace) || new_mount.is_locked() {
        return Err(Errno::EINVAL);
    }
    if new.is_deleted() {
        return Err(Errno::ENOENT);
    }
    if Rc::ptr_eq(new_mount, root_mount) || Rc::ptr_eq(old_mount, root_mount) {
        return Err(Errno::EBUSY);
    }
    let root_place = root_mount.place().filter(|_| root.is_mount_root()).ok_or(Errno::EINVAL)?;
    if !new.is_mount_root() || new_mount.place().is_none() || !old.is_within(new) || !new.is_within(root) {
        return Err(Errno::EINVAL);
    }
    new_mount.take();
    if root_mount.is_locked() {
        new_mount.is_locked.set(true);
        root_mount.is_locked.set(false);
    }
    root_mount.take();
    root_mount.put(old_mount, old.dentry());
    new_mount.put(root_place.mount(), root_place.dentry());
    namespace.changed();
    Ok(())
}

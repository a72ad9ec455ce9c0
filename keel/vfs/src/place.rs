//! Places: names as they are reached through the mounts of a namespace.

use crate::memory::{append, copy, push};
use crate::mount::Mount;
use crate::{Dentry, Inode, Name};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Deref;
use uapi::{Errno, Result};

/// A place in the tree: a name of a file system, and the mount through which it is seen. Cheap to copy.
#[derive(Clone, Debug)]
pub struct PathRef {
    mount: Rc<Mount>,
    dentry: Rc<Dentry>,
}

impl Deref for PathRef {
    type Target = Dentry;

    fn deref(&self) -> &Dentry {
        &self.dentry
    }
}

impl PathRef {
    pub(crate) fn new(mount: Rc<Mount>, dentry: Rc<Dentry>) -> Self {
        Self { mount, dentry }
    }

    /// The root of a mount.
    pub fn root_of(mount: &Rc<Mount>) -> Self {
        Self { mount: mount.clone(), dentry: mount.root().clone() }
    }

    /// A number for [`crate::ways`] that no other place had or will have, but one of a time before mounts were changed.
    pub fn number(&self) -> u64 {
        u64::from(self.mount.id) << 40 ^ self.dentry.number()
    }

    /// The mount it is seen through.
    #[inline]
    pub fn mount(&self) -> &Rc<Mount> {
        &self.mount
    }

    /// The name in its file system, whatever the mount.
    #[inline]
    pub fn dentry(&self) -> &Rc<Dentry> {
        &self.dentry
    }

    /// Whether both are the same name, seen through the same mount.
    #[inline]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.dentry, &other.dentry) && Rc::ptr_eq(&self.mount, &other.mount)
    }

    /// Whether it is the root of its mount.
    #[inline]
    pub fn is_mount_root(&self) -> bool {
        Rc::ptr_eq(&self.dentry, self.mount.root())
    }

    /// A name in the same mount.
    fn beside(&self, dentry: Rc<Dentry>) -> Self {
        Self { mount: self.mount.clone(), dentry }
    }

    /// The root of what is mounted here last; itself if nothing is.
    pub fn covered(mut self) -> Self {
        while self.dentry.mounts.get() != 0 {
            let Some(over) = self.mount.child_at(&self.dentry) else { break };
            self = Self::root_of(&over);
        }
        self
    }

    /// Goes to a name of this directory, and to what is mounted there.
    #[inline]
    pub(crate) fn enter(&mut self, dentry: Rc<Dentry>) {
        self.dentry = dentry;
        if self.dentry.mounts.get() != 0 {
            *self = self.clone().covered();
        }
    }

    /// Looks a name up; what is mounted there is found. `ahead`: what will be looked up beneath it. `cached_only`: EAGAIN where
    /// the file system would have to be asked. ENOENT, ENOTDIR, ENAMETOOLONG.
    pub fn lookup(&self, name: &[u8], ahead: &[u8], cached_only: bool) -> Result<Self> {
        Ok(self.beside(self.dentry.lookup(name, ahead, cached_only)?).covered())
    }

    /// The place on which its mount lies, and the one on which that lies if it is a mount's root, too: the first that has
    /// a name. `None`: it has no name in any directory.
    fn named(&self) -> Option<Self> {
        let mut at = self.clone();
        while at.is_mount_root() {
            at = at.mount.place()?;
        }
        Some(at)
    }

    /// Its directory; `None` for the root of the tree and for files without a name.
    pub fn parent(&self) -> Option<Self> {
        let at = self.named()?;
        let above = at.dentry.above()?;
        Some(Self { mount: at.mount, dentry: above })
    }

    /// The directory above for a walk beneath `root`, and what is mounted there. ENOENT: the place was moved out of what its
    /// mount shows.
    pub(crate) fn up(&self, root: &Self) -> Result<Self> {
        let mut lower = None;
        let at = loop {
            let at = lower.as_ref().unwrap_or(self);
            if at.same(root) {
                return Ok(self.clone().covered());
            }
            if !at.is_mount_root() {
                break at;
            }
            match at.mount.place() {
                Some(place) => lower = Some(place),
                None => return Ok(self.clone().covered()),
            }
        };
        let Some(above) = at.dentry.above() else { return Ok(self.clone()) };
        if !at.mount.shows(&above) {
            return Err(Errno::ENOENT);
        }
        Ok(at.beside(above).covered())
    }

    /// Whether `self` is `other` or lies beneath it.
    pub fn is_within(&self, other: &Self) -> bool {
        let mut at = self.clone();
        while !at.same(other) {
            let next = if at.is_mount_root() { at.mount.place() } else { at.dentry.above().map(|d| at.beside(d)) };
            match next {
                Some(next) => at = next,
                None => return false,
            }
        }
        true
    }

    /// Absolute path as seen from `root` (`None`: the tree's root). A place outside of `root` shows
    /// its path in the whole tree. For an unnamed file, its name. ENOMEM: programs make paths of any length.
    pub fn path(&self, root: Option<&Self>) -> Result<Vec<u8>> {
        let mut names: Vec<Name> = Vec::new();
        let mut at = self.clone();
        while !root.is_some_and(|root| at.same(root)) {
            if at.is_mount_root() {
                let Some(place) = at.mount.place() else { break };
                at = place;
                continue;
            }
            let Some(above) = at.dentry.above() else {
                if names.is_empty() && at.is_deleted() {
                    return copy(&at.name());
                }
                break;
            };
            push(&mut names, at.name())?;
            at = at.beside(above);
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
    pub fn display_path(&self, root: Option<&Self>) -> Result<Vec<u8>> {
        let mut path = self.path(root)?;
        if self.is_deleted() {
            append(&mut path, b" (deleted)")?;
        }
        Ok(path)
    }

    /// The result of an operation on its inode. After ESTALE, another file may have the name: the file system is asked for it at the
    /// next use.
    pub fn unless_stale<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Errno::ESTALE))
            && let Some(directory) = self.dentry.above()
        {
            directory.doubt(&self.name());
        }
        result
    }

    /// An inode without a name that was made in this directory (`O_TMPFILE`).
    pub fn unnamed_child(&self, name: &[u8], inode: Rc<dyn Inode>) -> Self {
        self.beside(Dentry::unnamed(Some(self.dentry.clone()), name, inode))
    }

    /// Enters a child; the existing one is kept if it stands for the same inode.
    pub fn adopt(&self, name: &[u8], inode: Rc<dyn Inode>, expires: u64) -> Self {
        self.beside(self.dentry.adopt(name, inode, expires))
    }

    /// Enters a child that was just made, after `changes` of the children were done before. If there were others since, the
    /// file system is asked at the next use.
    pub fn adopt_new(&self, name: &[u8], inode: Rc<dyn Inode>, expires: u64, changes: u64) -> Self {
        self.beside(self.dentry.adopt_new(name, inode, expires, changes))
    }
}

//! The pod's tree: its root, and file systems attached in it.

use crate::host::HostNode;
use crate::node::Node;
use crate::walk::Walk;
use crate::{Cred, Dentry, FileType, Inode, Mount, Name, NewNode, PathRef};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// See the module.
pub struct Tree {
    root: PathRef,
    mounts: RefCell<Vec<Rc<Mount>>>,
    /// Host directories with mounts, which the host does not know about.
    attached: RefCell<Vec<Rc<dyn Inode>>>,
    next_id: Cell<u32>,
    next_minor: Cell<u32>,
    /// For files without a name.
    unnamed: Rc<Mount>,
}

impl core::fmt::Debug for Tree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tree").field("mounts", &self.mounts).finish_non_exhaustive()
    }
}

/// First mount id, as in a container.
const FIRST_ID: u32 = 20;

impl Tree {
    /// A tree whose root is `root`.
    pub fn new(root: Rc<Node>, kind: &'static str) -> Self {
        let mount = |id, at: &[u8], kind| {
            Rc::new(Mount { id, parent: 1, at: Rc::from(at), kind, source: kind, read_only: Cell::new(false) })
        };
        let root_mount = mount(FIRST_ID, b"/", kind);
        Self {
            root: Dentry::root(root, root_mount.clone()),
            mounts: RefCell::new(alloc::vec![root_mount]),
            attached: RefCell::default(),
            next_id: Cell::new(FIRST_ID + 1),
            next_minor: Cell::new(FIRST_ID),
            unnamed: mount(FIRST_ID - 1, b"", "tmpfs"),
        }
    }

    /// The root.
    pub fn root(&self) -> &PathRef {
        &self.root
    }

    /// Lets changes of the root's file system fail with EROFS from now on.
    pub fn seal(&self) {
        self.root.mount().read_only.set(true);
    }

    /// All mounts, the root first.
    pub fn mounts(&self) -> Vec<Rc<Mount>> {
        self.mounts.borrow().clone()
    }

    /// A device number for another file system.
    pub fn new_dev(&self) -> u64 {
        let minor = self.next_minor.get();
        self.next_minor.set(minor + 1);
        crate::attr::makedev(0, minor)
    }

    /// A place for a file without a name; `name` is the target of `/proc/self/fd`.
    pub fn unnamed(&self, name: &[u8], inode: Rc<dyn Inode>) -> PathRef {
        Dentry::unnamed(name, inode, self.unnamed.clone())
    }

    /// The directory at an absolute path, created with its parents if missing (mode 0755, owned by root).
    pub fn make_dirs(&self, path: &[u8]) -> Result<PathRef> {
        self.make_dirs_mode(path, 0o755)
    }

    /// As [`Self::make_dirs`], with a mode for created directories.
    pub fn make_dirs_mode(&self, path: &[u8], mode: u32) -> Result<PathRef> {
        let mut at = self.root.clone();
        for name in path.split(|&b| b == b'/').filter(|n| !n.is_empty()) {
            let walk = Walk::new(self.root.clone(), Cred::ROOT);
            at = match walk.resolve(&at, name, true) {
                Ok(found) if found.inode().file_type() == FileType::Directory => found,
                Ok(_) => return Err(Errno::ENOTDIR),
                Err(Errno::ENOENT) => {
                    crate::ops::create_in(&at, name, &NewNode::plain(0o040000 | mode, 0, 0), &Cred::ROOT)?
                }
                Err(errno) => return Err(errno),
            };
        }
        Ok(at)
    }

    /// The parent directory of a path (created if missing) and its last component.
    fn split<'p>(&self, path: &'p [u8]) -> Result<(PathRef, &'p [u8])> {
        let end = path.iter().rposition(|&b| b != b'/').ok_or(Errno::EBUSY)? + 1;
        let path = &path[..end];
        let at = path.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
        Ok((self.make_dirs(&path[..at])?, &path[at..]))
    }

    /// Mounts a file system (or a file of one) at an absolute path. The parent directory must be a private one, which
    /// may overlay the host's, or one of a writable export.
    pub fn attach(
        &self,
        path: &[u8],
        inode: Rc<dyn Inode>,
        kind: &'static str,
        source: &'static str,
        read_only: bool,
    ) -> Result<PathRef> {
        let (dir, name) = self.split(path)?;
        let directory = dir.inode().as_any();
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let at: Name = Rc::from(
            [&dir.path(None)?[..], b"/", name]
                .concat()
                .strip_prefix(b"/")
                .map_or_else(|| path.to_vec(), |p| if p.starts_with(b"/") { p.to_vec() } else { [b"/", p].concat() }),
        );
        let mount = Rc::new(Mount { id, parent: dir.mount().id, at, kind, source, read_only: Cell::new(read_only) });
        if let Some(parent) = directory.downcast_ref::<Node>() {
            parent.attach(name, inode.clone(), mount.clone())?;
        } else {
            directory.downcast_ref::<HostNode>().ok_or(Errno::EBUSY)?.attach(name, &inode, &mount)?;
            self.attached.borrow_mut().push(dir.inode().clone());
        }
        self.mounts.borrow_mut().push(mount.clone());
        Ok(dir.adopt(name, inode, u64::MAX, Some(mount)))
    }

    /// Registers a mount whose root a generated directory contains itself ([`crate::synth::What::Mounted`]); `at` is
    /// its absolute path, `parent` the parent mount.
    pub fn add_mount(&self, at: &[u8], parent: &Mount, kind: &'static str, source: &'static str) -> Rc<Mount> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let mount =
            Rc::new(Mount { id, parent: parent.id, at: Rc::from(at), kind, source, read_only: Cell::new(false) });
        self.mounts.borrow_mut().push(mount.clone());
        mount
    }

    /// Makes a symbolic link at an absolute path; an existing name is left alone.
    pub fn symlink(&self, path: &[u8], target: &[u8]) -> Result<()> {
        self.create(path, &NewNode { target, ..NewNode::plain(0o120777, 0, 0) }).map(drop)
    }

    /// Creates a node at an absolute path, with its parents; returns an existing one.
    pub fn create(&self, path: &[u8], new: &NewNode<'_>) -> Result<PathRef> {
        let (dir, name) = self.split(path)?;
        match crate::ops::create_in(&dir, name, new, &Cred::ROOT) {
            Err(Errno::EEXIST) => dir.lookup(name, &[], false),
            other => other,
        }
    }

    /// Writes a whole private file at an absolute path, replacing an existing one.
    pub fn write_file(&self, path: &[u8], mode: u32, content: &[u8]) -> Result<()> {
        let (dir, name) = self.split(path)?;
        match dir.lookup(name, &[], false) {
            Ok(old) => {
                dir.inode().unlink(name, old.inode())?;
                dir.forget(name);
            }
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        let file = crate::ops::create_in(&dir, name, &NewNode::plain(0o100000 | mode, 0, 0), &Cred::ROOT)?;
        file.inode().write_at(0, &mut crate::io::KernelSrc(content)).map(drop)
    }
}

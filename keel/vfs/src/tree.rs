//! The pod's tree: its root, and file systems attached in it.

use crate::attr::makedev;
use crate::host::HostNode;
use crate::mount::{self, FileSystem, Loose, Namespace, flags};
use crate::node::Node;
use crate::node::{Private, Space};
use crate::walk::Walk;
use crate::{Cred, Dentry, FileType, Inode, Mount, NewNode, PathRef};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uapi::{Errno, Result};

/// See the module.
pub struct Tree {
    root: PathRef,
    namespace: Rc<Namespace>,
    /// Host directories with mounts, which the host does not know about.
    attached: RefCell<Vec<Rc<dyn Inode>>>,
    /// Makes what mounts lie on in those.
    places: Rc<Private>,
    next_minor: Cell<u32>,
    /// For files without a name.
    unnamed: Rc<Mount>,
}

impl core::fmt::Debug for Tree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tree").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// First device number of a file system, the root's but one.
const FIRST_MINOR: u32 = 20;

impl Tree {
    /// A tree whose root is `root`. ENOMEM.
    pub fn new(root: Rc<Node>, kind: &'static str) -> Result<Self> {
        let places = Private::new(makedev(0, 2), Space::new(0));
        let beneath = FileSystem::new(places.node(&NewNode::plain(0o040755, 0, 0)), "rootfs");
        let unnamed = FileSystem::new(places.node(&NewNode::plain(0o040755, 0, 0)), "tmpfs");
        let unnamed = Mount::unnumbered(&unnamed);
        let fs = FileSystem::new(root, kind);
        let root = Mount::new(&fs, fs.root(), Rc::from(kind.as_bytes()), flags::RELATIME)?;
        let namespace = Namespace::first(&beneath, &root)?;
        Ok(Self {
            root: namespace.root(),
            namespace,
            attached: RefCell::default(),
            places,
            next_minor: Cell::new(FIRST_MINOR),
            unnamed,
        })
    }

    /// The root.
    pub fn root(&self) -> &PathRef {
        &self.root
    }

    /// The namespace of the first program.
    pub fn namespace(&self) -> &Rc<Namespace> {
        &self.namespace
    }

    /// Lets changes of the root's file system fail with EROFS from now on.
    pub fn seal(&self) {
        seal(self.root.mount());
    }

    /// A device number for another file system.
    pub fn new_dev(&self) -> u64 {
        let minor = self.next_minor.get();
        self.next_minor.set(minor.wrapping_add(1));
        makedev(0, minor)
    }

    /// A place for a file without a name; `name` is the target of `/proc/self/fd`.
    pub fn unnamed(&self, name: &[u8], inode: Rc<dyn Inode>) -> PathRef {
        PathRef::new(self.unnamed.clone(), Dentry::unnamed(None, name, inode))
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
        let is_directory = inode.file_type() == FileType::Directory;
        let beneath = if let Some(parent) = dir.inode().as_any().downcast_ref::<Node>() {
            parent.cover_with(name, is_directory)?
        } else {
            let parent = dir.inode().as_any().downcast_ref::<HostNode>().ok_or(Errno::EBUSY)?;
            let mode = if is_directory { 0o040755 } else { 0o100644 };
            let beneath: Rc<dyn Inode> = self.places.node(&NewNode::plain(mode, 0, 0));
            parent.cover_with(name, &beneath)?;
            self.attached.borrow_mut().push(dir.inode().clone());
            beneath
        };
        self.attach_at(&dir.adopt(name, beneath, u64::MAX).covered(), FileSystem::new(inode, kind), source, read_only)
    }

    /// Mounts a file system at a place.
    pub fn attach_at(
        &self,
        place: &PathRef,
        fs: Rc<FileSystem>,
        source: &'static str,
        read_only: bool,
    ) -> Result<PathRef> {
        let tree = Loose::of(&fs, Rc::from(source.as_bytes()), flags::RELATIME)?;
        let mount = tree.top().clone();
        if read_only {
            seal(&mount);
        }
        mount::change::mount(tree, place)?;
        Ok(PathRef::root_of(&mount))
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
}

/// Lets changes of a mount and of its file system fail with EROFS, for ever.
fn seal(mount: &Mount) {
    mount.fs().set_read_only(true);
    mount.fs().is_fixed.set(true);
    // Nothing is locked at boot.
    let _ = mount.set_flags(mount.flags() | flags::READ_ONLY);
}

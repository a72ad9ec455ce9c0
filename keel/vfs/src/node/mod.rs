//! Private files of the pod, in memory: tmpfs, and the layer over the files of a read-only export or an image.
//!
//! There is one kind of node for both. A [`Node`] may have a [*lower*](Lower) file on the host or in an image: then
//! attributes, names and content come from there until the pod changes them. A directory holds its
//! private entries and whiteouts above the lower names; a file takes a private copy of its content
//! at the first write; a change of attributes copies no data. A changed node is entered in its
//! directory's private table (it is *pinned*), all others live only while they are referenced.

mod dir;
mod file;
mod inode;
mod lower;
mod shown;

pub use file::{FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE};
mod xattr;

use crate::acl::Kind;
use crate::attr::{self, now};
use crate::inode::Attachments;
use crate::shown::Shown;
use crate::{Attr, FileType, Name, NewNode};
use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use dir::Entries;
use file::Pages;
use lower::Lower;
use uapi::{Errno, Result};
use xattr::Xattrs;

/// Room for the content of private files: of one file system, or of several that share it.
#[derive(Clone, Debug)]
pub struct Space(Rc<Room>);

#[derive(Debug)]
struct Room {
    max_pages: Cell<usize>,
    used_pages: Cell<usize>,
    /// Its pages are also pages of this room.
    outer: Option<Space>,
}

impl Space {
    /// So many pages.
    pub fn new(max_pages: usize) -> Self {
        Self::with(max_pages, None)
    }

    /// So many of these pages.
    pub fn part(&self, max_pages: usize) -> Self {
        Self::with(max_pages, Some(self.clone()))
    }

    fn with(max_pages: usize, outer: Option<Self>) -> Self {
        Self(Rc::new(Room { max_pages: Cell::new(max_pages), used_pages: Cell::new(0), outer }))
    }

    /// The room, and those that it is a part of.
    fn rooms(&self) -> impl Iterator<Item = &Room> {
        core::iter::successors(Some(&*self.0), |room| room.outer.as_ref().map(|outer| &*outer.0))
    }

    /// Pages that are left.
    fn free(&self) -> usize {
        self.rooms().map(Room::free).min().unwrap_or(0)
    }
}

impl Room {
    fn free(&self) -> usize {
        self.max_pages.get().saturating_sub(self.used_pages.get())
    }
}

/// Space and numbers of one private file system.
pub struct Private {
    dev: u64,
    next_ino: Cell<u64>,
    space: Space,
    nodes: Cell<u64>,
    /// Most files and directories.
    max_nodes: Cell<u64>,
    /// Changed nodes over host files with several names: each name must lead to them.
    linked: RefCell<Vec<Rc<Node>>>,
    is_overlay: bool,
}

impl core::fmt::Debug for Private {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Private").field("dev", &self.dev).finish_non_exhaustive()
    }
}

impl Private {
    /// A file system with its device number and the room for its files.
    pub fn new(dev: u64, space: Space) -> Rc<Self> {
        Rc::new(Self::make(dev, space, false))
    }

    /// One over host files: its own inode numbers stay clear of the host's.
    pub fn overlay(dev: u64, space: Space) -> Rc<Self> {
        Rc::new(Self::make(dev, space, true))
    }

    /// Lets the changed nodes go that only the file system holds: at its end.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn forget_linked(&self) {
        drop(self.linked.take());
    }

    fn make(dev: u64, space: Space, is_overlay: bool) -> Self {
        Self {
            dev,
            next_ino: Cell::new(if is_overlay { 1 << 40 } else { 1 }),
            space,
            nodes: Cell::new(0),
            max_nodes: Cell::new(u64::MAX),
            linked: RefCell::default(),
            is_overlay,
        }
    }

    fn ino(&self) -> u64 {
        let ino = self.next_ino.get();
        self.next_ino.set(ino + 1);
        ino
    }

    /// Accounts for new pages. ENOSPC.
    fn reserve(&self, pages: usize) -> Result<()> {
        if pages > self.space.free() {
            return Err(Errno::ENOSPC);
        }
        self.space.rooms().for_each(|room| room.used_pages.set(room.used_pages.get() + pages));
        Ok(())
    }

    /// ENOSPC when there may be no more files, or no memory is there for one.
    fn check_nodes(&self) -> Result<()> {
        if self.nodes.get() >= self.max_nodes.get() { Err(Errno::ENOSPC) } else { self.check_memory() }
    }

    /// Limits pages, or files and directories; `None`: as before. EINVAL: more is in use.
    pub fn limit(&self, pages: Option<usize>, nodes: Option<u64>) -> Result<()> {
        let room = &self.space.0;
        if pages.is_some_and(|pages| pages < room.used_pages.get())
            || nodes.is_some_and(|nodes| nodes < self.nodes.get())
        {
            return Err(Errno::EINVAL);
        }
        room.max_pages.set(pages.unwrap_or(room.max_pages.get()));
        self.max_nodes.set(nodes.unwrap_or(self.max_nodes.get()));
        Ok(())
    }

    /// ENOSPC when there is no memory for more names and files.
    fn check_memory(&self) -> Result<()> {
        crate::memory::check().map_err(|_| Errno::ENOSPC)
    }

    fn release(&self, pages: usize) {
        self.space.rooms().for_each(|room| room.used_pages.set(room.used_pages.get().saturating_sub(pages)));
    }

    /// A node without a name and without a lower file.
    pub fn node(self: &Rc<Self>, new: &NewNode<'_>) -> Rc<Node> {
        self.node_on(self.dev, new)
    }

    fn node_on(self: &Rc<Self>, dev: u64, new: &NewNode<'_>) -> Rc<Node> {
        let (s, ns) = now();
        let kind = FileType::of(new.mode);
        let attr = Attr {
            ino: self.ino(),
            dev,
            mode: kind.mode_bits() | new.mode & 0o7777,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: new.uid,
            gid: new.gid,
            rdev: new.rdev,
            size: new.target.len() as u64,
            blksize: 4096,
            btime: s,
            btime_ns: ns,
            ..attr::since((s, ns))
        };
        let body = match kind {
            FileType::Directory => Body::Directory(Entries::default()),
            FileType::Regular => Body::File(Pages::default()),
            FileType::Symlink => Body::Link(Rc::from(new.target)),
            _ => Body::Special,
        };
        Node::make(self.clone(), kind, attr, OWN_ATTR | OWN_DATA, body, None, None)
    }

    /// The root directory over a directory of the host or of an image.
    pub fn over(self: &Rc<Self>, lower: impl Into<Lower>) -> Rc<Node> {
        Node::over(self, lower.into(), None)
    }
}

/// [`Node::own`]: the attributes are the pod's.
const OWN_ATTR: u8 = 1;
/// [`Node::own`]: the content is the pod's.
const OWN_DATA: u8 = 2;

enum Body {
    Directory(Entries),
    File(Pages),
    /// Target, of a link that the pod made.
    Link(Name),
    /// Device, FIFO, socket, or a link of the host.
    Special,
}

/// A private file or directory; see the module.
pub struct Node {
    this: Weak<Node>,
    fs: Rc<Private>,
    kind: FileType,
    /// Valid with [`OWN_ATTR`].
    attr: Cell<Attr>,
    own: Cell<u8>,
    body: Body,
    lower: Option<Lower>,
    /// Directory and name where it was found, until it is pinned there.
    origin: RefCell<Option<(Rc<Node>, Name)>>,
    /// Made without a name, may get one.
    unnamed: Cell<bool>,
    seals: Cell<u32>,
    xattrs: RefCell<Option<Box<Xattrs>>>,
    attachments: Attachments,
    /// That of the host file, if there is one.
    shown: OnceCell<Arc<Shown>>,
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node").field("kind", &self.kind).field("lower", &self.lower).finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The host file, which may live on, has the same place for views.
        self.withdraw();
        self.fs.nodes.set(self.fs.nodes.get().saturating_sub(1));
        if let Body::File(pages) = &self.body {
            self.fs.release(pages.len());
        }
        // What lies beneath, and the directories above, one after the other: trees may be deep, and kernel stacks are small.
        if let Body::Directory(entries) = &self.body {
            entries.clear();
        }
        let mut next = self.origin.take();
        while let Some(node) = next.and_then(|(dir, _)| Rc::into_inner(dir)) {
            next = node.origin.take();
        }
    }
}

impl Node {
    /// The file system that it is in.
    pub fn file_system(&self) -> &Rc<Private> {
        &self.fs
    }

    fn make(
        fs: Rc<Private>,
        kind: FileType,
        attr: Attr,
        own: u8,
        body: Body,
        lower: Option<Lower>,
        origin: Option<(Rc<Self>, Name)>,
    ) -> Rc<Self> {
        fs.nodes.set(fs.nodes.get() + 1);
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            fs,
            kind,
            attr: Cell::new(attr),
            own: Cell::new(own),
            body,
            lower,
            origin: RefCell::new(origin),
            unnamed: Cell::new(false),
            seals: Cell::new(F_SEAL_SEAL),
            xattrs: RefCell::new(None),
            attachments: Attachments::default(),
            shown: OnceCell::new(),
        })
    }

    /// The node over a lower file: the one that exists, or a new one.
    fn over(fs: &Rc<Private>, lower: Lower, origin: Option<(Rc<Self>, Name)>) -> Rc<Self> {
        if let Some(node) = lower.overlay().borrow().upgrade() {
            return node;
        }
        let kind = lower.kind();
        let body = match kind {
            FileType::Directory => Body::Directory(Entries::default()),
            FileType::Regular => Body::File(Pages::default()),
            _ => Body::Special,
        };
        let node = Self::make(fs.clone(), kind, Attr::default(), 0, body, Some(lower.clone()), origin);
        lower.overlay().replace(Rc::downgrade(&node));
        node
    }

    fn rc(&self) -> Result<Rc<Self>> {
        self.this.upgrade().ok_or(Errno::ESTALE)
    }

    fn owns(&self, what: u8) -> bool {
        self.own.get() & what != 0
    }

    /// The lower file whose content it shows.
    fn lower_data(&self) -> Option<&Lower> {
        if self.owns(OWN_DATA) { None } else { self.lower.as_ref() }
    }

    fn ino(&self) -> u64 {
        match &self.lower {
            Some(lower) => lower.attr_known().ino,
            None => self.attr.get().ino,
        }
    }

    /// Enters it in its directory's private table, and that in its own, up to the root.
    fn pin(&self) -> Result<()> {
        let Some((dir, name)) = self.origin.take() else { return Ok(()) };
        let this = self.rc()?;
        if self.kind != FileType::Directory && self.attr.get().nlink > 1 {
            crate::memory::push(&mut self.fs.linked.borrow_mut(), this.clone())?;
        }
        dir.entries()?.pin(name, this);
        dir.pin()
    }

    /// Takes a private copy of the attributes, to change them.
    fn own_attr(&self) -> Result<()> {
        if self.owns(OWN_ATTR) {
            return Ok(());
        }
        self.take_attr()?;
        self.pin()
    }

    /// The same without a place in its directory's table: for a file that is about to lose it.
    fn take_attr(&self) -> Result<()> {
        if self.owns(OWN_ATTR) {
            return Ok(());
        }
        if let Some(lower) = &self.lower {
            let (access, default) = (self.list_of(Kind::Access)?, self.list_of(Kind::Default)?);
            let attr = lower.fresh_attr()?;
            let xattrs = lower.xattrs()?;
            if !self.owns(OWN_ATTR) {
                self.adopt_xattrs(xattrs);
                self.keep_list(Kind::Access, access)?;
                self.keep_list(Kind::Default, default)?;
                self.withdraw();
                self.attr.set(attr);
                self.own.set(self.own.get() | OWN_ATTR);
                self.permissions_changed();
            }
        }
        Ok(())
    }

    /// It is about to change: nothing is shown of it to calls without the big lock.
    #[inline]
    fn withdraw(&self) {
        if let Some(shown) = self.shown.get() {
            shown.withdraw();
        }
    }

    /// Changes own attributes.
    fn update(&self, f: impl FnOnce(&mut Attr)) {
        self.withdraw();
        let before = self.attr.get();
        let mut attr = before;
        f(&mut attr);
        self.attr.set(attr);
        if (attr.mode, attr.uid, attr.gid) != (before.mode, before.uid, before.gid) {
            self.permissions_changed();
        }
    }

    /// Mode, owner or access control lists may have changed.
    #[cold]
    fn permissions_changed(&self) {
        crate::ways::changed(core::ptr::from_ref(self).addr());
    }

    /// Something about the file changed now.
    fn touch_ctime(&self) {
        let (s, ns) = now();
        self.update(|a| (a.ctime, a.ctime_ns) = (s, ns));
    }

    /// Its content changed now.
    fn touch_mtime(&self) {
        let (s, ns) = now();
        self.update(|a| {
            (a.mtime, a.mtime_ns) = (s, ns);
            (a.ctime, a.ctime_ns) = (s, ns);
        });
    }

    /// It was read: the access time moves if it is not after the last change (relatime).
    fn touch_atime(&self) {
        if !self.has_settled_atime() {
            let (s, ns) = now();
            self.update(|a| (a.atime, a.atime_ns) = (s, ns));
        }
    }

    /// Whether reading leaves the access time as it is.
    fn has_settled_atime(&self) -> bool {
        // Files of the host keep theirs; and a node that is only looked at is not pinned.
        if self.lower.is_some() {
            return true;
        }
        let attr = self.attr.get();
        let atime = (attr.atime, attr.atime_ns);
        atime > (attr.mtime, attr.mtime_ns) && atime > (attr.ctime, attr.ctime_ns)
    }

    /// Seals of a memory file; `None` if it can't have any.
    pub fn seals(&self) -> Option<u32> {
        matches!(self.body, Body::File(_)).then(|| self.seals.get())
    }

    /// Made without a name, it never gets one (`O_TMPFILE | O_EXCL`).
    pub fn never_named(&self) {
        self.unnamed.set(false);
    }

    /// Makes it sealable (memfd_create(2) with `MFD_ALLOW_SEALING`).
    pub fn allow_sealing(&self) {
        self.seals.set(0);
    }

    /// F_ADD_SEALS of fcntl(2). EPERM once sealed against more.
    pub fn add_seals(&self, seals: u32) -> Result<()> {
        if seals & !F_SEAL_ALL != 0 {
            return Err(Errno::EINVAL);
        }
        if self.seals.get() & F_SEAL_SEAL != 0 {
            return Err(Errno::EPERM);
        }
        // What can be executed and stays so must not change either.
        let is_executable = seals & F_SEAL_EXEC != 0 && self.attr.get().mode & 0o111 != 0;
        let more = if is_executable { F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE } else { 0 };
        self.seals.set(self.seals.get() | seals | more);
        Ok(())
    }
}

/// No more seals.
pub const F_SEAL_SEAL: u32 = 1;
/// The file can't shrink.
pub const F_SEAL_SHRINK: u32 = 2;
/// The file can't grow.
pub const F_SEAL_GROW: u32 = 4;
/// The file can't be written.
pub const F_SEAL_WRITE: u32 = 8;
/// The file can't be written except through mappings that exist.
pub const F_SEAL_FUTURE_WRITE: u32 = 16;
/// The file's execute bits can't change.
pub const F_SEAL_EXEC: u32 = 32;
const F_SEAL_ALL: u32 = 63;

//! Mounts: file systems, or parts of them, at places in the tree, mount_namespaces(7).
//!
//! A [`FileSystem`] has one tree of names. A [`Mount`] shows it, or a part, at a place: a name in its parent mount. A
//! [`Namespace`] is a tree of mounts. Mounts form [groups](propagation) whose changes reach each other. What a mount is
//! mounted on is kept in the parent ([`Mount::child_at`]); a name knows only whether anything is mounted on it anywhere, so a
//! walk past other names costs nothing.
//!
//! A mount in the tree holds its parent, and the parent holds it: whoever takes a tree of mounts out of the namespace
//! [dissolves](dissolve) it. All of that goes without recursion: programs nest mounts as deep as they like.

pub mod change;
pub mod namespace;
pub mod propagation;

pub use change::Loose;
pub use namespace::Namespace;

use crate::cred::Ids;
use crate::dentry::unused::Share;
use crate::memory::{Living, check};
use crate::{Dentry, Inode, Name, PathRef, ways};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, OnceCell, RefCell};
use core::ops::Bound;
use hal::cell::Global;
use keel_core::pieces::Pieces;
use propagation::Group;
use uapi::{Errno, Result};

/// Flags of a mount, with the values of mount(2).
pub mod flags {
    use uapi::raw::general as g;

    /// Changes fail with EROFS.
    pub const READ_ONLY: u32 = g::MS_RDONLY;
    /// Programs get no other user's rights.
    pub const NO_SUID: u32 = g::MS_NOSUID;
    /// Devices can't be opened.
    pub const NO_DEV: u32 = g::MS_NODEV;
    /// Nothing is executed.
    pub const NO_EXEC: u32 = g::MS_NOEXEC;
    /// Symbolic links are not followed.
    pub const NO_SYMFOLLOW: u32 = g::MS_NOSYMFOLLOW;
    /// Access times: at most one of these two, and [`NO_DIR_ATIME`].
    pub const NO_ATIME: u32 = g::MS_NOATIME;
    /// See [`NO_ATIME`].
    pub const RELATIME: u32 = g::MS_RELATIME;
    /// Access times of directories stay.
    pub const NO_DIR_ATIME: u32 = g::MS_NODIRATIME;
    /// All about access times.
    pub const ATIMES: u32 = NO_ATIME | RELATIME | NO_DIR_ATIME;
    /// All of them.
    pub const ALL: u32 = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC | NO_SYMFOLLOW | ATIMES;
}

/// Most mounts in a namespace, `/proc/sys/fs/mount-max`.
pub const MAX: usize = 100_000;

static FILE_SYSTEMS: Global<RefCell<Living<FileSystem>>> = Global::new(RefCell::new(Living::new()));
static NEXT_ID: Global<Cell<u32>> = Global::new(Cell::new(FIRST_ID));

/// First mount id, as in a container.
const FIRST_ID: u32 = 20;
/// What a mount's number is in statmount(2), where the numbers of mountinfo can't occur.
const UNIQUE: u64 = 1 << 32;

/// A file system with its names. It goes with the last mount of it that is in use.
pub struct FileSystem {
    root: Rc<Dentry>,
    /// Type name (`tmpfs`, `overlay`, `proc` …).
    pub kind: &'static str,
    /// Changes fail with EROFS whatever the mount says.
    read_only: Cell<bool>,
    /// Cannot be made writable.
    pub is_fixed: Cell<bool>,
    /// The user namespace that made it, unless that is the first: its ids are those of the files, and there are no devices.
    owner: OnceCell<Rc<dyn Ids>>,
    /// Files that are open for writing.
    writers: Cell<u32>,
    /// Options that the tables show, each with a leading comma.
    pub options: RefCell<Name>,
    /// What the maker keeps with it.
    pub data: Option<Rc<dyn Any>>,
}

impl core::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FileSystem").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        // Nobody can reach its names any more. Directories and what lies in them hold each other.
        self.root.let_go();
    }
}

impl FileSystem {
    /// A file system with this root.
    pub fn new(root: Rc<dyn Inode>, kind: &'static str) -> Rc<Self> {
        Self::with(root, kind, None)
    }

    /// The same with something that is kept with it.
    pub fn with(root: Rc<dyn Inode>, kind: &'static str, data: Option<Rc<dyn Any>>) -> Rc<Self> {
        let new = Rc::new(Self {
            root: Dentry::root(root),
            kind,
            read_only: Cell::new(false),
            is_fixed: Cell::new(false),
            owner: OnceCell::new(),
            writers: Cell::new(0),
            options: RefCell::new(Rc::from(&b""[..])),
            data,
        });
        let mut all = FILE_SYSTEMS.borrow_mut();
        // One that is not listed keeps its unused names.
        if all.reserve().is_ok() {
            all.add(&new);
        }
        new
    }

    /// Its root directory, or its only file.
    pub fn root(&self) -> &Rc<Dentry> {
        &self.root
    }

    /// Whether changes fail with EROFS whatever the mount says.
    pub fn is_read_only(&self) -> bool {
        self.read_only.get()
    }

    /// Lets changes fail with EROFS, or not.
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.set(read_only);
        ways::changed_everywhere();
    }

    /// Notes that a user namespace other than the first made it.
    pub fn set_owner(&self, owner: Rc<dyn Ids>) {
        // The first one stays.
        let _ = self.owner.set(owner);
    }

    /// The user namespace that made it; `None`: the first.
    pub fn owner(&self) -> Option<&dyn Ids> {
        self.owner.get().map(|owner| &**owner)
    }

    /// EBUSY if a file is open for writing by way of a mount that permits that: it can't become read-only.
    pub fn check_writers(&self) -> Result<()> {
        if self.writers.get() == 0 { Ok(()) } else { Err(Errno::EBUSY) }
    }

    /// Its device number; 0 if it does not tell.
    pub fn dev(&self) -> u64 {
        self.root.inode().attr().map_or(0, |attr| attr.dev)
    }
}

/// Number that is never given again, of the mount with a number that is shown elsewhere.
pub fn unique_id(id: u32) -> u64 {
    UNIQUE + u64::from(id)
}

/// Frees what file systems and namespaces that have ended still take.
pub(crate) fn forget_ended() {
    if let Ok(mut file_systems) = FILE_SYSTEMS.try_borrow_mut() {
        file_systems.forget();
    }
    namespace::forget_ended();
}

/// Drops names of all file systems that nobody uses. Returns how many stay that are unused.
pub(crate) fn shrink(share: Share) -> usize {
    let (mut at, mut spared) = (0, 0);
    loop {
        let fs = FILE_SYSTEMS.borrow().get(at);
        match fs {
            None => return spared,
            Some(fs) => spared += fs.map_or(0, |fs| fs.root.shrink(share)),
        }
        at += 1;
    }
}

/// A file system, or a part of one, at a place.
pub struct Mount {
    /// Number, as `/proc/self/mountinfo` and statx(2) show it.
    pub id: u32,
    fs: Rc<FileSystem>,
    /// The directory or file that it shows.
    root: Rc<Dentry>,
    /// Source column.
    pub source: Name,
    flags: Cell<u32>,
    /// Flags that must not be taken away.
    locked_flags: Cell<u32>,
    /// It hides something of a more privileged namespace: it must not be taken away alone.
    is_locked: Cell<bool>,
    /// Files that are open for writing by way of it.
    writers: Cell<u32>,
    /// It is not copied.
    is_unbindable: Cell<bool>,
    /// umount2(2) with `MNT_EXPIRE` was here, and nobody has used it since.
    pub is_expiring: Cell<bool>,
    place: RefCell<Option<(Rc<Self>, Rc<Dentry>)>>,
    /// What it stays on though it is in no namespace any more.
    stuck_on: RefCell<Option<Rc<Dentry>>>,
    /// Mounts in it, by the address of the name that they are mounted on, which they hold.
    children: RefCell<BTreeMap<usize, Rc<Self>>>,
    namespace: RefCell<Weak<Namespace>>,
    group: RefCell<Option<Rc<Group>>>,
    /// The group whose changes it gets.
    master: RefCell<Option<Rc<Group>>>,
    /// Number of the last operation that has come by.
    mark: Cell<u64>,
}

static MARKS: Global<Cell<u64>> = Global::new(Cell::new(0));

/// A number for an operation that marks what it has come by.
fn new_mark() -> u64 {
    MARKS.set(MARKS.get() + 1);
    MARKS.get()
}

impl core::fmt::Debug for Mount {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mount").field("id", &self.id).field("fs", &self.fs).finish_non_exhaustive()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        propagation::make_private(self);
        let mut gone = Pieces::new();
        let mut children = self.children.take();
        loop {
            for (_, child) in core::mem::take(&mut children) {
                if let Some(name) = child.stuck_on.take() {
                    name.mounts.set(name.mounts.get().saturating_sub(1));
                }
                gone.push_back(child);
            }
            match gone.pop_back() {
                Some(mount) if Rc::strong_count(&mount) == 1 => children = mount.children.take(),
                Some(_) => {}
                None => return,
            }
        }
    }
}

fn key(name: &Rc<Dentry>) -> usize {
    Rc::as_ptr(name) as usize
}

impl Mount {
    /// A mount that is nowhere yet. ENOMEM.
    pub fn new(fs: &Rc<FileSystem>, root: &Rc<Dentry>, source: Name, flags: u32) -> Result<Rc<Self>> {
        check()?;
        let id = NEXT_ID.get();
        NEXT_ID.set(id.wrapping_add(1));
        Ok(Self::numbered(id, fs, root, source, flags))
    }

    /// The mount of files without a name, which is in no namespace.
    pub(crate) fn unnumbered(fs: &Rc<FileSystem>) -> Rc<Self> {
        Self::numbered(FIRST_ID - 1, fs, fs.root(), Rc::from(&b"tmpfs"[..]), flags::RELATIME)
    }

    fn numbered(id: u32, fs: &Rc<FileSystem>, root: &Rc<Dentry>, source: Name, flags: u32) -> Rc<Self> {
        Rc::new(Self {
            id,
            fs: fs.clone(),
            root: root.clone(),
            source,
            flags: Cell::new(flags),
            locked_flags: Cell::new(0),
            is_locked: Cell::new(false),
            writers: Cell::new(0),
            is_unbindable: Cell::new(false),
            is_expiring: Cell::new(false),
            place: RefCell::default(),
            stuck_on: RefCell::default(),
            children: RefCell::default(),
            namespace: RefCell::default(),
            group: RefCell::default(),
            master: RefCell::default(),
            mark: Cell::new(0),
        })
    }

    /// Number that is never given again.
    pub fn unique_id(&self) -> u64 {
        unique_id(self.id)
    }

    /// What it shows a part of.
    pub fn fs(&self) -> &Rc<FileSystem> {
        &self.fs
    }

    /// The directory or file that it shows.
    pub fn root(&self) -> &Rc<Dentry> {
        &self.root
    }

    /// [`flags`].
    pub fn flags(&self) -> u32 {
        self.flags.get()
    }

    /// Changes its flags. EPERM: one is locked.
    pub fn set_flags(&self, new: u32) -> Result<()> {
        self.check_flags(new)?;
        self.flags.set(new);
        ways::changed_everywhere();
        Ok(())
    }

    /// EPERM if a flag that is locked would change so.
    pub fn check_flags(&self, new: u32) -> Result<()> {
        let locked = self.locked_flags.get();
        let (simple, times) = (locked & !flags::ATIMES, locked & flags::ATIMES != 0);
        let differs = times && (self.flags.get() ^ new) & flags::ATIMES != 0;
        if simple & !new != 0 || differs { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// EBUSY if it would become read-only so and a file is open for writing by way of it.
    pub fn check_writers(&self, new: u32) -> Result<()> {
        let becomes_read_only = new & !self.flags.get() & flags::READ_ONLY != 0;
        if becomes_read_only && self.writers.get() != 0 { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// A file is opened for writing by way of it.
    pub(crate) fn add_writer(&self) {
        self.writers.set(self.writers.get() + 1);
        self.fs.writers.set(self.fs.writers.get() + 1);
    }

    /// Such a file is closed.
    pub(crate) fn remove_writer(&self) {
        self.writers.set(self.writers.get().saturating_sub(1));
        self.fs.writers.set(self.fs.writers.get().saturating_sub(1));
    }

    /// Whether it shows all of its file system.
    pub fn is_whole(&self) -> bool {
        Rc::ptr_eq(&self.root, self.fs.root())
    }

    /// Whether changes through it fail with EROFS.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.flags.get() & flags::READ_ONLY != 0 || self.fs.read_only.get()
    }

    /// Whether devices in it can be opened.
    pub fn has_devices(&self) -> bool {
        self.flags.get() & flags::NO_DEV == 0 && (self.fs.owner.get().is_none() || self.fs.kind == "devpts")
    }

    /// Whether it must not be taken away alone.
    pub fn is_locked(&self) -> bool {
        self.is_locked.get()
    }

    /// Where it is mounted; `None`: it is the root of its tree.
    pub fn place(&self) -> Option<PathRef> {
        self.place.borrow().as_ref().map(|(mount, name)| PathRef::new(mount.clone(), name.clone()))
    }

    /// What is mounted on a name in it.
    pub fn child_at(&self, name: &Rc<Dentry>) -> Option<Rc<Self>> {
        self.children.borrow().get(&key(name)).cloned()
    }

    /// Whether it shows a name of its file system.
    pub(crate) fn shows(&self, name: &Rc<Dentry>) -> bool {
        self.is_whole() || name.is_beneath(&self.root)
    }

    /// The namespace that it is in.
    pub fn namespace(&self) -> Option<Rc<Namespace>> {
        self.namespace.borrow().upgrade()
    }

    /// Whether it is in this namespace.
    pub fn is_in(&self, namespace: &Rc<Namespace>) -> bool {
        core::ptr::eq(self.namespace.borrow().as_ptr(), Rc::as_ptr(namespace))
    }

    /// Puts it on a name in another one. What is mounted there already lies on top of it from then on.
    fn put(self: &Rc<Self>, parent: &Rc<Self>, name: &Rc<Dentry>) {
        ways::changed_everywhere();
        let before = self.place.replace(Some((parent.clone(), name.clone())));
        drop(before);
        name.mounts.set(name.mounts.get() + 1);
        let covered = parent.children.borrow_mut().insert(key(name), self.clone());
        if let Some(above) = covered {
            // Its name has one mount less on it, and the new mount's root one more.
            name.mounts.set(name.mounts.get() - 1);
            let mut top = self.clone();
            while let Some(next) = top.child_at(&top.root) {
                top = next;
            }
            above.put(&top, &top.root);
        }
    }

    /// Takes it from its place.
    fn take(self: &Rc<Self>) {
        let Some((parent, name)) = self.place.take() else { return };
        ways::changed_everywhere();
        name.mounts.set(name.mounts.get().saturating_sub(1));
        let child = parent.children.borrow_mut().remove(&key(&name));
        drop(child);
    }

    /// The mounts in it, in the order in which they were made. ENOMEM.
    pub fn children(&self) -> Result<Vec<Rc<Self>>> {
        let mut children = crate::memory::list(self.children.borrow().values().cloned())?;
        children.sort_unstable_by_key(|child| child.id);
        Ok(children)
    }

    /// It and all mounts beneath, parents first. ENOMEM.
    pub fn tree(self: &Rc<Self>) -> Result<Vec<Rc<Self>>> {
        let mut all = Vec::new();
        let mut stack = Vec::new();
        crate::memory::push(&mut stack, self.clone())?;
        while let Some(mount) = stack.pop() {
            let children = mount.children()?;
            crate::memory::push(&mut all, mount)?;
            for child in children.into_iter().rev() {
                crate::memory::push(&mut stack, child)?;
            }
        }
        Ok(all)
    }

    /// The mounts that a call changes: it, or with `recursive` its [`Self::tree`]. ENOMEM.
    pub fn affected(self: &Rc<Self>, recursive: bool) -> Result<Vec<Rc<Self>>> {
        if recursive { self.tree() } else { crate::memory::list([self.clone()].into_iter()) }
    }

    /// It leaves its namespace and its groups.
    fn retire(&self) {
        let namespace = self.namespace.take().upgrade();
        if let Some(namespace) = namespace {
            namespace.lose(self);
        }
        propagation::make_private(self);
    }
}

/// Takes a tree of mounts apart, which is at no place any more. `lazily`: those that hide something keep doing that.
fn dissolve(top: &Rc<Mount>, lazily: bool) {
    ways::changed_everywhere();
    let mut at = top.clone();
    let mut after = Bound::Unbounded;
    loop {
        let next = at.children.borrow().range((after, Bound::Unbounded)).next().map(|(_, child)| child.clone());
        if let Some(child) = next {
            (at, after) = (child, Bound::Unbounded);
            continue;
        }
        at.retire();
        if Rc::ptr_eq(&at, top) {
            return;
        }
        let Some((parent, name)) = at.place.take() else { return };
        after = Bound::Excluded(key(&name));
        if lazily && at.is_locked() {
            at.stuck_on.replace(Some(name));
        } else {
            name.mounts.set(name.mounts.get().saturating_sub(1));
            let child = parent.children.borrow_mut().remove(&key(&name));
            drop(child);
        }
        at = parent;
    }
}

/// Takes all mounts from a name that is gone, with what is in them.
pub fn detach_all(name: &Rc<Dentry>) {
    if name.mounts.get() != 0 {
        namespace::detach_all(name);
    }
}

impl PathRef {
    /// Whether anything is mounted on this name in the namespace of its mount, though maybe not by way of that mount.
    pub fn is_mounted_on(&self) -> bool {
        let name = self.dentry();
        name.mounts.get() != 0 && self.mount().namespace().is_some_and(|ns| ns.has_mount_on(name))
    }

    /// Whether a flag of its mount is set.
    #[inline]
    pub fn has_flag(&self, flag: u32) -> bool {
        self.mount().flags() & flag != 0
    }
}

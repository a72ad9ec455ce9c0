//! Overlay mounts: directories of other file systems, shown as one, as Linux's overlayfs.
//!
//! A [`Merged`] stands for a file of the overlay. It has names in the layers: at most one in the upper layer, which takes all
//! changes, and names in the lower ones, which are never changed. A file of a lower layer is [copied up](copy) when it
//! changes. A removed name of a lower layer is hidden by a *whiteout* in the upper one, a character device 0:0; a directory
//! that hides all that is beneath it is *opaque*, which an extended attribute says. So the upper layer is what Linux would
//! have made of it.
//!
//! Layers are used by way of private mounts, as in Linux: what is mounted in them is not seen, and they can be unmounted.
//! The upper layer is always a [private](crate::node) one. It is prepared in the work directory and moved in place whole, so
//! nobody sees a half of a file. Whoever uses the overlay was checked against what it shows; changes of the upper layer are
//! done with the rights of who mounted it.

mod copy;
mod inode;
mod list;
mod marks;
mod names;
mod node;
pub mod options;

pub use node::Merged;
pub use options::Options;

use crate::cred::{Ids, MAY_EXEC, MAY_WRITE};
use crate::host::HostNode;
use crate::memory::{check, push};
use crate::mount::flags;
use crate::node::Node;
use crate::{Cred, FileType, Inode, Mount, Name, NewNode, PathRef, notify, ops};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use node::Key;
use uapi::{Errno, Result};

/// How deep overlays lie in overlays.
const MAX_DEPTH: u32 = 2;
/// Where the upper layer is prepared, in the directory that the mount names.
const WORK: &[u8] = b"work";

/// The rights of who mounted it.
#[derive(Debug)]
pub struct Mounter {
    /// File system user id.
    pub uid: u32,
    /// File system group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Effective capabilities.
    pub caps: u64,
    /// The map of ids, in a user namespace.
    pub ids: Option<Rc<dyn Ids>>,
}

impl Mounter {
    fn cred(&self) -> Cred<'_> {
        Cred {
            uid: self.uid,
            gid: self.gid,
            groups: &self.groups,
            caps: self.caps,
            domain: None,
            ids: self.ids.as_deref(),
        }
    }
}

/// What an overlay is made of.
#[derive(Debug)]
pub struct Layers {
    /// Lower layers, the uppermost first.
    pub lower: Vec<PathRef>,
    /// The upper layer, and the directory that goes with it.
    pub upper: Option<(PathRef, PathRef)>,
    /// Marks are `user.` attributes, which its owner may set.
    pub user_attributes: bool,
}

/// An overlay.
pub struct Overlay {
    dev: u64,
    mounter: Mounter,
    /// The file system whose inode numbers are shown as they are.
    home: u64,
    depth: u32,
    user_attributes: bool,
    /// Where what goes into the upper layer is prepared; `None`: there is no such layer, and nothing can be changed.
    work: Option<PathRef>,
    next_name: Cell<u64>,
    /// The files that are in use.
    nodes: RefCell<BTreeMap<Key, Weak<Merged>>>,
}

impl core::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Overlay").field("dev", &self.dev).finish_non_exhaustive()
    }
}

/// How deep a layer lies in overlays; `None`: it can't be one, as its content is made when it is read.
fn depth_of(layer: &PathRef) -> Option<u32> {
    let any = layer.inode().as_any();
    if let Some(merged) = any.downcast_ref::<Merged>() {
        return Some(merged.overlay().depth);
    }
    (any.is::<Node>() || any.is::<HostNode>()).then_some(0)
}

/// The same directory by a mount of its own, in which nothing is mounted. ENOMEM.
fn private(layer: &PathRef, read_only: bool) -> Result<PathRef> {
    let original = layer.mount();
    let mount = original.flags() | if read_only { flags::READ_ONLY } else { 0 };
    let mount = Mount::new(original.fs(), layer.dentry(), original.source.clone(), mount)?;
    Ok(PathRef::root_of(&mount))
}

/// ELOOP if a layer is another one, or a lower one lies in another.
fn check_apart(layers: &Layers) -> Result<()> {
    let upper = layers.upper.iter().flat_map(|(upper, work)| [upper, work]);
    let mut all = BTreeSet::new();
    for layer in upper.chain(&layers.lower) {
        if !all.insert(Rc::as_ptr(layer.dentry())) {
            return Err(Errno::ELOOP);
        }
    }
    for layer in &layers.lower {
        let mut at = layer.dentry().above();
        while let Some(dentry) = at {
            if all.contains(&Rc::as_ptr(&dentry)) {
                return Err(Errno::ELOOP);
            }
            at = dentry.above();
        }
    }
    Ok(())
}

impl Overlay {
    /// The root of a new overlay, and whether it can be written. EINVAL: these are no layers, or they don't go together; ELOOP:
    /// they overlap; ENOMEM.
    pub fn root(dev: u64, layers: &Layers, mounter: Mounter) -> Result<(Rc<Merged>, bool)> {
        let least = if layers.upper.is_some() { 1 } else { 2 };
        if layers.lower.len() < least || layers.lower.len() > options::MAX_LAYERS {
            return Err(Errno::EINVAL);
        }
        let mut depth = 0;
        for layer in &layers.lower {
            if layer.inode().file_type() != FileType::Directory {
                return Err(Errno::EINVAL);
            }
            depth = depth.max(depth_of(layer).ok_or(Errno::EINVAL)? + 1);
        }
        if depth > MAX_DEPTH {
            return Err(Errno::EINVAL);
        }
        if let Some((upper, work)) = &layers.upper {
            Self::check_upper(upper, work)?;
        }
        check_apart(layers)?;
        let mut lowers = Vec::new();
        for layer in &layers.lower {
            push(&mut lowers, private(layer, true)?)?;
        }
        let (upper, work) = match &layers.upper {
            Some((upper, work)) => Self::prepare(upper, work, &mounter)?,
            None => (None, None),
        };
        let is_writable = work.is_some();
        let top = upper.as_ref().or(lowers.first()).ok_or(Errno::EINVAL)?.inode().attr()?;
        let overlay = Rc::new(Self {
            dev,
            mounter,
            home: top.dev,
            depth,
            user_attributes: layers.user_attributes,
            work,
            next_name: Cell::new(0),
            nodes: RefCell::default(),
        });
        Ok((Merged::new(&overlay, top.ino, FileType::Directory, upper, lowers, None), is_writable))
    }

    fn check_upper(upper: &PathRef, work: &PathRef) -> Result<()> {
        let is_usable = |place: &PathRef| {
            place.inode().as_any().is::<Node>()
                && place.inode().file_type() == FileType::Directory
                && !place.mount().is_read_only()
        };
        let are_apart = !upper.dentry().is_beneath(work.dentry()) && !work.dentry().is_beneath(upper.dentry());
        let go_together = Rc::ptr_eq(upper.mount(), work.mount()) && are_apart;
        if is_usable(upper) && is_usable(work) && go_together { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The upper layer, and the directory where it is prepared, by one mount. Without the latter if who mounts may not make
    /// it: then the overlay is read-only, as in Linux. ENOMEM.
    fn prepare(upper: &PathRef, work: &PathRef, mounter: &Mounter) -> Result<(Option<PathRef>, Option<PathRef>)> {
        let upper = private(upper, false)?;
        let work = PathRef::new(upper.mount().clone(), work.dentry().clone());
        let made = match work.lookup(WORK, &[], false) {
            Err(Errno::ENOENT) => {
                let new = NewNode::plain(0o040000, mounter.uid, mounter.gid);
                ops::create_in(&work, WORK, &new, &mounter.cred())
            }
            found => found,
        };
        let is_usable = |made: &PathRef| mounter.cred().check(&**made.inode(), MAY_WRITE | MAY_EXEC).is_ok();
        let made = made.ok().filter(|made| made.inode().file_type() == FileType::Directory && is_usable(made));
        Ok((Some(upper), made))
    }

    /// The work directory. EROFS: there is none, or its file system became read-only.
    fn work(&self) -> Result<&PathRef> {
        self.work.as_ref().filter(|work| !work.mount().is_read_only()).ok_or(Errno::EROFS)
    }

    /// Whether who mounted it may access a directory of a layer so. EACCES.
    fn check(&self, layer: &PathRef, want: u32) -> Result<()> {
        self.mounter.cred().check(&**layer.inode(), want)
    }

    /// The number of a file in the overlay, from its numbers in its layer. Those of other file systems than the first are moved apart.
    fn number(&self, dev: u64, ino: u64) -> u64 {
        /// Spreads device numbers over the upper half, where no file system here has numbers.
        const SPREAD: u64 = 0x9e37_79b9_0000_0000;
        if dev == self.home { ino } else { ino ^ (dev ^ self.home).wrapping_mul(SPREAD) }
    }

    /// Makes a file in the work directory, under a name that is free: the name and the place.
    fn make_apart(&self, make: impl Fn(&PathRef, &[u8]) -> Result<Rc<dyn Inode>>) -> Result<(Name, PathRef)> {
        check()?;
        let work = self.work()?;
        loop {
            self.next_name.set(self.next_name.get() + 1);
            let name: Name = Rc::from(alloc::format!("#{:x}", self.next_name.get()).into_bytes());
            let changes = work.changes();
            match make(work, &name) {
                Err(Errno::EEXIST) => {}
                made => return Ok((name.clone(), work.adopt_new(&name, made?, u64::MAX, changes))),
            }
        }
    }

    /// Takes away what was made apart.
    fn drop_apart(&self, name: &[u8], made: &PathRef) {
        // What can't be removed stays in the work directory, where it is in nobody's way.
        let _ = self.work().and_then(|work| ops::remove(work, name, made, work.changes()));
    }

    /// Moves what was made apart into the upper layer, in the place of what is there. Taken away if that fails. EEXIST: there
    /// is more than a whiteout, and not `any` file is to be replaced.
    fn install(&self, (apart, made): (Name, PathRef), dir: &PathRef, name: &[u8], any: bool) -> Result<PathRef> {
        let replace = || {
            let work = self.work()?;
            let changes = (work.changes(), dir.changes());
            let replaced = dir.lookup(name, &[], false).ok();
            let whiteout = |place: &PathRef| marks::is_whiteout(&**place.inode()).unwrap_or(false);
            if !any && !replaced.as_ref().is_none_or(whiteout) {
                return Err(Errno::EEXIST);
            }
            work.inode().rename(&apart, dir.inode(), name, 0)?;
            let old = replaced.as_ref().map(PathRef::dentry);
            work.dentry().moved(made.dentry(), &apart, (dir.dentry(), name), old, changes);
            notify::moved((work, &apart), (dir, name), &made, replaced.as_ref());
            Ok(())
        };
        replace().inspect_err(|_| self.drop_apart(&apart, &made))?;
        Ok(made)
    }

    /// Makes a file in the upper layer, in the place of a whiteout.
    fn make_over(&self, dir: &PathRef, name: &[u8], new: &NewNode<'_>, is_opaque: bool) -> Result<PathRef> {
        let (apart, made) = self.make_apart(|work, name| work.inode().create(name, new))?;
        if is_opaque {
            self.make_opaque(&made).inspect_err(|_| self.drop_apart(&apart, &made))?;
        }
        self.install((apart, made), dir, name, false)
    }

    /// Hides a name of the lower layers.
    fn hide(&self, dir: &PathRef, name: &[u8]) -> Result<()> {
        let new = NewNode::plain(FileType::CharDevice.mode_bits(), self.mounter.uid, self.mounter.gid);
        let made = self.make_apart(|work, name| work.inode().create(name, &new))?;
        self.install(made, dir, name, true).map(drop)
    }
}

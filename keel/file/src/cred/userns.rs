//! User namespaces, user_namespaces(7): which ids programs see, and over what capabilities hold.
//!
//! Credentials, owners of files and limits have the ids of the system ([`Cred`](super::Cred) and inodes); a namespace
//! translates them where a system call reads or returns an id.

use super::Cred;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use hal::cell::Global;
use keel_core::idmap::IdMap;
use uapi::{Errno, Result, cap};

/// How deep namespaces may be nested.
const MAX_LEVEL: u32 = 32;
/// Most user namespaces of a pod beside the first: `/proc/sys/user/max_user_namespaces`.
pub const MAX_NAMESPACES: u32 = 4096;
/// The id that stands for those that are not mapped: `/proc/sys/kernel/overflowuid`.
pub const OVERFLOW_ID: u32 = 65534;
/// Inode number of the first user namespace, as on Linux.
pub const FIRST_INODE: u64 = 4_026_531_837;

/// Number of namespaces beside the first.
static COUNT: Global<Cell<u32>> = Global::new(Cell::new(0));
/// Inode number of the next namespace of any type.
static NEXT_INODE: Global<Cell<u64>> = Global::new(Cell::new(4_026_532_100));
static FIRST: Global<RefCell<Option<Rc<UserNs>>>> = Global::new(RefCell::new(None));

/// An inode number for a new namespace of any type; never used again.
pub fn new_inode() -> u64 {
    NEXT_INODE.replace(NEXT_INODE.get() + 1)
}

/// A user namespace.
#[derive(Debug)]
pub struct UserNs {
    inode: u64,
    parent: Option<Rc<UserNs>>,
    level: u32,
    /// Effective user id of its creator.
    owner: u32,
    uids: RefCell<Option<IdMap>>,
    gids: RefCell<Option<IdMap>>,
    projects: RefCell<Option<IdMap>>,
    setgroups: Cell<bool>,
    /// Its creator had CAP_SETFCAP.
    set_file_capabilities: bool,
}

/// Which of the maps of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// `uid_map`.
    Users,
    /// `gid_map`.
    Groups,
    /// `projid_map`.
    Projects,
}

impl UserNs {
    /// The namespace of the pod's first program, in which each id is itself.
    pub fn first() -> Rc<Self> {
        if let Some(first) = &*FIRST.borrow() {
            return first.clone();
        }
        let first = Rc::new(Self {
            inode: FIRST_INODE,
            parent: None,
            level: 0,
            owner: 0,
            uids: RefCell::default(),
            gids: RefCell::default(),
            projects: RefCell::default(),
            setgroups: Cell::new(true),
            set_file_capabilities: true,
        });
        FIRST.replace(Some(first.clone()));
        first
    }

    /// A namespace in that of its creator. ENOSPC: there are too many, or they are nested too deep; EPERM: an id of the
    /// creator is not mapped.
    pub fn create(creator: &Cred) -> Result<Rc<Self>> {
        let (parent, owner) = (&creator.user_ns, (creator.euid, creator.egid));
        if parent.level > MAX_LEVEL || COUNT.get() >= MAX_NAMESPACES {
            return Err(Errno::ENOSPC);
        }
        if parent.inward(Ids::Users, owner.0).is_none() || parent.inward(Ids::Groups, owner.1).is_none() {
            return Err(Errno::EPERM);
        }
        COUNT.set(COUNT.get() + 1);
        Ok(Rc::new(Self {
            inode: new_inode(),
            parent: Some(parent.clone()),
            level: parent.level + 1,
            owner: owner.0,
            uids: RefCell::default(),
            gids: RefCell::default(),
            projects: RefCell::default(),
            setgroups: Cell::new(parent.setgroups.get()),
            set_file_capabilities: creator.capable_here(cap::SETFCAP),
        }))
    }

    /// Number that `/proc/PID/ns/user` shows.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether it is the namespace of the pod's first program.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.level == 0
    }

    /// The namespace that it was made in.
    pub fn parent(&self) -> Option<&Rc<Self>> {
        self.parent.as_ref()
    }

    /// Number of namespaces around it.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// User id of the creator, in the system.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether it is `other` or was made in it, at any depth.
    pub fn is_within(self: &Rc<Self>, other: &Rc<Self>) -> bool {
        let mut at = self;
        while at.level > other.level {
            let Some(parent) = &at.parent else { return false };
            at = parent;
        }
        Rc::ptr_eq(at, other)
    }

    fn map(&self, ids: Ids) -> &RefCell<Option<IdMap>> {
        match ids {
            Ids::Users => &self.uids,
            Ids::Groups => &self.gids,
            Ids::Projects => &self.projects,
        }
    }

    /// The id of the system for an id of the namespace; `None` if it is not mapped. -1 never is.
    #[inline]
    pub fn outward(&self, ids: Ids, id: u32) -> Option<u32> {
        if self.is_first() {
            return (id != u32::MAX).then_some(id);
        }
        self.map(ids).borrow().as_ref()?.outward(id)
    }

    /// The id in the namespace for an id of the system; `None` if it is not mapped.
    #[inline]
    pub fn inward(&self, ids: Ids, id: u32) -> Option<u32> {
        if self.is_first() {
            return (id != u32::MAX).then_some(id);
        }
        self.map(ids).borrow().as_ref()?.inward(id)
    }

    /// The user id that programs in the namespace see.
    #[inline]
    pub fn shown_uid(&self, id: u32) -> u32 {
        if self.is_first() { id } else { self.inward(Ids::Users, id).unwrap_or(OVERFLOW_ID) }
    }

    /// The group id that programs in the namespace see.
    #[inline]
    pub fn shown_gid(&self, id: u32) -> u32 {
        if self.is_first() { id } else { self.inward(Ids::Groups, id).unwrap_or(OVERFLOW_ID) }
    }

    /// Whether the owner and the group of a file are mapped: only then capabilities hold over it.
    pub fn covers(&self, uid: u32, gid: u32) -> bool {
        self.is_first() || self.inward(Ids::Users, uid).is_some() && self.inward(Ids::Groups, gid).is_some()
    }

    /// Whether its creator had CAP_SETFCAP.
    pub fn creator_could_set_file_capabilities(&self) -> bool {
        self.set_file_capabilities
    }

    /// Whether setgroups(2) is allowed: `/proc/PID/setgroups`, and the map of groups was written.
    pub fn may_set_groups(&self) -> bool {
        self.is_first() || self.setgroups.get() && self.gids.borrow().is_some()
    }

    /// `/proc/PID/setgroups`.
    pub fn setgroups_allowed(&self) -> bool {
        self.setgroups.get()
    }

    /// A write to `/proc/PID/setgroups`. EPERM: it was denied before, or the map of groups was written.
    pub fn set_setgroups(&self, allowed: bool) -> Result<()> {
        if allowed {
            return if self.setgroups.get() { Ok(()) } else { Err(Errno::EPERM) };
        }
        if self.is_first() || self.gids.borrow().is_some() {
            return Err(Errno::EPERM);
        }
        self.setgroups.set(false);
        Ok(())
    }

    /// Whether a map was written.
    pub fn is_mapped(&self, ids: Ids) -> bool {
        self.is_first() || self.map(ids).borrow().is_some()
    }

    /// Sets a map, whose outer ids are those of the parent. EPERM: it was set before, or has ids that are not mapped in the
    /// parent.
    pub fn set_map(&self, ids: Ids, map: IdMap) -> Result<()> {
        let Some(parent) = self.parent.as_ref().filter(|_| !self.is_mapped(ids)) else { return Err(Errno::EPERM) };
        let map = if parent.is_first() {
            map
        } else {
            let above = parent.map(ids).borrow();
            map.within(Some(above.as_ref().ok_or(Errno::EPERM)?))?
        };
        let _none = self.map(ids).replace(Some(map));
        Ok(())
    }

    /// Calls `f` with the lines of a map as a process in `reader` sees them: first id, outer id (-1: not mapped there), count.
    pub fn lines(&self, ids: Ids, reader: &Rc<Self>, mut f: impl FnMut(u32, u32, u32)) {
        if self.is_first() {
            return f(0, 0, u32::MAX);
        }
        // A process in the namespace itself sees the ids of the parent.
        let same = core::ptr::eq(&raw const **reader, self);
        let Some(outer) = (if same { self.parent.as_ref() } else { Some(reader) }) else { return };
        let map = self.map(ids).borrow();
        for extent in map.as_ref().map(IdMap::extents).unwrap_or_default() {
            f(extent.first, outer.inward(ids, extent.below).unwrap_or(u32::MAX), extent.count);
        }
    }
}

impl vfs::cred::Ids for UserNs {
    fn covers(&self, uid: u32, gid: u32) -> bool {
        self.covers(uid, gid)
    }

    fn outward(&self, group: bool, id: u32) -> Option<u32> {
        self.outward(if group { Ids::Groups } else { Ids::Users }, id)
    }

    fn inward(&self, group: bool, id: u32) -> Option<u32> {
        self.inward(if group { Ids::Groups } else { Ids::Users }, id)
    }
}

impl Drop for UserNs {
    fn drop(&mut self) {
        if self.level > 0 {
            COUNT.set(COUNT.get().saturating_sub(1));
        }
    }
}

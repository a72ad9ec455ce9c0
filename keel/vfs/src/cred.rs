//! The part of a process's credentials that file access checks.

use crate::acl::{self, Kind};
use crate::attr::S_ISVTX;
use crate::landlock::Domain;
use crate::{FileType, Inode, PathRef};
pub use uapi::cap;
use uapi::{Errno, Result};

/// May execute or search.
pub const MAY_EXEC: u32 = 1;
/// May write.
pub const MAY_WRITE: u32 = 2;
/// May read.
pub const MAY_READ: u32 = 4;

/// File system ids, groups and effective capabilities of a process.
#[derive(Clone, Copy, Debug)]
pub struct Cred<'a> {
    /// File system user id.
    pub uid: u32,
    /// File system group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
    /// Effective capabilities, a bit each.
    pub caps: u64,
    /// Its landlock(7) domain.
    pub domain: Option<&'a Domain>,
    /// In a user namespace: its map of ids. Capabilities hold only over files whose owner and group are mapped.
    pub ids: Option<&'a dyn Ids>,
}

/// The map of ids of a user namespace, user_namespaces(7).
pub trait Ids: core::fmt::Debug {
    /// Whether an owner and a group are mapped.
    fn covers(&self, uid: u32, gid: u32) -> bool;
    /// The system's id of a user (or group) inside the namespace.
    fn outward(&self, group: bool, id: u32) -> Option<u32>;
    /// The id inside the namespace of the system's.
    fn inward(&self, group: bool, id: u32) -> Option<u32>;
}

impl Cred<'_> {
    /// The superuser: keel's own accesses at boot.
    pub const ROOT: Cred<'static> = Cred { uid: 0, gid: 0, groups: &[], caps: u64::MAX, domain: None, ids: None };

    /// Whether it has a capability of [`cap`] over the whole pod.
    pub const fn has(&self, capability: u32) -> bool {
        self.caps >> capability & 1 != 0 && self.ids.is_none()
    }

    /// Whether it has a capability of [`cap`] over what belongs to its user namespace.
    pub const fn has_here(&self, capability: u32) -> bool {
        self.caps >> capability & 1 != 0
    }

    /// Whether it has a capability of [`cap`] over a file of this owner and group.
    pub fn has_over(&self, capability: u32, uid: u32, gid: u32) -> bool {
        self.has_here(capability) && self.ids.is_none_or(|ids| ids.covers(uid, gid))
    }

    /// Whether it belongs to a group.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether it owns the file of this owner and group, or may act as its owner.
    pub fn owns(&self, uid: u32, gid: u32) -> bool {
        self.uid == uid || self.has_over(cap::FOWNER, uid, gid)
    }

    /// EACCES unless its domain, if it has one, allows these rights ([`crate::landlock::access`]) at a place.
    #[inline]
    pub fn restrict(&self, place: &PathRef, rights: u64) -> Result<()> {
        self.domain.map_or(Ok(()), |domain| domain.check(place, rights))
    }

    /// Whether it may access any directory like this, whatever the directory's permissions.
    pub(crate) const fn needs_no_permission(&self, want: u32) -> bool {
        self.has(cap::DAC_OVERRIDE) || want & MAY_WRITE == 0 && self.has(cap::DAC_READ_SEARCH)
    }

    /// Checks `want` ([`MAY_READ`] …) as Linux's inode_permission: EACCES.
    pub fn check(&self, inode: &dyn Inode, want: u32) -> Result<()> {
        let kind = inode.file_type();
        if kind == FileType::Directory {
            // Fast path without attributes: root searches.
            if self.needs_no_permission(want) {
                return Ok(());
            }
        }
        let (mode, uid, gid) = inode.perm()?;
        // A list has no effect for the owner, and grants others nothing beyond its mask.
        let acl = if self.uid != uid && mode & 0o070 != 0 { acl::consult(inode, Kind::Access)? } else { None };
        let permitted = match acl {
            Some(acl) => acl.permits(self, gid, want).is_ok(),
            None if self.uid == uid => mode >> 6 & want == want,
            None if self.in_group(gid) => mode >> 3 & want == want,
            None => mode & want == want,
        };
        if permitted {
            return Ok(());
        }
        if inode.binds_everybody() {
            return Err(Errno::EACCES);
        }
        let over = |capability| self.has_over(capability, uid, gid);
        if over(cap::DAC_OVERRIDE) && (kind == FileType::Directory || want & MAY_EXEC == 0 || mode & 0o111 != 0) {
            return Ok(());
        }
        let only_looks = want == MAY_READ || kind == FileType::Directory && want & MAY_WRITE == 0;
        if only_looks && over(cap::DAC_READ_SEARCH) {
            return Ok(());
        }
        Err(Errno::EACCES)
    }

    /// The same for a file outside the tree, of this mode, owner and group.
    pub fn check_mode(&self, (mode, uid, gid): (u32, u32, u32), want: u32) -> Result<()> {
        let bits = match () {
            () if self.uid == uid => mode >> 6,
            () if self.in_group(gid) => mode >> 3,
            () => mode,
        };
        let over = |capability| self.has_over(capability, uid, gid);
        let overrides = over(cap::DAC_OVERRIDE) && (want & MAY_EXEC == 0 || mode & 0o111 != 0);
        let permitted = bits & want == want || overrides || want == MAY_READ && over(cap::DAC_READ_SEARCH);
        if permitted { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// The sticky bit of `dir`: may a name of a file owned by `file_uid` be removed? EPERM.
    pub fn check_sticky(&self, dir: &dyn Inode, file: &dyn Inode) -> Result<()> {
        let (mode, dir_uid, _) = dir.perm()?;
        if mode & S_ISVTX == 0 || self.uid == dir_uid || self.has(cap::FOWNER) {
            return Ok(());
        }
        let (_, uid, gid) = file.perm()?;
        if self.owns(uid, gid) { Ok(()) } else { Err(Errno::EPERM) }
    }
}

//! POSIX access control lists of private files, acl(5), as the attributes `system.posix_acl_access` and
//! `system.posix_acl_default`.
//!
//! A list that is equivalent to the permission bits is not stored. Of a stored one, the entries of the owner, the mask
//! (or the group) and others are equal to the bits, whichever of both is changed.

use crate::cred::{MAY_EXEC, MAY_READ, MAY_WRITE, cap};
use crate::{Cred, FileType, Inode, NewNode, PathRef, ops};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Which of a file's two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The access list.
    Access,
    /// The default list of new files in the directory.
    Default,
}

impl Kind {
    /// Names of both attributes, in the order in which they are listed.
    pub const NAMES: [(&'static [u8], Self); 2] =
        [(b"system.posix_acl_access", Self::Access), (b"system.posix_acl_default", Self::Default)];

    /// The attribute that it is.
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Access => Self::NAMES[0].0,
            Self::Default => Self::NAMES[1].0,
        }
    }

    /// The list that an attribute is.
    pub fn of(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

// Whom an entry is about.
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;

/// The version of the attribute's form.
const VERSION: u32 = 2;
/// The id of entries that have none.
const NO_ID: u32 = u32::MAX;
/// Size of an entry and of the header.
const ENTRY: usize = 8;
const HEADER: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

impl Entry {
    fn bits(&self) -> u32 {
        u32::from(self.perm) & 7
    }
}

/// A list in the order that Linux demands: owner, users, group, groups, mask, others.
#[derive(Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

impl Acl {
    fn with_room(entries: usize) -> Result<Vec<Entry>> {
        let mut list = Vec::new();
        list.try_reserve_exact(entries).map_err(|_| Errno::ENOMEM)?;
        Ok(list)
    }

    fn copy(&self) -> Result<Self> {
        let mut list = Self::with_room(self.0.len())?;
        list.extend_from_slice(&self.0);
        Ok(Self(list))
    }

    /// Reads an attribute's value; `None` if it has no entries. EINVAL; EOPNOTSUPP for another version.
    pub fn parse(value: &[u8]) -> Result<Option<Self>> {
        if value.is_empty() {
            return Ok(None);
        }
        let (header, entries) = value.split_first_chunk::<HEADER>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*header) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let (entries, rest) = entries.as_chunks::<ENTRY>();
        if !rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let mut list = Self::with_room(entries.len())?;
        for &[t0, t1, p0, p1, i0, i1, i2, i3] in entries {
            let (tag, perm) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([p0, p1]));
            let id = match tag {
                USER_OBJ | GROUP_OBJ | MASK | OTHER => NO_ID,
                USER | GROUP => match u32::from_le_bytes([i0, i1, i2, i3]) {
                    NO_ID => return Err(Errno::EINVAL),
                    id => id,
                },
                _ => return Err(Errno::EINVAL),
            };
            list.push(Entry { tag, perm, id });
        }
        Ok(Some(Self(list)))
    }

    /// As an attribute's value. ENOMEM.
    pub fn value(&self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        value.try_reserve_exact(HEADER + self.0.len() * ENTRY).map_err(|_| Errno::ENOMEM)?;
        value.extend_from_slice(&VERSION.to_le_bytes());
        for entry in &self.0 {
            value.extend_from_slice(&entry.tag.to_le_bytes());
            value.extend_from_slice(&entry.perm.to_le_bytes());
            value.extend_from_slice(&entry.id.to_le_bytes());
        }
        Ok(value)
    }

    /// Replaces the ids of users and groups.
    fn translate(&mut self, f: impl Fn(bool, u32) -> Result<u32>) -> Result<()> {
        for entry in self.0.iter_mut().filter(|entry| matches!(entry.tag, USER | GROUP)) {
            entry.id = f(entry.tag == GROUP, entry.id)?;
        }
        Ok(())
    }

    /// Order and completeness. EINVAL.
    fn check(&self) -> Result<()> {
        // The next permitted entry type, as in Linux.
        let mut state = USER_OBJ;
        let mut needs_mask = false;
        for entry in &self.0 {
            if entry.perm & !7 != 0 {
                return Err(Errno::EINVAL);
            }
            state = match (entry.tag, state) {
                (USER_OBJ, USER_OBJ) => USER,
                (USER, USER) | (GROUP, GROUP) => {
                    needs_mask = true;
                    state
                }
                (GROUP_OBJ, USER) => GROUP,
                (MASK, GROUP) => OTHER,
                (OTHER, OTHER) => 0,
                (OTHER, GROUP) if !needs_mask => 0,
                _ => return Err(Errno::EINVAL),
            };
        }
        if state == 0 { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The equivalent permission bits, and whether the list has entries beyond them.
    fn mode(&self) -> (u32, bool) {
        let (mut mode, mut more) = (0, false);
        for entry in &self.0 {
            match entry.tag {
                USER_OBJ => mode |= entry.bits() << 6,
                GROUP_OBJ => mode |= entry.bits() << 3,
                OTHER => mode |= entry.bits(),
                MASK => {
                    mode = mode & !0o070 | entry.bits() << 3;
                    more = true;
                }
                _ => more = true,
            }
        }
        (mode, more)
    }

    /// The entry that the group's permission bits are.
    fn class(&mut self) -> Option<&mut Entry> {
        let tag = if self.0.iter().any(|entry| entry.tag == MASK) { MASK } else { GROUP_OBJ };
        self.0.iter_mut().find(|entry| entry.tag == tag)
    }

    /// With other permission bits, chmod(2). ENOMEM.
    pub fn with_mode(&self, mode: u32) -> Result<Self> {
        let mut acl = self.copy()?;
        for entry in &mut acl.0 {
            match entry.tag {
                USER_OBJ => entry.perm = (mode >> 6 & 7) as u16,
                OTHER => entry.perm = (mode & 7) as u16,
                _ => {}
            }
        }
        if let Some(class) = acl.class() {
            class.perm = (mode >> 3 & 7) as u16;
        }
        Ok(acl)
    }

    /// Mode of a new file under this default list, and its list if that is not equivalent to the mode. ENOMEM.
    fn inherited(&self, mode: u32) -> Result<(u32, Option<Self>)> {
        let mut acl = self.copy()?;
        for entry in &mut acl.0 {
            match entry.tag {
                USER_OBJ => entry.perm &= (mode >> 6 & 7) as u16,
                OTHER => entry.perm &= (mode & 7) as u16,
                _ => {}
            }
        }
        if let Some(class) = acl.class() {
            class.perm &= (mode >> 3 & 7) as u16;
        }
        let (bits, more) = acl.mode();
        Ok((mode & !0o777 | bits, more.then_some(acl)))
    }

    /// Whether it grants `want` to a user other than the owner, for a file of the group `gid`. EACCES.
    pub fn permits(&self, cred: &Cred<'_>, gid: u32, want: u32) -> Result<()> {
        let want = want & (MAY_READ | MAY_WRITE | MAY_EXEC);
        let has = |bits: u32| if bits & want == want { Ok(()) } else { Err(Errno::EACCES) };
        let mask = || self.0.iter().find(|entry| entry.tag == MASK).map_or(7, Entry::bits);
        let mut in_group = false;
        for entry in &self.0 {
            match entry.tag {
                USER if entry.id == cred.uid => return has(entry.bits() & mask()),
                GROUP_OBJ | GROUP if cred.in_group(if entry.tag == GROUP { entry.id } else { gid }) => {
                    in_group = true;
                    if entry.bits() & want == want {
                        return has(entry.bits() & mask());
                    }
                }
                OTHER if !in_group => return has(entry.bits()),
                _ => {}
            }
        }
        Err(Errno::EACCES)
    }
}

/// Sets or, with an empty value, removes a list. EOPNOTSUPP without support, EACCES for a default list of a file other
/// than a directory, EPERM for users other than the owner, EINVAL.
pub fn set(place: &PathRef, kind: Kind, value: &[u8], cred: &Cred<'_>) -> Result<()> {
    ops::check_writable(place)?;
    let mut acl = Acl::parse(value)?;
    if let (Some(acl), Some(ids)) = (&mut acl, cred.ids) {
        // EINVAL: an id that is not mapped.
        acl.translate(|group, id| ids.outward(group, id).ok_or(Errno::EINVAL))?;
    }
    let inode = place.inode();
    if inode.file_type() == FileType::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    if kind == Kind::Default && inode.file_type() != FileType::Directory {
        return if acl.is_some() { Err(Errno::EACCES) } else { Ok(()) };
    }
    let (mut mode, uid, gid) = inode.perm()?;
    if !cred.owns(uid, gid) {
        return Err(Errno::EPERM);
    }
    if let Some(acl) = &acl {
        acl.check()?;
    }
    let acl = match (kind, acl) {
        (Kind::Access, acl) => {
            let (bits, more) = acl.as_ref().map_or((mode & 0o777, false), Acl::mode);
            mode = mode & 0o7000 | bits;
            if !cred.in_group(gid) && !cred.has_over(cap::FSETID, uid, gid) {
                mode &= !crate::attr::S_ISGID;
            }
            acl.filter(|_| more)
        }
        (Kind::Default, acl) => acl,
    };
    inode.put_acl(kind, acl.map(Rc::new), mode)
}

/// The value of a list. ENODATA; EOPNOTSUPP of links.
pub fn get(inode: &dyn Inode, kind: Kind, cred: &Cred<'_>) -> Result<Vec<u8>> {
    if inode.file_type() == FileType::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    let acl = inode.acl(kind)?.ok_or(Errno::ENODATA)?;
    let Some(ids) = cred.ids else { return acl.value() };
    let mut shown = acl.copy()?;
    shown.translate(|group, id| Ok(ids.inward(group, id).unwrap_or(u32::MAX)))?;
    shown.value()
}

/// The lists of a new file.
pub type Inherited = (Option<Rc<Acl>>, Option<Rc<Acl>>);

/// Applies the default list of the directory to a new file, or else the process's umask. ENOMEM.
pub fn inherit(dir: &dyn Inode, new: &mut NewNode<'_>) -> Result<Inherited> {
    let kind = FileType::of(new.mode);
    let default = if kind == FileType::Symlink { None } else { consult(dir, Kind::Default)? };
    let Some(default) = default else {
        new.mode &= !new.umask;
        return Ok((None, None));
    };
    let (mode, access) = default.inherited(new.mode)?;
    new.mode = mode;
    Ok((access.map(Rc::new), (kind == FileType::Directory).then_some(default)))
}

/// A list that affects the decision; `None` also without support for lists, or if the file was removed.
pub fn consult(inode: &dyn Inode, kind: Kind) -> Result<Option<Rc<Acl>>> {
    match inode.acl(kind) {
        Err(Errno::EOPNOTSUPP | Errno::ENOENT | Errno::ESTALE) => Ok(None),
        other => other,
    }
}

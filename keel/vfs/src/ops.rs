//! Changes of names, with the permission checks of Linux, on resolved directories.

use crate::attr::{S_ISGID, S_ISUID, S_ISVTX};
use crate::cred::{MAY_EXEC, MAY_READ, MAY_WRITE, cap};
use crate::walk::{Component, Parent};
use crate::{
    Change, Claim, Cred, FileType, NAME_MAX, Name, NewNode, PathRef, SetTime, acl, landlock, mount, notify, spare,
};
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// renameat2(2): do not replace.
pub const RENAME_NOREPLACE: u32 = 1;
/// renameat2(2): exchange both names.
pub const RENAME_EXCHANGE: u32 = 2;
/// renameat2(2): leave a whiteout behind.
pub const RENAME_WHITEOUT: u32 = 4;

/// EROFS if changes in the file system of `place` are not allowed.
pub fn check_writable(place: &PathRef) -> Result<()> {
    if place.mount().is_read_only() { Err(Errno::EROFS) } else { Ok(()) }
}

/// Whether the caller owns a file, or may act as its owner.
pub fn owns(inode: &dyn crate::Inode, cred: &Cred<'_>) -> Result<bool> {
    let (_, uid, gid) = inode.perm()?;
    Ok(cred.owns(uid, gid))
}

/// Checks whether names may be added to or removed from `dir`.
fn check_dir(dir: &PathRef, cred: &Cred<'_>) -> Result<()> {
    cred.check(&**dir.inode(), MAY_WRITE | MAY_EXEC)
}

/// EOVERFLOW if the caller's ids can't be stored in the file system: it was mounted in a user namespace that does not
/// map them.
pub fn check_ids(dir: &PathRef, cred: &Cred<'_>) -> Result<()> {
    let stored = dir.mount().fs().owner().is_none_or(|owner| owner.covers(cred.uid, cred.gid));
    if stored { Ok(()) } else { Err(Errno::EOVERFLOW) }
}

/// The existing file at a path, or the name to create.
fn existing(dir: &PathRef, name: &[u8]) -> Result<Option<PathRef>> {
    match dir.lookup(name, &[], false) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The name to create at the end of a path. `directory`: a trailing slash is allowed.
fn new_name(parent: &Parent, directory: bool) -> Result<&Name> {
    let Component::Normal(name) = &parent.last else { return Err(Errno::EEXIST) };
    if existing(&parent.dir, name)?.is_some() {
        return Err(Errno::EEXIST);
    }
    if parent.trailing_slash && !directory {
        return Err(Errno::ENOENT);
    }
    Ok(name)
}

/// Creates a file at a path: mkdir(2), mknod(2), symlink(2). EEXIST.
pub fn create(parent: &Parent, new: &NewNode<'_>, cred: &Cred<'_>) -> Result<PathRef> {
    let directory = FileType::of(new.mode) == FileType::Directory;
    if let Component::Normal(name) = &parent.last
        && (directory || !parent.trailing_slash)
        && let Some(outcome) = create_unseen(&parent.dir, name, new, cred)
    {
        return outcome;
    }
    let name = new_name(parent, directory)?.clone();
    create_in(&parent.dir, &name, new, cred)
}

/// Creates `name` in `dir` without a lookup, if that would be a separate request: it was created, or exists (EEXIST).
/// `None`: look it up, because there may be another error.
pub fn create_unseen(dir: &PathRef, name: &[u8], new: &NewNode<'_>, cred: &Cred<'_>) -> Option<Result<PathRef>> {
    if !dir.is_unknown(name) {
        return None;
    }
    match create_in(dir, name, new, cred) {
        Err(Errno::EEXIST) => Some(Err(Errno::EEXIST)),
        Err(_) => None,
        made => Some(made),
    }
}

/// Creates `name`, which does not exist, in `dir`.
pub fn create_in(dir: &PathRef, name: &[u8], new: &NewNode<'_>, cred: &Cred<'_>) -> Result<PathRef> {
    check_writable(dir)?;
    if dir.is_deleted() {
        return Err(Errno::ENOENT);
    }
    cred.restrict(dir, landlock::to_make(FileType::of(new.mode)))?;
    check_ids(dir, cred)?;
    check_dir(dir, cred)?;
    let (new, lists) = inherit(dir, new, cred)?;
    let changes = dir.changes();
    let inode = dir.inode().create(name, &new)?;
    inode.adopt_acls(lists.0, lists.1)?;
    let place = adopt_new(dir, name, inode, changes);
    notify::created(dir, name, place.inode(), false);
    Ok(place)
}

/// Adds a new file to the dentry cache; its validity comes from the file system's next lookup.
fn adopt_new(dir: &PathRef, name: &[u8], inode: Rc<dyn crate::Inode>, changes: u64) -> PathRef {
    dir.adopt_new(name, inode, hal::clock::monotonic_ns().saturating_add(crate::host::FRESH_NS), changes)
}

/// Inherits group, set-group-ID bit, permissions, and lists for [`crate::Inode::adopt_acls`] from the directory of a
/// new node.
pub fn inherit<'n>(dir: &PathRef, new: &NewNode<'n>, cred: &Cred<'_>) -> Result<(NewNode<'n>, acl::Inherited)> {
    let mut new = *new;
    let lists = acl::inherit(&**dir.inode(), &mut new)?;
    let (mode, _, gid) = dir.inode().perm()?;
    if mode & S_ISGID != 0 {
        new.gid = gid;
        if FileType::of(new.mode) == FileType::Directory {
            new.mode |= S_ISGID;
        } else if new.mode & (S_ISGID | 0o010) == S_ISGID | 0o010
            && !cred.in_group(gid)
            && !cred.has_over(cap::FSETID, new.uid, gid)
        {
            new.mode &= !S_ISGID;
        }
    }
    Ok((new, lists))
}

/// link(2): adds the name at the end of `parent`'s path to `target`.
pub fn link(target: &PathRef, parent: &Parent, cred: &Cred<'_>) -> Result<()> {
    let name = new_name(parent, false)?.clone();
    let dir = &parent.dir;
    if !Rc::ptr_eq(target.mount(), dir.mount()) {
        return Err(Errno::EXDEV);
    }
    check_writable(dir)?;
    if dir.is_deleted() {
        return Err(Errno::ENOENT);
    }
    // fs.protected_hardlinks, on everywhere: others' special, set-id or inaccessible files.
    let inode = target.inode();
    let (mode, uid, gid) = inode.perm()?;
    if !cred.owns(uid, gid) {
        let safe = inode.file_type() == FileType::Regular
            && mode & S_ISUID == 0
            && mode & (S_ISGID | 0o010) != S_ISGID | 0o010
            && cred.check(&**inode, MAY_READ | MAY_WRITE).is_ok();
        if !safe {
            return Err(Errno::EPERM);
        }
    }
    if let Some(domain) = cred.domain {
        domain.check_refer(target, dir, None, false, false)?;
    }
    check_ids(dir, cred)?;
    check_dir(dir, cred)?;
    if inode.file_type() == FileType::Directory {
        return Err(Errno::EPERM);
    }
    let changes = dir.changes();
    // If the file lost its name meanwhile, another one may have had the new name for a moment.
    dir.inode().link(&name, inode).inspect_err(|_| dir.dentry().doubt(&name))?;
    adopt_new(dir, &name, inode.clone(), changes);
    notify::created(dir, &name, inode, true);
    Ok(())
}

/// Checks whether the name of `victim` may be removed from `dir`. `directory`: it must be one, or must not be one.
fn check_delete(dir: &PathRef, victim: &PathRef, directory: bool, cred: &Cred<'_>) -> Result<()> {
    check_dir(dir, cred)?;
    cred.check_sticky(&**dir.inode(), &**victim.inode())?;
    let is_directory = victim.inode().file_type() == FileType::Directory;
    match (directory, is_directory) {
        (true, false) => return Err(Errno::ENOTDIR),
        (false, true) => return Err(Errno::EISDIR),
        _ => {}
    }
    if victim.is_mount_root() || victim.is_mounted_on() {
        return Err(Errno::EBUSY);
    }
    Ok(())
}

/// unlink(2).
pub fn unlink(parent: &Parent, cred: &Cred<'_>) -> Result<()> {
    let Component::Normal(name) = &parent.last else { return Err(Errno::EISDIR) };
    let changes = parent.dir.changes();
    let victim = parent.dir.lookup(name, &[], false)?;
    if parent.trailing_slash {
        let directory = victim.inode().file_type() == FileType::Directory;
        return Err(if directory { Errno::EISDIR } else { Errno::ENOTDIR });
    }
    check_writable(&parent.dir)?;
    cred.restrict(&parent.dir, landlock::access::REMOVE_FILE)?;
    check_delete(&parent.dir, &victim, false, cred)?;
    remove(&parent.dir, name, &victim, changes)
}

/// rmdir(2).
pub fn rmdir(parent: &Parent, cred: &Cred<'_>) -> Result<()> {
    let name = match &parent.last {
        Component::Normal(name) => name,
        Component::Dot => return Err(Errno::EINVAL),
        Component::DotDot => return Err(Errno::ENOTEMPTY),
        Component::Root => return Err(Errno::EBUSY),
    };
    let changes = parent.dir.changes();
    let victim = parent.dir.lookup(name, &[], false)?;
    check_writable(&parent.dir)?;
    cred.restrict(&parent.dir, landlock::access::REMOVE_DIR)?;
    check_delete(&parent.dir, &victim, true, cred)?;
    remove(&parent.dir, name, &victim, changes)
}

/// Removes a name that may be removed, and led to `victim` after `changes` of the directory's names.
pub(crate) fn remove(dir: &PathRef, name: &[u8], victim: &PathRef, changes: u64) -> Result<()> {
    spare::release(victim.inode());
    dir.inode().unlink(name, victim.inode())?;
    dir.removed(name, victim.dentry(), changes);
    mount::detach_all(victim.dentry());
    notify::removed(dir, name, victim);
    Ok(())
}

/// renameat2(2).
pub fn rename(from: &Parent, to: &Parent, flags: u32, cred: &Cred<'_>) -> Result<()> {
    if !Rc::ptr_eq(from.dir.mount(), to.dir.mount()) {
        return Err(Errno::EXDEV);
    }
    let Component::Normal(old_name) = &from.last else { return Err(Errno::EBUSY) };
    let Component::Normal(new_name) = &to.last else {
        return Err(if flags & RENAME_NOREPLACE != 0 { Errno::EEXIST } else { Errno::EBUSY });
    };
    let exchange = flags & RENAME_EXCHANGE != 0;
    let changes = (from.dir.changes(), to.dir.changes());
    let old = from.dir.lookup(old_name, &[], false)?;
    if new_name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let new = existing(&to.dir, new_name)?;
    if flags & RENAME_NOREPLACE != 0 && new.is_some() {
        return Err(Errno::EEXIST);
    }
    if exchange && new.is_none() {
        return Err(Errno::ENOENT);
    }
    let old_is_dir = old.inode().file_type() == FileType::Directory;
    let new_is_dir = new.as_ref().is_some_and(|n| n.inode().file_type() == FileType::Directory);
    if exchange && to.trailing_slash && !new_is_dir {
        return Err(Errno::ENOTDIR);
    }
    if !old_is_dir && (from.trailing_slash || !exchange && to.trailing_slash) {
        return Err(Errno::ENOTDIR);
    }
    // A directory can't move into itself, nor replace its own ancestor.
    if to.dir.is_within(&old) {
        return Err(Errno::EINVAL);
    }
    if let Some(new) = &new
        && from.dir.is_within(new)
    {
        return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    check_writable(&from.dir)?;
    if let Some(domain) = cred.domain {
        domain.check_refer(&old, &to.dir, new.as_ref(), true, exchange)?;
    }
    if let Some(new) = &new
        && Rc::ptr_eq(old.inode(), new.inode())
    {
        return Ok(());
    }
    check_delete(&from.dir, &old, old_is_dir, cred)?;
    match &new {
        None if to.dir.is_deleted() => return Err(Errno::ENOENT),
        None => {
            check_ids(&to.dir, cred)?;
            check_dir(&to.dir, cred)?;
        }
        Some(new) => check_delete(&to.dir, new, if exchange { new_is_dir } else { old_is_dir }, cred)?,
    }
    let same_dir = from.dir.same(&to.dir);
    if !same_dir {
        // `..` of a moved directory changes: that writes to it.
        if old_is_dir {
            cred.check(&**old.inode(), MAY_WRITE)?;
        }
        if exchange && let Some(new) = new.as_ref().filter(|_| new_is_dir) {
            cred.check(&**new.inode(), MAY_WRITE)?;
        }
    }
    if let Some(new) = new.as_ref().filter(|_| !exchange) {
        spare::release(new.inode());
    }
    let is_known = if flags & RENAME_WHITEOUT != 0 {
        let (whiteout, _) =
            inherit(&from.dir, &NewNode::plain(FileType::CharDevice.mode_bits(), cred.uid, cred.gid), cred)?;
        let flags = flags & !RENAME_WHITEOUT;
        from.dir.inode().rename_leaving(old_name, to.dir.inode(), new_name, flags, &whiteout)?
    } else {
        from.dir.inode().rename(old_name, to.dir.inode(), new_name, flags)?
    };
    let changes = if is_known { changes } else { (u64::MAX, u64::MAX) };
    match new.as_ref().filter(|_| exchange) {
        Some(new) => {
            from.dir.dentry().exchanged((old_name, old.dentry()), to.dir.dentry(), (new_name, new.dentry()), changes)
        }
        None => {
            let replaced = new.as_ref().map(PathRef::dentry);
            from.dir.dentry().moved(old.dentry(), old_name, (to.dir.dentry(), new_name), replaced, changes);
            if let Some(replaced) = replaced {
                mount::detach_all(replaced);
            }
        }
    }
    let (source, target) = ((&from.dir, &old_name[..]), (&to.dir, &new_name[..]));
    notify::moved(source, target, &old, new.as_ref().filter(|_| !exchange));
    if let Some(new) = new.as_ref().filter(|_| exchange) {
        notify::moved(target, source, new, None);
    }
    Ok(())
}

/// chmod(2).
pub fn chmod(place: &PathRef, mode: u32, cred: &Cred<'_>) -> Result<()> {
    check_writable(place)?;
    let inode = place.inode();
    if inode.file_type() == FileType::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    place.unless_stale(inode.change(&chmod_change(inode.perm()?, mode, cred)?))?;
    notify::happened(place, g::IN_ATTRIB, false);
    Ok(())
}

/// The change of chmod(2) for a file with this mode, owner and group. EPERM.
pub fn chmod_change((_, uid, gid): (u32, u32, u32), mode: u32, cred: &Cred<'_>) -> Result<Change> {
    if !cred.owns(uid, gid) {
        return Err(Errno::EPERM);
    }
    let mut mode = mode & 0o7777;
    if !cred.in_group(gid) && !cred.has_over(cap::FSETID, uid, gid) {
        mode &= !S_ISGID;
    }
    Ok(Change { mode: Some(mode), ..Change::default() })
}

/// chown(2); `None` leaves the id.
pub fn chown(place: &PathRef, uid: Option<u32>, gid: Option<u32>, cred: &Cred<'_>) -> Result<()> {
    check_writable(place)?;
    let inode = place.inode();
    let change = chown_change(inode.perm()?, uid, gid, inode.file_type() == FileType::Directory, cred)?;
    place.unless_stale(inode.change(&change))?;
    inode.drop_capability();
    notify::happened(place, g::IN_ATTRIB, false);
    Ok(())
}

/// The change of chown(2) for a file with this mode, owner and group. EPERM.
pub fn chown_change(
    (mode, owner, group): (u32, u32, u32),
    uid: Option<u32>,
    gid: Option<u32>,
    directory: bool,
    cred: &Cred<'_>,
) -> Result<Change> {
    if !cred.has_over(cap::CHOWN, owner, group) {
        let uid_ok = uid.is_none_or(|uid| cred.uid == owner && uid == owner);
        let gid_ok = gid.is_none_or(|gid| cred.uid == owner && (gid == group || cred.in_group(gid)));
        if !uid_ok || !gid_ok {
            return Err(Errno::EPERM);
        }
    }
    // Set-id bits do not survive a change of owner, even a void one, except on directories.
    let mut change = Change { uid, gid, ..Change::default() };
    if !directory {
        let mut bits = mode & 0o7777 & !S_ISUID;
        if mode & 0o010 != 0 {
            bits &= !S_ISGID;
        }
        if bits != mode & 0o7777 {
            change.mode = Some(bits);
        }
    }
    Ok(change)
}

/// utimensat(2): times to set, `None` leaves one. `now_allowed`: both are the current time, which
/// a caller with write permission may set.
pub fn set_times(place: &PathRef, atime: Option<SetTime>, mtime: Option<SetTime>, cred: &Cred<'_>) -> Result<()> {
    if atime.is_none() && mtime.is_none() {
        return Ok(());
    }
    check_writable(place)?;
    let inode = place.inode();
    if !owns(&**inode, cred)? {
        if atime != Some(SetTime::Now) || mtime != Some(SetTime::Now) {
            return Err(Errno::EPERM);
        }
        cred.check(&**inode, MAY_WRITE)?;
    }
    place.unless_stale(inode.change(&Change { atime, mtime, ..Change::default() }))?;
    let mask = match (atime, mtime) {
        (Some(_), None) => g::IN_ACCESS,
        (None, Some(_)) => g::IN_MODIFY,
        _ => g::IN_ATTRIB,
    };
    notify::happened(place, mask, false);
    Ok(())
}

/// truncate(2) of a place: has the checks of open(2) for writing.
pub fn truncate(place: &PathRef, size: u64, cred: &Cred<'_>) -> Result<()> {
    let inode = place.inode();
    match inode.file_type() {
        FileType::Directory => return Err(Errno::EISDIR),
        FileType::Regular => {}
        _ => return Err(Errno::EINVAL),
    }
    cred.check(&**inode, MAY_WRITE)?;
    check_writable(place)?;
    let _claim = Claim::write(place)?;
    cred.restrict(place, landlock::access::TRUNCATE)?;
    place.unless_stale(inode.truncate(size))?;
    notify::happened(place, g::IN_MODIFY, false);
    drop_set_id(place, cred)
}

/// After a write by a process without CAP_FSETID: removes the set-id bits.
pub fn drop_set_id(place: &PathRef, cred: &Cred<'_>) -> Result<()> {
    let inode = place.inode();
    let (mode, uid, gid) = inode.perm()?;
    if mode & (S_ISUID | S_ISGID) == 0 || cred.has_over(cap::FSETID, uid, gid) || inode.file_type() != FileType::Regular
    {
        return Ok(());
    }
    let mut bits = mode & 0o7777 & !S_ISUID;
    if mode & 0o010 != 0 {
        bits &= !S_ISGID;
    }
    inode.change(&Change { mode: Some(bits), ..Change::default() })
}

/// fs.protected_regular and fs.protected_fifos as set by systemd: no O_CREAT open of others' files
/// in world-writable sticky directories. EACCES.
pub fn check_protected_create(dir: &PathRef, file: &PathRef, cred: &Cred<'_>) -> Result<()> {
    let (mode, dir_uid, _) = dir.inode().perm()?;
    if mode & (S_ISVTX | 0o002) != S_ISVTX | 0o002 {
        return Ok(());
    }
    let kind = file.inode().file_type();
    let (_, uid, _) = file.inode().perm()?;
    if matches!(kind, FileType::Regular | FileType::Fifo) && uid != dir_uid && uid != cred.uid {
        return Err(Errno::EACCES);
    }
    Ok(())
}

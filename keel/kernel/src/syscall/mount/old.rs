//! mount(2) and umount2(2).

use super::Admin;
use super::kinds::{self, Kind};
use crate::file::spare;
use crate::mm::user;
use crate::task::path;
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::mount::{change, flags};
use vfs::{Mount, PathRef};

/// Old programs set these bits; they mean nothing.
const MAGIC: u32 = 0xc0ed_0000;
const MAGIC_MASK: u32 = 0xffff_0000;
/// Flags that change what a mount's propagation is.
pub(super) const PROPAGATION: u32 = g::MS_SHARED | g::MS_PRIVATE | g::MS_SLAVE | g::MS_UNBINDABLE;
/// Longest type and source.
const STRING_MAX: usize = PAGE_SIZE;

/// A text that may be absent. EFAULT, EINVAL.
fn text(address: usize) -> Result<Option<Vec<u8>>> {
    if address == 0 {
        return Ok(None);
    }
    let read = user::read_cstr(address, STRING_MAX);
    read.map(Some).map_err(|errno| if errno == Errno::ENAMETOOLONG { Errno::EINVAL } else { errno })
}

/// Options: a text of at most a page, which need not end. EFAULT.
fn options(address: usize) -> Result<Vec<u8>> {
    if address == 0 {
        return Ok(Vec::new());
    }
    match user::read_cstr(address, STRING_MAX) {
        Err(Errno::ENAMETOOLONG) => {
            let mut bytes = vfs::memory::buffer(STRING_MAX - 1)?;
            user::read_bytes(address, &mut bytes)?;
            Ok(bytes)
        }
        other => other,
    }
}

/// Flags of a mount from those of mount(2).
fn flags_of_mount(given: u32) -> u32 {
    let mut mount = given & (flags::ALL & !flags::ATIMES) | given & flags::NO_DIR_ATIME;
    mount |= if given & g::MS_NOATIME != 0 { flags::NO_ATIME } else { flags::RELATIME };
    if given & g::MS_STRICTATIME != 0 {
        mount &= !(flags::RELATIME | flags::NO_ATIME);
    }
    mount
}

/// mount(2).
pub fn sys_mount(source: usize, target: usize, kind: usize, given: u64, data: usize) -> Result<()> {
    let kind = text(kind)?;
    let source = text(source)?;
    let data = options(data)?;
    let target = path::read(target)?;
    let caller = path::Caller::current();
    let place = caller.resolve(g::AT_FDCWD, &target, true)?;
    let mut given = given as u32;
    if given & MAGIC_MASK == MAGIC {
        given &= !MAGIC_MASK;
    }
    if given & g::MS_NOUSER != 0 {
        return Err(Errno::EINVAL);
    }
    let admin = Admin::current()?;
    let mut mount = flags_of_mount(given);
    let atimes = g::MS_NOATIME | g::MS_NODIRATIME | g::MS_RELATIME | g::MS_STRICTATIME;
    if given & g::MS_REMOUNT != 0 && given & atimes == 0 {
        mount = mount & !flags::ATIMES | place.mount().flags() & flags::ATIMES;
    }
    if given & g::MS_REMOUNT != 0 {
        let own = given & g::MS_BIND == 0;
        return remount(&admin, &place, mount, own.then_some((given, &data[..])));
    }
    if given & g::MS_BIND != 0 {
        return bind(&admin, source.as_deref(), place, given & g::MS_REC != 0);
    }
    if given & PROPAGATION != 0 {
        return set_propagation(&admin, &place, given);
    }
    if given & g::MS_MOVE != 0 {
        let source = source.filter(|source| !source.is_empty()).ok_or(Errno::EINVAL)?;
        let from = caller.resolve(g::AT_FDCWD, &source, true)?;
        return change::shift(&from, &place.covered(), admin.tree());
    }
    let kind = kind.ok_or(Errno::EINVAL)?;
    let fs = kinds::make(Kind::named(&kind)?, &data, &admin)?;
    if given & g::MS_RDONLY != 0 {
        fs.set_read_only(true);
    }
    kinds::mount(&admin, fs, &source.unwrap_or_else(|| b"none".to_vec()), mount, place)
}

/// `MS_REMOUNT`: other flags of a mount, and with `own` of its file system. EINVAL: it is none; EPERM; EBUSY: it would be
/// read-only while files are open for writing.
fn remount(admin: &Admin, place: &PathRef, mount: u32, own: Option<(u32, &[u8])>) -> Result<()> {
    if !place.is_mount_root() || !place.mount().is_in(admin.tree()) {
        return Err(Errno::EINVAL);
    }
    place.mount().check_flags(mount)?;
    if own.is_none() {
        place.mount().check_writers(mount)?;
    }
    if let Some((given, data)) = own {
        kinds::reconfigure(place.mount().fs(), given & g::MS_RDONLY != 0, data)?;
    }
    place.mount().set_flags(mount)?;
    admin.tree().changed();
    Ok(())
}

/// `MS_BIND`.
fn bind(admin: &Admin, source: Option<&[u8]>, place: PathRef, recursive: bool) -> Result<()> {
    let source = source.filter(|source| !source.is_empty()).ok_or(Errno::EINVAL)?;
    let from = admin.caller.resolve(g::AT_FDCWD, source, true)?;
    let place = place.covered();
    if !place.mount().is_in(admin.tree()) {
        return Err(Errno::EINVAL);
    }
    change::mount(admin.copied(&from, recursive, from.mount().is_in(admin.tree()))?, &place)
}

/// `MS_SHARED` and the like, with `MS_REC` for all mounts beneath. EINVAL.
fn set_propagation(admin: &Admin, place: &PathRef, given: u32) -> Result<()> {
    if !place.is_mount_root() || !place.mount().is_in(admin.tree()) {
        return Err(Errno::EINVAL);
    }
    let kind = given & !(g::MS_REC | g::MS_SILENT);
    if kind & !PROPAGATION != 0 || !kind.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    place.mount().affected(given & g::MS_REC != 0)?.iter().for_each(|mount| propagate_as(mount, kind));
    admin.tree().changed();
    Ok(())
}

/// Sets the propagation of a mount to one of `MS_SHARED` and the like.
pub(super) fn propagate_as(mount: &Rc<Mount>, kind: u32) {
    match kind {
        g::MS_SHARED => mount.make_shared(),
        g::MS_SLAVE => mount.make_slave(),
        g::MS_UNBINDABLE => mount.make_unbindable(),
        _ => vfs::mount::propagation::make_private(mount),
    }
}

/// umount2(2).
pub fn sys_umount2(target: usize, given: u32) -> Result<()> {
    const ALL: u32 = g::MNT_FORCE | g::MNT_DETACH | g::MNT_EXPIRE | g::UMOUNT_NOFOLLOW;
    if given & !ALL != 0 {
        return Err(Errno::EINVAL);
    }
    let target = path::read(target)?;
    let caller = path::Caller::current();
    let place = caller.resolve(g::AT_FDCWD, &target, given & g::UMOUNT_NOFOLLOW == 0)?.covered();
    // What no program has open keeps no mount busy.
    spare::release_all();
    let admin = Admin::current()?;
    let mount = place.mount().clone();
    if !place.is_mount_root() || !mount.is_in(admin.tree()) || mount.is_locked() {
        return Err(Errno::EINVAL);
    }
    if given & g::MNT_FORCE != 0 && !kinds::may_administer(mount.fs()) {
        return Err(Errno::EPERM);
    }
    drop(place);
    let lazily = given & g::MNT_DETACH != 0;
    if given & g::MNT_EXPIRE != 0 {
        if Rc::ptr_eq(&mount, caller.fs.root().mount()) || given & (g::MNT_FORCE | g::MNT_DETACH) != 0 {
            return Err(Errno::EINVAL);
        }
        if change::is_busy(&mount, 1) {
            return Err(Errno::EBUSY);
        }
        if !mount.is_expiring.replace(true) {
            return Err(Errno::EAGAIN);
        }
    }
    if !lazily && Rc::ptr_eq(&mount, caller.fs.root().mount()) {
        // The root can't go; it becomes read-only.
        if !kinds::may_administer(mount.fs()) {
            return Err(Errno::EPERM);
        }
        return kinds::reconfigure(mount.fs(), true, b"");
    }
    change::unmount(&mount, lazily, 1)
}

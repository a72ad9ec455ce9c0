//! Changing attributes: chmod(2), chown(2), utimensat(2), truncate(2), and their relatives.

use crate::file::File;
use crate::mm::user;
use crate::signal::{self, SigInfo};
use crate::task;
use crate::task::descriptors;
use crate::task::path::{self, Caller, check_flags, retry_stale};
use crate::task::pidfd;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::landlock::access;
use vfs::{Attr, Change, Cred, FILE_MAX, FileType, SetTime, notify, ops};

/// chmod(2).
pub fn sys_chmod(name: usize, mode: u32) -> Result<()> {
    sys_fchmodat2(g::AT_FDCWD, name, mode, 0)
}

/// fchmod(2).
pub fn sys_fchmod(fd: i32, mode: u32) -> Result<()> {
    let caller = Caller::current();
    let file = descriptors::current_file(fd)?;
    chmod_open(&file, mode, &caller)
}

/// chmod(2) of an open file.
fn chmod_open(file: &File, mode: u32, caller: &Caller) -> Result<()> {
    match &file.path {
        Some(place) => ops::chmod(place, mode, &caller.cred()),
        None => file.ops.set_attr(&|attr| ops::chmod_change(perm(attr), mode, &caller.cred())),
    }
}

/// fchmodat(2) as the kernel has it: without flags.
pub fn sys_fchmodat(fd: i32, name: usize, mode: u32) -> Result<()> {
    sys_fchmodat2(fd, name, mode, 0)
}

/// fchmodat2(2).
pub fn sys_fchmodat2(fd: i32, name: usize, mode: u32, flags: u32) -> Result<()> {
    check_flags(flags, g::AT_SYMLINK_NOFOLLOW | g::AT_EMPTY_PATH)?;
    let name = path::read_at(name, flags)?;
    let caller = Caller::current();
    if let Some(file) = path::nameless(fd, &name, flags) {
        return chmod_open(&file, mode, &caller);
    }
    retry_stale(|| ops::chmod(&caller.resolve_at(fd, &name, flags)?, mode, &caller.cred()))
}

/// Mode, owner and group.
fn perm(attr: &Attr) -> (u32, u32, u32) {
    (attr.mode, attr.uid, attr.gid)
}

/// The change of utimensat(2) for a file outside the tree: EPERM, EACCES.
fn times_change(attr: &Attr, [atime, mtime]: [Option<SetTime>; 2], cred: &Cred<'_>) -> Result<Change> {
    let (mode, uid, gid) = perm(attr);
    if !cred.owns(uid, gid) {
        if [atime, mtime] != NOW {
            return Err(Errno::EPERM);
        }
        let writable = if cred.in_group(gid) { mode & 0o020 } else { mode & 0o002 };
        if writable == 0 {
            return Err(Errno::EACCES);
        }
    }
    Ok(Change { atime, mtime, ..Change::default() })
}

/// utimensat(2) of an open file.
fn set_open_times(file: &File, times: [Option<SetTime>; 2], caller: &Caller) -> Result<()> {
    let [atime, mtime] = times;
    match &file.path {
        Some(place) => ops::set_times(place, atime, mtime, &caller.cred()),
        None => file.ops.set_attr(&|attr| times_change(attr, times, &caller.cred())),
    }
}

/// The ids of chown(2): -1 leaves one. EINVAL: not mapped in the caller's user namespace.
fn ids(uid: u32, gid: u32, cred: &Cred<'_>) -> Result<(Option<u32>, Option<u32>)> {
    let id = |value: u32, group| match cred.ids {
        _ if value == u32::MAX => Ok(None),
        Some(ids) => ids.outward(group, value).map(Some).ok_or(Errno::EINVAL),
        None => Ok(Some(value)),
    };
    Ok((id(uid, false)?, id(gid, true)?))
}

/// chown(2).
pub fn sys_chown(name: usize, uid: u32, gid: u32) -> Result<()> {
    sys_fchownat(g::AT_FDCWD, name, uid, gid, 0)
}

/// lchown(2).
pub fn sys_lchown(name: usize, uid: u32, gid: u32) -> Result<()> {
    sys_fchownat(g::AT_FDCWD, name, uid, gid, g::AT_SYMLINK_NOFOLLOW)
}

/// fchown(2).
pub fn sys_fchown(fd: i32, uid: u32, gid: u32) -> Result<()> {
    chown_open(&*descriptors::current_file(fd)?, uid, gid, &Caller::current())
}

/// chown(2) of an open file.
fn chown_open(file: &File, uid: u32, gid: u32, caller: &Caller) -> Result<()> {
    let (uid, gid) = ids(uid, gid, &caller.cred())?;
    match &file.path {
        Some(place) => ops::chown(place, uid, gid, &caller.cred()),
        None => file.ops.set_attr(&|attr| ops::chown_change(perm(attr), uid, gid, false, &caller.cred())),
    }
}

/// fchownat(2).
pub fn sys_fchownat(fd: i32, name: usize, uid: u32, gid: u32, flags: u32) -> Result<()> {
    check_flags(flags, g::AT_SYMLINK_NOFOLLOW | g::AT_EMPTY_PATH)?;
    let name = path::read_at(name, flags)?;
    let caller = Caller::current();
    if let Some(file) = path::nameless(fd, &name, flags) {
        return chown_open(&file, uid, gid, &caller);
    }
    retry_stale(|| {
        let place = caller.resolve_at(fd, &name, flags)?;
        let (uid, gid) = ids(uid, gid, &caller.cred())?;
        ops::chown(&place, uid, gid, &caller.cred())
    })
}

/// Sets both times of a path, or of the file of `fd` if `name` is 0.
fn set_times(fd: i32, name: usize, flags: u32, times: [Option<SetTime>; 2]) -> Result<()> {
    let caller = Caller::current();
    if name == 0 && fd != g::AT_FDCWD {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        return set_open_times(&*descriptors::current_file(fd)?, times, &caller);
    }
    let name = path::read(name)?;
    if let Some(file) = path::nameless(fd, &name, flags) {
        return set_open_times(&file, times, &caller);
    }
    let [atime, mtime] = times;
    retry_stale(|| ops::set_times(&caller.resolve_at(fd, &name, flags)?, atime, mtime, &caller.cred()))
}

const NOW: [Option<SetTime>; 2] = [Some(SetTime::Now); 2];

/// utimensat(2).
pub fn sys_utimensat(fd: i32, name: usize, times: usize, flags: u32) -> Result<()> {
    let mut set = NOW;
    if times != 0 {
        for (at, [seconds, ns]) in set.iter_mut().zip(user::read::<[[i64; 2]; 2]>(times)?) {
            *at = match u32::try_from(ns) {
                Ok(g::UTIME_NOW) => Some(SetTime::Now),
                Ok(g::UTIME_OMIT) => None,
                Ok(ns) if ns < 1_000_000_000 => Some(SetTime::At(seconds, ns)),
                _ => return Err(Errno::EINVAL),
            };
        }
        if set == [None, None] {
            return Ok(());
        }
    }
    check_flags(flags, g::AT_SYMLINK_NOFOLLOW | g::AT_EMPTY_PATH)?;
    set_times(fd, name, flags, set)
}

/// utime(2): whole seconds.
pub fn sys_utime(name: usize, times: usize) -> Result<()> {
    let mut set = NOW;
    if times != 0 {
        let [atime, mtime] = user::read::<[i64; 2]>(times)?;
        set = [Some(SetTime::At(atime, 0)), Some(SetTime::At(mtime, 0))];
    }
    set_times(g::AT_FDCWD, name, 0, set)
}

/// utimes(2): microseconds.
pub fn sys_utimes(name: usize, times: usize) -> Result<()> {
    sys_futimesat(g::AT_FDCWD, name, times)
}

/// futimesat(2).
pub fn sys_futimesat(fd: i32, name: usize, times: usize) -> Result<()> {
    let mut set = NOW;
    if times != 0 {
        for (at, [seconds, us]) in set.iter_mut().zip(user::read::<[[i64; 2]; 2]>(times)?) {
            let us = u32::try_from(us).ok().filter(|&us| us < 1_000_000).ok_or(Errno::EINVAL)?;
            *at = Some(SetTime::At(seconds, us * 1000));
        }
    }
    set_times(fd, name, 0, set)
}

/// A new size within RLIMIT_FSIZE. EFBIG, with SIGXFSZ.
pub(crate) fn check_size(old: u64, size: u64) -> Result<()> {
    let limit = task::with_current(|t| t.limit(g::RLIMIT_FSIZE));
    if size > old && size > limit {
        // SIGXFSZ is sent besides EFBIG; its delivery can't fail here.
        let _ = signal::send_to_task(&task::current(), SigInfo::from_kernel(g::SIGXFSZ));
        return Err(Errno::EFBIG);
    }
    if size > FILE_MAX { Err(Errno::EFBIG) } else { Ok(()) }
}

/// truncate(2).
pub fn sys_truncate(name: usize, size: i64) -> Result<()> {
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    let name = path::read(name)?;
    let caller = Caller::current();
    retry_stale(|| {
        let place = caller.resolve(g::AT_FDCWD, &name, true)?;
        if place.inode().file_type() == FileType::Regular {
            check_size(place.inode().attr()?.size, size)?;
        }
        ops::truncate(&place, size, &caller.cred())?;
        crate::mm::reverse::truncated(place.inode(), size);
        Ok(())
    })
}

/// ftruncate(2).
pub fn sys_ftruncate(fd: i32, size: i64) -> Result<()> {
    let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
    let file = descriptors::current_file(fd)?;
    if pidfd::is_one(&file) {
        return Err(Errno::EOPNOTSUPP);
    }
    let inode = file.ops.inode().filter(|i| i.file_type() == FileType::Regular).ok_or(Errno::EINVAL)?;
    if !file.writable() {
        return Err(Errno::EINVAL);
    }
    check_size(inode.attr()?.size, size)?;
    file.check_right(access::TRUNCATE)?;
    inode.truncate(size)?;
    crate::mm::reverse::truncated(&inode, size);
    match &file.path {
        Some(place) => {
            notify::happened(place, g::IN_MODIFY, false);
            ops::drop_set_id(place, &Caller::current().cred())
        }
        None => Ok(()),
    }
}

/// umask(2).
pub fn sys_umask(mask: u32) -> u32 {
    task::with_current(|t| t.fs().set_umask(mask))
}

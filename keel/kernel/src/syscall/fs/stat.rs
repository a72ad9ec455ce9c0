//! Attributes to programs: stat(2), statx(2), access(2), readlink(2).

use crate::fs::proc::Description;
use crate::mm::user;
use crate::task::path::{self, Caller, check_flags};
use crate::task::{self, descriptors};
use uapi::raw::general as g;
use uapi::{Errno, Result, zeroed};
use vfs::PathRef;
use vfs::attr::split_dev;
use vfs::cred::{MAY_EXEC, MAY_WRITE};
use vfs::ways::Question;
use vfs::{Attr, FileType};

/// Attributes as the caller's user namespace shows them.
fn shown(mut attr: Attr) -> Attr {
    task::with_current(|me| {
        let ns = &me.cred.borrow().user_ns;
        (attr.uid, attr.gid) = (ns.shown_uid(attr.uid), ns.shown_gid(attr.gid));
    });
    attr
}

/// Writes a `struct stat`.
fn put(address: usize, attr: &Attr) -> Result<()> {
    user::write(address, &stat_of(&shown(*attr)))
}

/// Attributes as stat(2) gives them.
pub(crate) fn stat_of(attr: &Attr) -> g::stat {
    let mut stat: g::stat = zeroed();
    stat.st_dev = attr.dev;
    stat.st_ino = attr.ino;
    stat.st_nlink = u64::from(attr.nlink);
    stat.st_mode = attr.mode;
    stat.st_uid = attr.uid;
    stat.st_gid = attr.gid;
    stat.st_rdev = attr.rdev;
    stat.st_size = attr.size as i64;
    stat.st_blksize = i64::from(attr.blksize);
    stat.st_blocks = attr.blocks as i64;
    (stat.st_atime, stat.st_atime_nsec) = (attr.atime as u64, u64::from(attr.atime_ns));
    (stat.st_mtime, stat.st_mtime_nsec) = (attr.mtime as u64, u64::from(attr.mtime_ns));
    (stat.st_ctime, stat.st_ctime_nsec) = (attr.ctime as u64, u64::from(attr.ctime_ns));
    stat
}

/// stat(2).
pub fn sys_stat(name: usize, buf: usize) -> Result<()> {
    sys_newfstatat(g::AT_FDCWD, name, buf, 0)
}

/// lstat(2).
pub fn sys_lstat(name: usize, buf: usize) -> Result<()> {
    sys_newfstatat(g::AT_FDCWD, name, buf, g::AT_SYMLINK_NOFOLLOW)
}

/// fstat(2).
pub fn sys_fstat(fd: i32, buf: usize) -> Result<()> {
    let file = descriptors::current_file_raw(fd)?;
    let attr = file.ops.attr()?;
    descriptors::was_used(fd, &file);
    put(buf, &attr)
}

/// newfstatat(2).
pub fn sys_newfstatat(fd: i32, name: usize, buf: usize, flags: u32) -> Result<()> {
    let known = g::AT_SYMLINK_NOFOLLOW | g::AT_NO_AUTOMOUNT | g::AT_EMPTY_PATH | g::AT_STATX_SYNC_TYPE;
    check_flags(flags, known)?;
    let (attr, _) = attr_at(fd, name, flags)?;
    put(buf, &attr)
}

/// Attributes of a path, or of an open file of any kind with an empty path and `AT_EMPTY_PATH`.
fn attr_at(fd: i32, name: usize, flags: u32) -> Result<(Attr, Option<PathRef>)> {
    let name = path::read_at(name, flags)?;
    if name.is_empty() && flags & g::AT_EMPTY_PATH != 0 && fd != g::AT_FDCWD {
        let file = descriptors::current_file_raw(fd)?;
        let attr = file.ops.attr()?;
        descriptors::was_used(fd, &file);
        return Ok((attr, file.path.clone()));
    }
    let caller = Caller::current();
    let place = caller.resolve_at(fd, &name, flags)?;
    caller.walked(fd, &name, Question::attributes(flags & g::AT_SYMLINK_NOFOLLOW == 0), &place);
    Ok((place.inode().attr()?, Some(place)))
}

const fn timestamp(seconds: i64, ns: u32) -> g::statx_timestamp {
    g::statx_timestamp { tv_sec: seconds, tv_nsec: ns, __reserved: 0 }
}

/// statx(2).
pub fn sys_statx(fd: i32, name: usize, flags: u32, mask: u32, buf: usize) -> Result<()> {
    if mask & g::STATX__RESERVED != 0 || flags & g::AT_STATX_SYNC_TYPE == g::AT_STATX_SYNC_TYPE {
        return Err(Errno::EINVAL);
    }
    check_flags(flags, g::AT_SYMLINK_NOFOLLOW | g::AT_NO_AUTOMOUNT | g::AT_EMPTY_PATH | g::AT_STATX_SYNC_TYPE)?;
    let (attr, place) = attr_at(fd, name, flags)?;
    let mount = place.map(|place| (place.mount().id, place.is_mount_root()));
    user::write(buf, &statx_of(&shown(attr), mask, mount))
}

/// Attributes as statx(2) gives them, of a file in this mount; whether it is its root.
pub(crate) fn statx_of(attr: &Attr, mask: u32, mount: Option<(u32, bool)>) -> g::statx {
    let mut x: g::statx = zeroed();
    x.stx_mask = g::STATX_BASIC_STATS;
    x.stx_blksize = attr.blksize;
    x.stx_nlink = attr.nlink;
    x.stx_uid = attr.uid;
    x.stx_gid = attr.gid;
    x.stx_mode = attr.mode as u16;
    x.stx_ino = attr.ino;
    x.stx_size = attr.size;
    x.stx_blocks = attr.blocks;
    x.stx_atime = timestamp(attr.atime, attr.atime_ns);
    x.stx_mtime = timestamp(attr.mtime, attr.mtime_ns);
    x.stx_ctime = timestamp(attr.ctime, attr.ctime_ns);
    if attr.btime != 0 {
        x.stx_mask |= g::STATX_BTIME;
        x.stx_btime = timestamp(attr.btime, attr.btime_ns);
    }
    (x.stx_rdev_major, x.stx_rdev_minor) = split_dev(attr.rdev);
    (x.stx_dev_major, x.stx_dev_minor) = split_dev(attr.dev);
    x.stx_attributes_mask = u64::from(g::STATX_ATTR_MOUNT_ROOT | g::STATX_ATTR_AUTOMOUNT);
    if let Some((mount, is_root)) = mount {
        // One of both, asked or not.
        let is_unique = mask & g::STATX_MNT_ID_UNIQUE != 0;
        x.stx_mask |= if is_unique { g::STATX_MNT_ID_UNIQUE } else { g::STATX_MNT_ID };
        x.stx_mnt_id = if is_unique { vfs::mount::unique_id(mount) } else { u64::from(mount) };
        if is_root {
            x.stx_attributes |= u64::from(g::STATX_ATTR_MOUNT_ROOT);
        }
    }
    x
}

/// access(2).
pub fn sys_access(name: usize, mode: u32) -> Result<()> {
    sys_faccessat2(g::AT_FDCWD, name, mode, 0)
}

/// faccessat(2) as the kernel has it: without flags.
pub fn sys_faccessat(fd: i32, name: usize, mode: u32) -> Result<()> {
    sys_faccessat2(fd, name, mode, 0)
}

/// faccessat2(2).
pub fn sys_faccessat2(fd: i32, name: usize, mode: u32, flags: u32) -> Result<()> {
    if mode & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    check_flags(flags, g::AT_EACCESS | g::AT_SYMLINK_NOFOLLOW | g::AT_EMPTY_PATH)?;
    let caller = if flags & g::AT_EACCESS != 0 { Caller::current() } else { Caller::current_real() };
    let name = path::read_at(name, flags)?;
    if name.is_empty() && flags & g::AT_EMPTY_PATH != 0 && fd != g::AT_FDCWD {
        let file = descriptors::current_file_raw(fd)?;
        return match file.ops.inode() {
            _ if mode == 0 => Ok(()),
            Some(inode) => caller.cred().check(&*inode, mode),
            None => {
                let attr = file.ops.attr()?;
                // What has no name is in file systems without programs.
                if mode & MAY_EXEC != 0 && FileType::of(attr.mode) == FileType::Regular {
                    return Err(Errno::EACCES);
                }
                caller.cred().check_mode((attr.mode, attr.uid, attr.gid), mode)
            }
        };
    }
    let place = caller.resolve_at(fd, &name, flags)?;
    let inode = place.inode();
    if mode & (MAY_EXEC | MAY_WRITE) != 0 && mode & MAY_WRITE != 0 && is_stored(inode.file_type()) {
        // Devices, FIFOs and sockets can be written on read-only file systems.
        vfs::ops::check_writable(&place)?;
    }
    let executes = mode & MAY_EXEC != 0 && inode.file_type() == FileType::Regular;
    if executes && (place.has_flag(vfs::mount::flags::NO_EXEC) || inode.as_any().is::<Description>()) {
        return Err(Errno::EACCES);
    }
    if mode != 0 {
        caller.cred().check(&**inode, mode)?;
    }
    let question = Question::access(mode, flags & g::AT_EACCESS == 0, flags & g::AT_SYMLINK_NOFOLLOW == 0);
    caller.walked(fd, &name, question, &place);
    Ok(())
}

const fn is_stored(kind: FileType) -> bool {
    matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink)
}

/// readlink(2).
pub fn sys_readlink(name: usize, buf: usize, size: i32) -> Result<usize> {
    sys_readlinkat(g::AT_FDCWD, name, buf, size)
}

/// readlinkat(2). An empty path means the link that `fd` was opened for with `O_PATH`.
pub fn sys_readlinkat(fd: i32, name: usize, buf: usize, size: i32) -> Result<usize> {
    let size = usize::try_from(size).ok().filter(|&s| s > 0).ok_or(Errno::EINVAL)?;
    let name = path::read(name)?;
    let caller = Caller::current();
    let place = if name.is_empty() {
        if fd == g::AT_FDCWD {
            return Err(Errno::ENOENT);
        }
        let place = descriptors::current_file_raw(fd)?.path.clone().ok_or(Errno::ENOENT)?;
        if place.inode().file_type() != FileType::Symlink {
            return Err(Errno::ENOENT);
        }
        place
    } else {
        caller.resolve(fd, &name, false)?
    };
    let target = place.inode().readlink()?;
    caller.walked(fd, &name, Question::LINK, &place);
    // Links of /proc lead to places of any depth.
    if target.len() >= vfs::PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let shown = target.get(..size).unwrap_or(&target);
    user::write_bytes(buf, shown)?;
    Ok(shown.len())
}

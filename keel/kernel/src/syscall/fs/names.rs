//! Making, removing and moving names.

use crate::task::path::{self, Caller, check_flags};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::attr::{makedev, split_dev};
use vfs::cred::cap;
use vfs::{FileType, NewNode, ops};

/// mkdir(2).
pub fn sys_mkdir(name: usize, mode: u32) -> Result<()> {
    sys_mkdirat(g::AT_FDCWD, name, mode)
}

/// mkdirat(2).
pub fn sys_mkdirat(fd: i32, name: usize, mode: u32) -> Result<()> {
    let name = path::read(name)?;
    let caller = Caller::current();
    let cred = caller.cred();
    let parent = caller.parent(fd, &name)?;
    // Of the special bits only the sticky one may be asked for.
    let new = NewNode::plain(0o040000 | mode & 0o1777, cred.uid, cred.gid);
    ops::create(&parent, &NewNode { umask: caller.fs.umask(), ..new }, &cred).map(drop)
}

/// mknod(2).
pub fn sys_mknod(name: usize, mode: u32, dev: u32) -> Result<()> {
    sys_mknodat(g::AT_FDCWD, name, mode, dev)
}

/// mknodat(2).
pub fn sys_mknodat(fd: i32, name: usize, mode: u32, dev: u32) -> Result<()> {
    let kind = match mode & 0o170000 {
        0 | 0o100000 => FileType::Regular,
        0o040000 => return Err(Errno::EPERM),
        0o020000 => FileType::CharDevice,
        0o060000 => FileType::BlockDevice,
        0o010000 => FileType::Fifo,
        0o140000 => FileType::Socket,
        _ => return Err(Errno::EINVAL),
    };
    let name = path::read(name)?;
    let caller = Caller::current();
    let cred = caller.cred();
    let parent = caller.parent(fd, &name)?;
    let device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    let (major, minor) = split_dev(u64::from(dev));
    // A whiteout of overlays leads to no device.
    let whiteout = kind == FileType::CharDevice && (major, minor) == (0, 0);
    if device && !whiteout && !cred.has(cap::MKNOD) {
        return Err(Errno::EPERM);
    }
    let new = NewNode {
        rdev: if device { makedev(major, minor) } else { 0 },
        umask: caller.fs.umask(),
        ..NewNode::plain(kind.mode_bits() | mode & 0o7777, cred.uid, cred.gid)
    };
    ops::create(&parent, &new, &cred).map(drop)
}

/// symlink(2).
pub fn sys_symlink(target: usize, name: usize) -> Result<()> {
    sys_symlinkat(target, g::AT_FDCWD, name)
}

/// symlinkat(2).
pub fn sys_symlinkat(target: usize, fd: i32, name: usize) -> Result<()> {
    let target = path::read(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let name = path::read(name)?;
    let caller = Caller::current();
    let cred = caller.cred();
    let parent = caller.parent(fd, &name)?;
    let new = NewNode { target: &target, ..NewNode::plain(0o120777, cred.uid, cred.gid) };
    ops::create(&parent, &new, &cred).map(drop)
}

/// link(2).
pub fn sys_link(old: usize, new: usize) -> Result<()> {
    sys_linkat(g::AT_FDCWD, old, g::AT_FDCWD, new, 0)
}

/// linkat(2).
pub fn sys_linkat(old_fd: i32, old: usize, new_fd: i32, new: usize, flags: u32) -> Result<()> {
    check_flags(flags, g::AT_SYMLINK_FOLLOW | g::AT_EMPTY_PATH)?;
    let old = path::read_at(old, flags)?;
    let caller = Caller::current();
    let cred = caller.cred();
    let target = if old.is_empty() && flags & g::AT_EMPTY_PATH != 0 {
        if !cred.has_here(cap::DAC_READ_SEARCH) {
            return Err(Errno::ENOENT);
        }
        if path::nameless(old_fd, &old, flags).is_some() {
            // Where the new name leads is looked at first.
            caller.parent(new_fd, &path::read(new)?)?;
            return Err(Errno::EXDEV);
        }
        caller.place_of(old_fd)?
    } else {
        caller.resolve(old_fd, &old, flags & g::AT_SYMLINK_FOLLOW != 0)?
    };
    let new = path::read(new)?;
    let parent = caller.parent(new_fd, &new)?;
    ops::link(&target, &parent, &cred)
}

/// unlink(2).
pub fn sys_unlink(name: usize) -> Result<()> {
    sys_unlinkat(g::AT_FDCWD, name, 0)
}

/// rmdir(2).
pub fn sys_rmdir(name: usize) -> Result<()> {
    sys_unlinkat(g::AT_FDCWD, name, g::AT_REMOVEDIR)
}

/// unlinkat(2).
pub fn sys_unlinkat(fd: i32, name: usize, flags: u32) -> Result<()> {
    check_flags(flags, g::AT_REMOVEDIR)?;
    let name = path::read(name)?;
    let caller = Caller::current();
    let parent = caller.parent(fd, &name)?;
    if flags & g::AT_REMOVEDIR != 0 {
        ops::rmdir(&parent, &caller.cred())
    } else {
        ops::unlink(&parent, &caller.cred())
    }
}

/// rename(2).
pub fn sys_rename(old: usize, new: usize) -> Result<()> {
    sys_renameat2(g::AT_FDCWD, old, g::AT_FDCWD, new, 0)
}

/// renameat(2).
pub fn sys_renameat(old_fd: i32, old: usize, new_fd: i32, new: usize) -> Result<()> {
    sys_renameat2(old_fd, old, new_fd, new, 0)
}

/// renameat2(2).
pub fn sys_renameat2(old_fd: i32, old: usize, new_fd: i32, new: usize, flags: u32) -> Result<()> {
    check_flags(flags, g::RENAME_NOREPLACE | g::RENAME_EXCHANGE | g::RENAME_WHITEOUT)?;
    if flags & g::RENAME_EXCHANGE != 0 && flags & (g::RENAME_NOREPLACE | g::RENAME_WHITEOUT) != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = Caller::current();
    let from = caller.parent(old_fd, &path::read(old)?)?;
    let to = caller.parent(new_fd, &path::read(new)?)?;
    ops::rename(&from, &to, flags, &caller.cred())
}

/// name_to_handle_at(2): no file system here has handles, but the path is looked at first. EOPNOTSUPP.
pub fn sys_name_to_handle_at(fd: i32, name: usize, _handle: usize, _mount: usize, flags: u32) -> Result<()> {
    let known = g::AT_SYMLINK_FOLLOW | g::AT_EMPTY_PATH | g::AT_HANDLE_FID | g::AT_HANDLE_MNT_ID_UNIQUE;
    path::check_flags(flags, known)?;
    let name = path::read_at(name, flags)?;
    let follow = if flags & g::AT_SYMLINK_FOLLOW != 0 { 0 } else { g::AT_SYMLINK_NOFOLLOW };
    Caller::current().resolve_at(fd, &name, flags & g::AT_EMPTY_PATH | follow)?;
    Err(Errno::EOPNOTSUPP)
}

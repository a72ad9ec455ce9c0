//! File attributes as statx(2) returns them, and their changes.

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::export::{ExportConfig, attr_flags};
use super::handles::Handles;
use super::path::RelPath;
use super::subject::Subject;
use abi::request::{AttrChange, FsStat, NodeAttr, SetAttr, set_attr};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Statx, StatxFlags, Timespec, Timestamps, Uid, makedev,
};

/// Attributes of `name` in `dir`; symbolic links are not followed.
pub fn at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Statx> {
    rustix::fs::statx(dir, name, attr_flags(name), StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Attributes of an open file.
pub fn of_fd(fd: BorrowedFd<'_>) -> Result<Statx> {
    at(fd, b"")
}

/// Type of a file.
pub fn kind(stat: &Statx) -> FileType {
    FileType::from_raw_mode(u32::from(stat.stx_mode))
}

/// The guest's form of `stat`.
pub fn node_attr(stat: &Statx) -> NodeAttr {
    NodeAttr {
        ino: stat.stx_ino,
        dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
        mode: u32::from(stat.stx_mode),
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        blksize: stat.stx_blksize,
        atime_ns: stat.stx_atime.tv_nsec,
        mtime_ns: stat.stx_mtime.tv_nsec,
        ctime_ns: stat.stx_ctime.tv_nsec,
        btime_ns: stat.stx_btime.tv_nsec,
        flags: 0,
        atime: stat.stx_atime.tv_sec,
        mtime: stat.stx_mtime.tv_sec,
        ctime: stat.stx_ctime.tv_sec,
        btime: stat.stx_btime.tv_sec,
    }
}

/// Path of an open descriptor in `/proc`, for calls that do not take an `O_PATH` descriptor. The kernel resolves it to
/// the open file itself, so renames do not matter.
pub fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn owner(value: u32) -> Result<u32> {
    // The kernel takes -1 as "unchanged", so it is not a valid id.
    if value == u32::MAX { Err(Errno::INVAL) } else { Ok(value) }
}

fn time(valid: u32, given: u32, now: u32, seconds: i64, nanoseconds: u32) -> Result<Timespec> {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    if valid & now != 0 {
        Ok(special(rustix::fs::UTIME_NOW))
    } else if valid & given == 0 {
        Ok(special(rustix::fs::UTIME_OMIT))
    } else if nanoseconds >= 1_000_000_000 {
        Err(Errno::INVAL)
    } else {
        Ok(Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() })
    }
}

/// Changes the owner of an open node. For root the kernel clears set-id bits.
pub fn change_owner(node: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(node, b"".as_slice(), uid, gid, AtFlags::EMPTY_PATH)
}

/// Changes the permission bits of an open node; EOPNOTSUPP for a symbolic link.
pub fn change_mode(node: BorrowedFd<'_>, mode: u32) -> Result<()> {
    let mode = Mode::from_raw_mode(mode & 0o7777);
    rustix::fs::chmodat(rustix::fs::CWD, proc_path(node), mode, AtFlags::empty())
}

/// Clears set-id bits and capabilities of an open file, by a chown(2) that changes nothing.
pub fn take_privileges(file: BorrowedFd<'_>) -> Result<()> {
    let setid = of_fd(file)?.stx_mode & 0o6000 != 0;
    if setid || rustix::fs::getxattr_query(proc_path(file), c"security.capability").is_ok() {
        change_owner(file, None, None)?;
    }
    Ok(())
}

/// [`struct@SetAttr`]: owner, mode, size, times, in this order. After an error the earlier changes remain, as with
/// separate calls.
pub fn set(export: &ExportConfig, handles: &Handles, set: SetAttr, input: &[u8], out: &mut Output<'_>) -> Result<()> {
    let (wanted, path) = input.split_at_checked(size_of::<AttrChange>()).ok_or(Errno::INVAL)?;
    let (wanted, path): (AttrChange, _) = (bytemuck::pod_read_unaligned(wanted), RelPath::new(path)?);
    let all = set_attr::MODE | set_attr::UID | set_attr::GID | set_attr::SIZE | set_attr::ATIME | set_attr::MTIME;
    let valid = wanted.valid;
    if valid & !(all | set_attr::ATIME_NOW | set_attr::MTIME_NOW) != 0 || wanted.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let has = |bit| valid & bit != 0;
    let uid = has(set_attr::UID).then(|| owner(wanted.uid)).transpose()?;
    let gid = has(set_attr::GID).then(|| owner(wanted.gid)).transpose()?;
    let times = Timestamps {
        last_access: time(valid, set_attr::ATIME, set_attr::ATIME_NOW, wanted.atime, wanted.atime_ns)?,
        last_modification: time(valid, set_attr::MTIME, set_attr::MTIME_NOW, wanted.mtime, wanted.mtime_ns)?,
    };
    export.check_writable()?;
    let node = Subject::find(export, handles, set.handle, path)?;
    let before = node_attr(&of_fd(node.as_fd())?);
    if wanted.ino != 0 && !is_for(&wanted, &before) {
        return Err(Errno::STALE);
    }
    if uid.is_some() || gid.is_some() {
        change_owner(node.as_fd(), uid, gid)?;
    }
    if has(set_attr::MODE) {
        let mode = match wanted.mode & 0o6000 {
            0 => wanted.mode & 0o1777,
            _ => export.mode(kind(&of_fd(node.as_fd())?), wanted.mode),
        };
        match &node {
            Subject::Open(file) => rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?,
            Subject::Named(node) => change_mode(node.as_fd(), mode)?,
        }
    }
    if has(set_attr::SIZE) {
        match &node {
            Subject::Open(file) => rustix::fs::ftruncate(file, wanted.size)?,
            Subject::Named(node) => cut(node.as_fd(), wanted.size)?,
        }
    }
    if valid & (set_attr::ATIME | set_attr::MTIME | set_attr::ATIME_NOW | set_attr::MTIME_NOW) != 0 {
        rustix::fs::utimensat(node.as_fd(), b"".as_slice(), &times, AtFlags::EMPTY_PATH)?;
    }
    out.put_optional(&node_attr(&of_fd(node.as_fd())?))?;
    out.put_optional(&before)
}

/// Whether a change is for the file with these attributes.
fn is_for(wanted: &AttrChange, attr: &NodeAttr) -> bool {
    (wanted.ino, wanted.dev) == (attr.ino, attr.dev) && (wanted.btime, wanted.btime_ns) == (attr.btime, attr.btime_ns)
}

/// truncate(2) of a regular file.
fn cut(node: BorrowedFd<'_>, size: u64) -> Result<()> {
    match kind(&of_fd(node)?) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR),
        _ => return Err(Errno::INVAL),
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(rustix::fs::CWD, proc_path(node), flags, Mode::empty(), ResolveFlags::empty())?;
    rustix::fs::ftruncate(&file, size)
}

/// [`abi::request::StatFs`].
pub fn stat_fs(export: &ExportConfig, path: RelPath<'_>, out: &mut Output<'_>) -> Result<()> {
    let node = export.node(path)?;
    let stat = rustix::fs::fstatfs(&node)?;
    out.put(bytemuck::bytes_of(&FsStat {
        kind: stat.f_type as u64,
        bsize: stat.f_bsize as u64,
        blocks: stat.f_blocks,
        bfree: stat.f_bfree,
        bavail: stat.f_bavail,
        files: stat.f_files,
        ffree: stat.f_ffree,
        namelen: stat.f_namelen as u64,
    }))
}

//! Space and durability: statfs(2), fallocate(2), fsync(2) and their relatives.

use crate::file::File;
use crate::fs::setup;
use crate::mm::user;
use crate::task::descriptors;
use crate::task::path::{self, Caller};
use crate::task::pidfd;
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result, zeroed};
use vfs::PathRef;
use vfs::mount::flags;
use vfs::{FileType, Inode};

/// Flags of a mount in `f_flags`, with ST_VALID.
const ST_VALID: i64 = 0x20;
const ST_RDONLY: i64 = 1;
/// The flags by those of a mount.
const ST_FLAGS: [(u32, i64); 7] = [
    (flags::NO_SUID, 2),
    (flags::NO_DEV, 4),
    (flags::NO_EXEC, 8),
    (flags::NO_ATIME, 0x400),
    (flags::NO_DIR_ATIME, 0x800),
    (flags::RELATIME, 0x1000),
    (flags::NO_SYMFOLLOW, 0x2000),
];

fn put_statfs(address: usize, inode: &dyn Inode, place: Option<&PathRef>) -> Result<()> {
    let stat = inode.statfs()?;
    let mut out: g::statfs64 = zeroed();
    out.f_type = stat.kind as i64;
    out.f_bsize = stat.bsize as i64;
    out.f_blocks = stat.blocks;
    out.f_bfree = stat.bfree;
    out.f_bavail = stat.bavail;
    out.f_files = stat.files;
    out.f_ffree = stat.ffree;
    out.f_fsid.val = [inode.attr()?.dev as i32, 0];
    out.f_namelen = stat.namelen as i64;
    out.f_frsize = stat.bsize as i64;
    out.f_flags = ST_VALID;
    // Files without a name are in a mount of keel's own.
    let mount = place.map_or(flags::RELATIME, |place| place.mount().flags());
    let set = ST_FLAGS.iter().filter(|(flag, _)| mount & flag != 0);
    set.for_each(|(_, shown)| out.f_flags |= shown);
    if place.is_some_and(|p| p.mount().is_read_only()) {
        out.f_flags |= ST_RDONLY;
    }
    user::write(address, &out)
}

/// statfs(2).
pub fn sys_statfs(name: usize, buf: usize) -> Result<()> {
    let name = path::read(name)?;
    let place = Caller::current().resolve(g::AT_FDCWD, &name, true)?;
    put_statfs(buf, &**place.inode(), Some(&place))
}

/// fstatfs(2).
pub fn sys_fstatfs(fd: i32, buf: usize) -> Result<()> {
    let file = descriptors::current_file_raw(fd)?;
    match file.path.as_ref().map(|p| p.inode().clone()).or_else(|| file.ops.inode()) {
        Some(inode) => put_statfs(buf, &*inode, file.path.as_ref()),
        None => put_nameless_statfs(buf, file.ops.attr()?.mode),
    }
}

/// The file systems of pipes, sockets, and everything else that has no name.
fn put_nameless_statfs(address: usize, mode: u32) -> Result<()> {
    const PIPEFS_MAGIC: i64 = 0x5049_5045;
    const SOCKFS_MAGIC: i64 = 0x534f_434b;
    const ANON_INODE_FS_MAGIC: i64 = 0x0904_1934;
    let mut out: g::statfs64 = zeroed();
    out.f_type = match mode & g::S_IFMT {
        g::S_IFIFO => PIPEFS_MAGIC,
        g::S_IFSOCK => SOCKFS_MAGIC,
        _ => ANON_INODE_FS_MAGIC,
    };
    out.f_bsize = PAGE_SIZE as i64;
    out.f_frsize = PAGE_SIZE as i64;
    out.f_namelen = 255;
    out.f_flags = ST_VALID;
    user::write(address, &out)
}

/// fallocate(2).
pub fn sys_fallocate(fd: i32, mode: u32, offset: i64, len: i64) -> Result<()> {
    let file = descriptors::current_file(fd)?;
    let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    let len = u64::try_from(len).ok().filter(|&l| l > 0).ok_or(Errno::EINVAL)?;
    const MODES: u32 = g::FALLOC_FL_KEEP_SIZE
        | g::FALLOC_FL_PUNCH_HOLE
        | g::FALLOC_FL_COLLAPSE_RANGE
        | g::FALLOC_FL_ZERO_RANGE
        | g::FALLOC_FL_INSERT_RANGE
        | g::FALLOC_FL_UNSHARE_RANGE;
    if mode & !MODES != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    // One thing at a time; holes never change the size, the last three always may.
    let keep = mode & g::FALLOC_FL_KEEP_SIZE != 0;
    match mode & !g::FALLOC_FL_KEEP_SIZE {
        0 | g::FALLOC_FL_ZERO_RANGE => {}
        g::FALLOC_FL_PUNCH_HOLE if keep => {}
        g::FALLOC_FL_COLLAPSE_RANGE | g::FALLOC_FL_INSERT_RANGE | g::FALLOC_FL_UNSHARE_RANGE if !keep => {}
        _ => return Err(Errno::EOPNOTSUPP),
    }
    if !file.writable() {
        return Err(Errno::EBADF);
    }
    let Some(inode) = file.ops.inode() else {
        return Err(match file.ops.attr()?.mode & g::S_IFMT {
            g::S_IFIFO => Errno::ESPIPE,
            _ if !pidfd::is_one(&file) => Errno::ENODEV,
            _ if offset.checked_add(len).is_none_or(|end| end > vfs::FILE_MAX) => Errno::EFBIG,
            _ => Errno::EOPNOTSUPP,
        });
    };
    match inode.file_type() {
        FileType::Regular => {}
        FileType::Fifo => return Err(Errno::ESPIPE),
        FileType::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::ENODEV),
    }
    match offset.checked_add(len) {
        Some(end) if end <= vfs::FILE_MAX => {
            // As in tmpfs also for room behind the end.
            if mode & !g::FALLOC_FL_KEEP_SIZE == 0 {
                super::attributes::check_size(inode.attr()?.size, end)?;
            }
            inode.fallocate(mode, offset, len)?;
            if let Some(place) = &file.path {
                vfs::ops::drop_set_id(place, &Caller::current().cred())?;
            }
            file.happened(1, g::IN_MODIFY);
            if mode & !(g::FALLOC_FL_KEEP_SIZE | g::FALLOC_FL_UNSHARE_RANGE) != 0 {
                crate::mm::reverse::forget(&inode, offset / PAGE_SIZE as u64, u64::MAX);
            }
            Ok(())
        }
        _ => Err(Errno::EFBIG),
    }
}

/// What fsync(2) and its relatives work on: pipes, sockets and generated files have nothing to store. EINVAL.
fn stored(fd: i32) -> Result<(Rc<File>, Rc<dyn Inode>)> {
    let file = descriptors::current_file(fd)?;
    let inode = file.ops.inode().filter(|i| matches!(i.file_type(), FileType::Regular | FileType::Directory));
    let inode = inode.filter(|inode| inode.can_be_stored()).ok_or(Errno::EINVAL)?;
    Ok((file, inode))
}

/// fsync(2) of a file; reports writes that failed after they were taken.
fn store(fd: i32, data_only: bool) -> Result<()> {
    let (file, inode) = stored(fd)?;
    inode.sync(data_only)?;
    file.ops.stored(&file)
}

/// fsync(2).
pub fn sys_fsync(fd: i32) -> Result<()> {
    store(fd, false)
}

/// fdatasync(2).
pub fn sys_fdatasync(fd: i32) -> Result<()> {
    store(fd, true)
}

/// sync_file_range(2): all that it may start or wait for is done by the wider fdatasync(2).
pub fn sys_sync_file_range(fd: i32, offset: i64, len: i64, flags: u32) -> Result<()> {
    let file = descriptors::current_file(fd)?;
    path::check_flags(flags, 7)?;
    if offset < 0 || len < 0 || offset.checked_add(len).is_none() {
        return Err(Errno::EINVAL);
    }
    match file.ops.inode().filter(|i| matches!(i.file_type(), FileType::Regular | FileType::Directory)) {
        Some(inode) => inode.sync(true),
        None if pidfd::is_one(&file) => Ok(()),
        None => Err(Errno::ESPIPE),
    }
}

/// sync(2): the private layer is memory, and the host's files are written through; what the host
/// still holds back is written for those that are open.
pub fn sys_sync() -> Result<()> {
    setup::sync_all();
    Ok(())
}

/// syncfs(2).
pub fn sys_syncfs(fd: i32) -> Result<()> {
    descriptors::current_file(fd)?;
    setup::sync_all();
    Ok(())
}

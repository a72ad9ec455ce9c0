//! ioctl(2) requests of files in file systems: ioctl_ficlone(2), ioctl_fs(2), ioctl_getflags(2).

use crate::file::File;
use crate::mm::user;
use crate::task::descriptors::current_file;
use crate::task::path::{self, Caller};
use alloc::rc::Rc;
use uapi::raw::{general as g, ioctl as i};
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::{FileType, Inode, ops};

/// Block size of every file system here.
const BLOCK: i32 = 4096;
/// Bytes of `struct fsxattr`.
const FSXATTR: usize = 28;

/// Serves a request; `None` if it is none of these.
pub fn serve(file: &Rc<File>, command: u32, arg: usize) -> Option<Result<usize>> {
    Some(match command {
        i::FIGETBSZ => user::write(arg, &BLOCK).map(|()| 0),
        i::FIOQSIZE => size(file, arg),
        i::FICLONE => clone(file, arg as i32),
        i::FICLONERANGE => user::read::<[u64; 4]>(arg).and_then(|[from, ..]| clone(file, from as i32)),
        i::FS_IOC_GETFLAGS => stored(file).and_then(|_| user::write(arg, &0i32)).map(|()| 0),
        i::FS_IOC_SETFLAGS => set_flags(file, arg),
        i::FS_IOC_FSGETXATTR => stored(file).and_then(|_| user::write_bytes(arg, &[0; FSXATTR])).map(|()| 0),
        _ => return None,
    })
}

/// Bytes of `struct file_attr`.
const FILE_ATTR: usize = 24;
const AT_FLAGS: u32 = g::AT_SYMLINK_NOFOLLOW | g::AT_EMPTY_PATH;

/// The file whose attributes are meant. EOPNOTSUPP for those that have none.
fn place_with_attributes(fd: i32, name: usize, flags: u32) -> Result<PathRef> {
    let name = path::read_at(name, flags)?;
    let caller = Caller::current();
    let place = match caller.resolve_at(fd, &name, flags) {
        // A file without a name.
        Err(Errno::EBADF) if name.is_empty() && current_file(fd).is_ok() => return Err(Errno::EOPNOTSUPP),
        other => other?,
    };
    match place.inode().file_type() {
        FileType::Regular | FileType::Directory => Ok(place),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// file_getattr(2): the file systems here have no such attributes. E2BIG, EBADF, EFAULT, EINVAL, ENOENT, EOPNOTSUPP.
pub fn sys_file_getattr(fd: i32, name: usize, attr: usize, size: usize, flags: u32) -> Result<()> {
    path::check_flags(flags, AT_FLAGS)?;
    check_attr_size(size)?;
    place_with_attributes(fd, name, flags)?;
    user::clear(attr, size)
}

/// file_setattr(2): as [`sys_file_getattr`]; EOPNOTSUPP, EPERM.
pub fn sys_file_setattr(fd: i32, name: usize, attr: usize, size: usize, flags: u32) -> Result<()> {
    path::check_flags(flags, AT_FLAGS)?;
    check_attr_size(size)?;
    path::check_struct_size(attr, size, FILE_ATTR)?;
    let [attributes, rest @ ..]: [u64; 3] = user::read(attr)?;
    let place = place_with_attributes(fd, name, flags)?;
    if !ops::owns(&**place.inode(), &Caller::current().cred())? {
        return Err(Errno::EPERM);
    }
    if attributes == 0 && rest == [0; 2] { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

fn check_attr_size(size: usize) -> Result<()> {
    match size {
        _ if size > abi::layout::PAGE_SIZE => Err(Errno::E2BIG),
        _ if size < FILE_ATTR => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

fn kind(file: &File) -> Option<(Rc<dyn Inode>, FileType)> {
    let inode = file.ops.inode()?;
    let kind = inode.file_type();
    Some((inode, kind))
}

/// A regular file or a directory. ENOTTY.
fn stored(file: &File) -> Result<Rc<dyn Inode>> {
    match kind(file) {
        Some((inode, FileType::Regular | FileType::Directory)) => Ok(inode),
        _ => Err(Errno::ENOTTY),
    }
}

/// `FIOQSIZE`: bytes that are stored.
fn size(file: &File, arg: usize) -> Result<usize> {
    let attr = stored(file)?.attr()?;
    user::write(arg, &(attr.blocks * 512)).map(|()| 0)
}

/// `FICLONE`, `FICLONERANGE`: no file system here shares blocks between files.
fn clone(to: &File, from: i32) -> Result<usize> {
    let from = current_file(from)?;
    let ((_, a), (_, b)) = (kind(&from).ok_or(Errno::EXDEV)?, kind(to).ok_or(Errno::EXDEV)?);
    match (a, b) {
        (FileType::Directory, _) | (_, FileType::Directory) => Err(Errno::EISDIR),
        (FileType::Regular, FileType::Regular) if from.readable() && to.writable() => Err(Errno::EOPNOTSUPP),
        (FileType::Regular, FileType::Regular) => Err(Errno::EBADF),
        _ => Err(Errno::EINVAL),
    }
}

/// `FS_IOC_SETFLAGS`: the file systems here have none to set.
fn set_flags(file: &File, arg: usize) -> Result<usize> {
    let inode = stored(file)?;
    let flags: u32 = user::read(arg)?;
    if !ops::owns(&*inode, &Caller::current().cred())? {
        return Err(Errno::EPERM);
    }
    if flags == 0 { Ok(0) } else { Err(Errno::EOPNOTSUPP) }
}

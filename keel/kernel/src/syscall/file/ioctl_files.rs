//! ioctl(2) requests of files in file systems: ioctl_ficlone(2), ioctl_fs(2), ioctl_getflags(2).

use super::copy::same_file_system;
use crate::file::File;
use crate::mm::user;
use crate::task::descriptors::current_file;
use crate::task::path::{self, Caller};
use abi::layout::PAGE_SIZE;
use alloc::rc::Rc;
use uapi::raw::{general as g, ioctl as i};
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::cred::cap;
use vfs::synth::{PROC_MAGIC, SYSFS_MAGIC};
use vfs::{FileType, Inode, ops};

/// Block size of every file system here.
const BLOCK: i32 = 4096;
/// `FS_IOC_GETFSUUID`.
pub const GET_UUID: u32 = 0x8011_1500;
/// Bytes of `struct fsxattr`.
const FSXATTR: usize = 28;

/// Serves a request; `None` if it is none of these.
pub fn serve(file: &Rc<File>, command: u32, arg: usize) -> Option<Result<usize>> {
    Some(match command {
        i::FIGETBSZ => user::write(arg, &BLOCK).map(|()| 0),
        i::FIOQSIZE => size(file, arg),
        i::FICLONE => clone(file, arg as i32),
        i::FICLONERANGE => user::read::<[u64; 4]>(arg).and_then(|[from, ..]| clone(file, from as i32)),
        i::FIDEDUPERANGE => deduplicate(file, arg),
        // No file system here knows these; of a Linux kernel that is EOPNOTSUPP, not ENOTTY.
        i::FS_IOC_FIEMAP => Err(Errno::EOPNOTSUPP),
        i::FIFREEZE | i::FITHAW if !Caller::current().cred().has(cap::SYS_ADMIN) => Err(Errno::EPERM),
        i::FIFREEZE => Err(Errno::EOPNOTSUPP),
        i::FITHAW => Err(Errno::EINVAL),
        GET_UUID => Err(Errno::ENOTTY),
        i::FIBMAP if is_regular(file) => block_of(arg),
        i::FS_IOC_SETFLAGS => return set_flags(file, arg),
        i::FS_IOC_GETFLAGS if has_attributes(file) => user::write(arg, &0i32).map(|()| 0),
        i::FS_IOC_FSGETXATTR if has_attributes(file) => user::write_bytes(arg, &[0; FSXATTR]).map(|()| 0),
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
        _ if size > PAGE_SIZE => Err(Errno::E2BIG),
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

fn is_regular(file: &File) -> bool {
    matches!(kind(file), Some((_, FileType::Regular)))
}

/// Whether a file has the attributes of ioctl_getflags(2): not in file systems whose files are generated.
fn has_attributes(file: &File) -> bool {
    let of = |inode: Rc<dyn Inode>| inode.statfs().is_ok_and(|fs| !WITHOUT_ATTRIBUTES.contains(&fs.kind));
    stored(file).is_ok_and(of)
}

/// `f_type` of procfs, sysfs, nsfs and mqueue.
const WITHOUT_ATTRIBUTES: [u64; 4] = [PROC_MAGIC, SYSFS_MAGIC, 0x6e73_6673, 0x1980_0202];

/// `FIBMAP`: no file has blocks on a disk here.
fn block_of(arg: usize) -> Result<usize> {
    if !Caller::current().cred().has(cap::SYS_RAWIO) {
        return Err(Errno::EPERM);
    }
    user::read::<i32>(arg).and(Err(Errno::EINVAL))
}

/// What files must be to share blocks. EISDIR, EINVAL, EBADF.
fn check_shared(from: &File, to: &File) -> Result<()> {
    let kind = |file: &File| kind(file).map(|(_, kind)| kind);
    match (kind(from), kind(to)) {
        (Some(FileType::Directory), _) | (_, Some(FileType::Directory)) => Err(Errno::EISDIR),
        (Some(FileType::Regular), Some(FileType::Regular)) => {
            let appends = to.flags.get() & g::O_APPEND != 0;
            if from.readable() && to.writable() && !appends { Ok(()) } else { Err(Errno::EBADF) }
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `FICLONE`, `FICLONERANGE`: no file system here shares blocks between files.
fn clone(to: &File, from: i32) -> Result<usize> {
    let from = current_file(from)?;
    if !same_file_system(&from, to) {
        return Err(Errno::EXDEV);
    }
    check_shared(&from, to).and(Err(Errno::EOPNOTSUPP))
}

/// `FIDEDUPERANGE`, likewise.
fn deduplicate(file: &File, arg: usize) -> Result<usize> {
    /// Bytes of `struct file_dedupe_range` and of each `struct file_dedupe_range_info`.
    const SIZES: (usize, usize) = (24, 32);
    let [_, _, counts] = match user::read::<u16>(arg.wrapping_add(16))? {
        count if SIZES.0 + usize::from(count) * SIZES.1 > PAGE_SIZE => return Err(Errno::ENOMEM),
        _ => user::read::<[u64; 3]>(arg)?,
    };
    // All but the count is reserved.
    if !file.readable() || counts >> 16 != 0 {
        return Err(Errno::EINVAL);
    }
    match kind(file) {
        Some((_, FileType::Directory)) => Err(Errno::EISDIR),
        Some((_, FileType::Regular)) => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// `FS_IOC_SETFLAGS`: the file systems here have none to set. `None`: the file does not know it.
fn set_flags(file: &File, arg: usize) -> Option<Result<usize>> {
    let flags: u32 = match user::read(arg) {
        Ok(flags) => flags,
        Err(errno) => return Some(Err(errno)),
    };
    if !has_attributes(file) {
        return None;
    }
    let owns = stored(file).and_then(|inode| ops::owns(&*inode, &Caller::current().cred()));
    Some(owns.and_then(|owns| match owns {
        false => Err(Errno::EPERM),
        true if flags == 0 => Ok(0),
        true => Err(Errno::EOPNOTSUPP),
    }))
}

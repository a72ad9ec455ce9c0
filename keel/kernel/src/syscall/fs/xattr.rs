//! Extended attributes: getxattr(2), setxattr(2), listxattr(2), removexattr(2) and their relatives.

use crate::mm::user;
use crate::task::descriptors;
use crate::task::path::{self, Caller};
use alloc::vec::Vec;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::acl::{self, Kind};
use vfs::cred::{MAY_READ, MAY_WRITE, cap};
use vfs::memory::Text;
use vfs::{Cred, FileType, capability, notify, ops};

/// The file of a path; a link at its end is followed or not.
fn by_path(caller: &Caller, name: usize, follow: bool) -> Result<Subject> {
    let name = path::read(name)?;
    caller.resolve(g::AT_FDCWD, &name, follow).map(Subject::Place)
}

/// What the calls work on: a place, or the type of a file outside the tree, which has no attributes.
enum Subject {
    Place(PathRef),
    Nameless,
}

/// The file of a descriptor; `O_PATH` is not enough.
fn by_fd(fd: i32) -> Result<Subject> {
    Ok(descriptors::current_file(fd)?.path.clone().map_or(Subject::Nameless, Subject::Place))
}

/// The error of a call about an attribute of a file outside the tree: as for a special file whose file system knows none.
fn unknown(name: &[u8], write: bool, cred: &Cred<'_>) -> Errno {
    let is_refused = name.starts_with(b"user.") || name.starts_with(b"trusted.") && !cred.has(cap::SYS_ADMIN);
    match (is_refused, write) {
        (true, true) => Errno::EPERM,
        (true, false) => Errno::ENODATA,
        (false, _) => Errno::EOPNOTSUPP,
    }
}

/// Name of an attribute. ERANGE if empty or too long.
fn read_name(address: usize) -> Result<Vec<u8>> {
    let name = user::read_cstr(address, g::XATTR_NAME_MAX as usize + 1).map_err(|errno| match errno {
        Errno::ENAMETOOLONG => Errno::ERANGE,
        other => other,
    })?;
    if name.is_empty() { Err(Errno::ERANGE) } else { Ok(name) }
}

/// Whether the caller may use attributes of this name on the file, xattr(7).
fn check(place: &PathRef, name: &[u8], write: bool, cred: &Cred<'_>) -> Result<()> {
    let inode = place.inode();
    if write {
        ops::check_writable(place)?;
    }
    if name.starts_with(b"trusted.") && !cred.has(cap::SYS_ADMIN) {
        return Err(if write { Errno::EPERM } else { Errno::ENODATA });
    }
    if name.starts_with(b"security.") && write {
        let needed = if name == capability::NAME { cap::SETFCAP } else { cap::SYS_ADMIN };
        return if cred.has(needed) { Ok(()) } else { Err(Errno::EPERM) };
    }
    if !name.starts_with(b"user.") {
        return Ok(());
    }
    // Links and special files have no user attributes; sticky directories only their owner's.
    let kind = inode.file_type();
    if !matches!(kind, FileType::Regular | FileType::Directory) {
        return Err(if write { Errno::EPERM } else { Errno::ENODATA });
    }
    let (mode, uid, gid) = inode.perm()?;
    if write && kind == FileType::Directory && mode & vfs::attr::S_ISVTX != 0 && !cred.owns(uid, gid) {
        return Err(Errno::EPERM);
    }
    cred.check(&**inode, if write { MAY_WRITE } else { MAY_READ })
}

/// Stores a value that fits `size`; a `size` of 0 returns the length. ERANGE.
fn give(buf: usize, size: usize, bytes: &[u8]) -> Result<usize> {
    if size != 0 {
        if bytes.len() > size {
            return Err(Errno::ERANGE);
        }
        user::write_bytes(buf, bytes)?;
    }
    Ok(bytes.len())
}

fn get(place: impl FnOnce(&Caller) -> Result<Subject>, name: usize, buf: usize, size: usize) -> Result<usize> {
    let name = read_name(name)?;
    let caller = Caller::current();
    let Subject::Place(place) = place(&caller)? else { return Err(unknown(&name, false, &caller.cred())) };
    check(&place, &name, false, &caller.cred())?;
    let value = match Kind::of(&name).filter(|_| place.inode().has_acls()) {
        Some(kind) => acl::get(&**place.inode(), kind, &caller.cred())?,
        None if name == capability::NAME => capability::shown(place.inode().get_xattr(&name)?)?,
        None => place.inode().get_xattr(&name)?,
    };
    give(buf, size, &value)
}

fn set(
    place: impl FnOnce(&Caller) -> Result<Subject>,
    name: usize,
    value: usize,
    size: usize,
    flags: u32,
) -> Result<()> {
    path::check_flags(flags, g::XATTR_CREATE | g::XATTR_REPLACE)?;
    let name = read_name(name)?;
    if size > g::XATTR_SIZE_MAX as usize {
        return Err(Errno::E2BIG);
    }
    let value = user::read_array::<u8>(value, size)?;
    let caller = Caller::current();
    let Subject::Place(place) = place(&caller)? else { return Err(unknown(&name, true, &caller.cred())) };
    if name == capability::NAME && !value.is_empty() {
        capability::check(&value)?;
    }
    check(&place, &name, true, &caller.cred())?;
    match Kind::of(&name).filter(|_| place.inode().has_acls()) {
        Some(kind) => acl::set(&place, kind, &value, &caller.cred())?,
        None => place.inode().set_xattr(&name, &value, flags)?,
    }
    notify::happened(&place, g::IN_ATTRIB, false);
    Ok(())
}

fn list(subject: &Subject, buf: usize, size: usize, caller: &Caller) -> Result<usize> {
    let Subject::Place(place) = subject else { return Ok(0) };
    let all = place.inode().list_xattrs()?;
    let trusted = caller.cred().has(cap::SYS_ADMIN);
    let mut shown = Text::default();
    let names = all.split_inclusive(|&b| b == 0);
    names.filter(|name| trusted || !name.starts_with(b"trusted.")).for_each(|name| shown.add(name));
    give(buf, size, &shown.done()?)
}

fn remove(place: impl FnOnce(&Caller) -> Result<Subject>, name: usize) -> Result<()> {
    let name = read_name(name)?;
    let caller = Caller::current();
    let Subject::Place(place) = place(&caller)? else { return Err(unknown(&name, true, &caller.cred())) };
    check(&place, &name, true, &caller.cred())?;
    match Kind::of(&name).filter(|_| place.inode().has_acls()) {
        Some(kind) => acl::set(&place, kind, &[], &caller.cred())?,
        None => place.inode().remove_xattr(&name)?,
    }
    notify::happened(&place, g::IN_ATTRIB, false);
    Ok(())
}

/// getxattr(2).
pub fn sys_getxattr(path: usize, name: usize, buf: usize, size: usize) -> Result<usize> {
    get(|caller| by_path(caller, path, true), name, buf, size)
}

/// lgetxattr(2).
pub fn sys_lgetxattr(path: usize, name: usize, buf: usize, size: usize) -> Result<usize> {
    get(|caller| by_path(caller, path, false), name, buf, size)
}

/// fgetxattr(2).
pub fn sys_fgetxattr(fd: i32, name: usize, buf: usize, size: usize) -> Result<usize> {
    get(|_| by_fd(fd), name, buf, size)
}

/// setxattr(2).
pub fn sys_setxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) -> Result<()> {
    set(|caller| by_path(caller, path, true), name, value, size, flags)
}

/// lsetxattr(2).
pub fn sys_lsetxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) -> Result<()> {
    set(|caller| by_path(caller, path, false), name, value, size, flags)
}

/// fsetxattr(2).
pub fn sys_fsetxattr(fd: i32, name: usize, value: usize, size: usize, flags: u32) -> Result<()> {
    set(|_| by_fd(fd), name, value, size, flags)
}

/// listxattr(2).
pub fn sys_listxattr(path: usize, buf: usize, size: usize) -> Result<usize> {
    let caller = Caller::current();
    list(&by_path(&caller, path, true)?, buf, size, &caller)
}

/// llistxattr(2).
pub fn sys_llistxattr(path: usize, buf: usize, size: usize) -> Result<usize> {
    let caller = Caller::current();
    list(&by_path(&caller, path, false)?, buf, size, &caller)
}

/// flistxattr(2).
pub fn sys_flistxattr(fd: i32, buf: usize, size: usize) -> Result<usize> {
    list(&by_fd(fd)?, buf, size, &Caller::current())
}

/// removexattr(2).
pub fn sys_removexattr(path: usize, name: usize) -> Result<()> {
    remove(|caller| by_path(caller, path, true), name)
}

/// lremovexattr(2).
pub fn sys_lremovexattr(path: usize, name: usize) -> Result<()> {
    remove(|caller| by_path(caller, path, false), name)
}

/// fremovexattr(2).
pub fn sys_fremovexattr(fd: i32, name: usize) -> Result<()> {
    remove(|_| by_fd(fd), name)
}

/// Bytes of `struct xattr_args`: value, its size, flags.
const ARGS_SIZE: usize = 16;
const AT_FLAGS: u32 = g::AT_SYMLINK_NOFOLLOW | g::AT_EMPTY_PATH;

/// Reads `struct xattr_args` of `size` bytes: value, its size, flags. E2BIG, EFAULT, EINVAL.
fn read_args(at: usize, size: usize) -> Result<(usize, usize, u32)> {
    path::check_struct_size(at, size, ARGS_SIZE)?;
    let [value, rest]: [u64; 2] = user::read(at)?;
    Ok((value as usize, rest as u32 as usize, (rest >> 32) as u32))
}

/// The file of a path beneath a descriptor, or of the descriptor itself.
fn by_path_at(caller: &Caller, fd: i32, name: usize, flags: u32) -> Result<Subject> {
    let name = path::read_at(name, flags)?;
    if name.is_empty() && flags & g::AT_EMPTY_PATH != 0 && fd != g::AT_FDCWD {
        return by_fd(fd);
    }
    caller.resolve_at(fd, &name, flags).map(Subject::Place)
}

/// setxattrat(2). As setxattr(2), and E2BIG, EBADF, EINVAL.
pub fn sys_setxattrat(fd: i32, name: usize, flags: u32, key: usize, args: usize, size: usize) -> Result<()> {
    let (value, len, how) = read_args(args, size)?;
    path::check_flags(flags, AT_FLAGS)?;
    set(|caller| by_path_at(caller, fd, name, flags), key, value, len, how)
}

/// getxattrat(2). As getxattr(2), and E2BIG, EBADF, EINVAL.
pub fn sys_getxattrat(fd: i32, name: usize, flags: u32, key: usize, args: usize, size: usize) -> Result<usize> {
    let (value, len, how) = read_args(args, size)?;
    path::check_flags(flags, AT_FLAGS)?;
    path::check_flags(how, 0)?;
    get(|caller| by_path_at(caller, fd, name, flags), key, value, len)
}

/// listxattrat(2). As listxattr(2), and EBADF, EINVAL.
pub fn sys_listxattrat(fd: i32, name: usize, flags: u32, buf: usize, size: usize) -> Result<usize> {
    path::check_flags(flags, AT_FLAGS)?;
    let caller = Caller::current();
    list(&by_path_at(&caller, fd, name, flags)?, buf, size, &caller)
}

/// removexattrat(2). As removexattr(2), and EBADF, EINVAL.
pub fn sys_removexattrat(fd: i32, name: usize, flags: u32, key: usize) -> Result<()> {
    path::check_flags(flags, AT_FLAGS)?;
    remove(|caller| by_path_at(caller, fd, name, flags), key)
}

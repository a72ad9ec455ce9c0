//! Extended attributes.
//!
//! The guest reads and changes `user.*` and POSIX access control lists, and reads `security.*`. It can't access
//! `trusted.*` (host administration) and can't write `security.*` (labels and file capabilities would take effect on
//! the host), except file capabilities if the user allowed them.

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::attr::{kind, of_fd, proc_path};
use super::change::split_path;
use super::export::ExportConfig;
use super::handles::Handles;
use super::path::RelPath;
use super::subject::Subject;
use abi::request::{GetXattr, ListXattr, RemoveXattr, SetXattr};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, XattrFlags};
use std::ffi::CStr;

/// Longest name in bytes (`XATTR_NAME_MAX`).
const MAX_NAME: usize = 255;
/// Longest value and longest list in bytes (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
pub const MAX_SIZE: usize = 65536;

fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(Errno::RANGE),
        1..=MAX_NAME if name.contains(&0) => Err(Errno::INVAL),
        1..=MAX_NAME => Ok(()),
        _ => Err(Errno::RANGE),
    }
}

fn hidden(name: &[u8]) -> bool {
    name.starts_with(b"trusted.")
}

/// EPERM for names that the guest may not change.
fn check_change(export: &ExportConfig, name: &[u8]) -> Result<()> {
    check_name(name)?;
    export.check_writable()?;
    let capabilities = export.keep_setid && name == b"security.capability";
    if hidden(name) || name.starts_with(b"security.") && !capabilities { Err(Errno::PERM) } else { Ok(()) }
}

/// [`GetXattr`].
pub fn get(export: &ExportConfig, handles: &Handles, get: GetXattr, input: &[u8], out: &mut Output<'_>) -> Result<u64> {
    let (path, name) = split_path(input, get.path_len)?;
    check_name(name)?;
    let node = Subject::find(export, handles, get.handle, path)?;
    if hidden(name) {
        return Err(Errno::NODATA);
    }
    if name.starts_with(b"user.") {
        // Values count as content: the right to read the file is required.
        export.check_read(&of_fd(node.as_fd())?)?;
    }
    let file = proc_path(node.as_fd());
    let size = rustix::fs::getxattr_query(&file, name)?;
    if out.room() == 0 {
        return Ok(size as u64);
    }
    let mut value = vec![0; out.room().min(MAX_SIZE)];
    let len = rustix::fs::getxattr(&file, name, value.as_mut_slice())?;
    out.put(value.get(..len).unwrap_or_default())?;
    Ok(len as u64)
}

/// Whether this name in a directory certainly has no access control list and no default one. Does not follow a symbolic
/// link.
pub fn has_no_lists(dir: BorrowedFd<'_>, name: &CStr, kind: FileType) -> bool {
    let path = [proc_path(dir).as_bytes(), b"/", name.to_bytes()].concat();
    let has_none = |list| rustix::fs::lgetxattr_query(&path, list) == Err(Errno::NODATA);
    has_none("system.posix_acl_access") && (kind != FileType::Directory || has_none("system.posix_acl_default"))
}

/// [`ListXattr`].
pub fn list(
    export: &ExportConfig,
    handles: &Handles,
    list: ListXattr,
    path: RelPath<'_>,
    out: &mut Output<'_>,
) -> Result<u64> {
    let node = Subject::find(export, handles, list.handle, path)?;
    let mut names = vec![0; MAX_SIZE];
    let len = rustix::fs::listxattr(proc_path(node.as_fd()), names.as_mut_slice())?;
    names.truncate(len);
    let visible: Vec<u8> =
        names.split_inclusive(|&byte| byte == 0).filter(|name| !hidden(name)).flatten().copied().collect();
    if out.room() > 0 {
        out.put(&visible)?;
    }
    Ok(visible.len() as u64)
}

/// [`SetXattr`].
pub fn set(export: &ExportConfig, handles: &Handles, set: SetXattr, input: &[u8]) -> Result<()> {
    let flags = XattrFlags::from_bits(set.flags).ok_or(Errno::INVAL)?;
    if !(XattrFlags::CREATE | XattrFlags::REPLACE).contains(flags) {
        return Err(Errno::INVAL);
    }
    let (path, rest) = split_path(input, set.path_len)?;
    let len = usize::try_from(set.name_len).map_err(|_| Errno::INVAL)?;
    let (name, value) = rest.split_at_checked(len).ok_or(Errno::INVAL)?;
    check_change(export, name)?;
    let node = Subject::find(export, handles, set.handle, path)?;
    check_holder(&node, name)?;
    rustix::fs::setxattr(proc_path(node.as_fd()), name, value, flags)
}

/// [`RemoveXattr`].
pub fn remove(export: &ExportConfig, handles: &Handles, remove: RemoveXattr, input: &[u8]) -> Result<()> {
    let (path, name) = split_path(input, remove.path_len)?;
    check_change(export, name)?;
    let node = Subject::find(export, handles, remove.handle, path)?;
    check_holder(&node, name)?;
    rustix::fs::removexattr(proc_path(node.as_fd()), name)
}

/// EPERM unless this is a file or a directory: other types have no `user.*` attributes. FIFOs and sockets may have
/// access control lists, symbolic links never.
fn check_holder(node: &Subject<'_>, name: &[u8]) -> Result<()> {
    match kind(&of_fd(node.as_fd())?) {
        FileType::RegularFile | FileType::Directory => Ok(()),
        FileType::Fifo | FileType::Socket if name.starts_with(b"system.posix_acl_") => Ok(()),
        _ => Err(Errno::PERM),
    }
}

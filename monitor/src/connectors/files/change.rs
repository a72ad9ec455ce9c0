//! Changes of directories: new nodes, links, removal, renaming.

use super::super::payload::Output;
use super::super::{Errno, Reply, Result};
use super::attr;
use super::export::{ExportConfig, Place};
use super::handles::Handles;
use super::path::{MAX_PATH, RelPath};
use super::subject::Subject;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, Statx};

/// Gives a new node to the user and group of the program that made it, as far as the monitor may: only
/// the host's root can. In a set-group-id directory the group stays the directory's. The node's attributes then.
pub fn give(dir: BorrowedFd<'_>, node: BorrowedFd<'_>, uid: u64, gid: u64) -> Result<Statx> {
    let invalid = |_| Errno::INVAL;
    let (uid, gid) = (u32::try_from(uid).map_err(invalid)?, u32::try_from(gid).map_err(invalid)?);
    let before = attr::of_fd(node)?;
    if !rustix::process::geteuid().is_root() || uid == u32::MAX || gid == u32::MAX {
        return Ok(before);
    }
    let keep_group = before.stx_gid == gid || attr::of_fd(dir)?.stx_mode & 0o2000 != 0;
    if before.stx_uid == uid && keep_group {
        return Ok(before);
    }
    attr::change_owner(node, Some(uid), (!keep_group).then_some(gid))?;
    // A change of owner clears these bits of a regular file.
    if before.stx_mode & 0o6000 != 0 && attr::kind(&before) == FileType::RegularFile {
        attr::change_mode(node, before.stx_mode.into())?;
    }
    attr::of_fd(node)
}

/// Finishes the making of a node: its owner, and its attributes for the guest.
fn finish(place: &Place<'_>, uid: u64, gid: u64, out: &mut Output<'_>) -> Result {
    let node = place.node()?;
    let stat = give(place.dir.as_fd(), node.as_fd(), uid, gid)?;
    out.put_optional(&attr::node_attr(&stat))?;
    Ok(Reply::default())
}

/// [`abi::request::Op::Mkdir`].
pub fn mkdir(export: &ExportConfig, args: &[u64; 6], path: RelPath<'_>, out: &mut Output<'_>) -> Result {
    let [_, mode, uid, gid, ..] = *args;
    let place = export.place_of_directory(path)?;
    let mode = Mode::from_raw_mode(export.mode(FileType::Directory, mode as u32));
    rustix::fs::mkdirat(place.dir.as_fd(), place.name, mode)?;
    finish(&place, uid, gid, out)
}

/// [`abi::request::Op::Mknod`]: FIFOs, sockets and regular files; EPERM for devices.
pub fn mknod(export: &ExportConfig, args: &[u64; 6], path: RelPath<'_>, out: &mut Output<'_>) -> Result {
    let [_, mode, uid, gid, ..] = *args;
    let mode = u32::try_from(mode).map_err(|_| Errno::INVAL)?;
    let kind = match FileType::from_raw_mode(mode) {
        kind @ (FileType::Fifo | FileType::Socket | FileType::RegularFile) => kind,
        FileType::CharacterDevice | FileType::BlockDevice => return Err(Errno::PERM),
        _ => return Err(Errno::INVAL),
    };
    let place = export.place_to_change(path)?;
    let mode = Mode::from_raw_mode(export.mode(kind, mode));
    rustix::fs::mknodat(place.dir.as_fd(), place.name, kind, mode, 0)?;
    finish(&place, uid, gid, out)
}

/// Splits an input that begins with a path of `len` bytes.
pub fn split_path(input: &[u8], len: u64) -> Result<(RelPath<'_>, &[u8])> {
    let len = usize::try_from(len).map_err(|_| Errno::INVAL)?;
    let (path, rest) = input.split_at_checked(len).ok_or(Errno::INVAL)?;
    Ok((RelPath::new(path)?, rest))
}

/// [`abi::request::Op::Symlink`].
pub fn symlink(export: &ExportConfig, args: &[u64; 6], input: &[u8], out: &mut Output<'_>) -> Result {
    let [_, len, uid, gid, ..] = *args;
    let (path, target) = split_path(input, len)?;
    if target.is_empty() {
        return Err(Errno::NOENT);
    }
    if target.len() > MAX_PATH {
        return Err(Errno::NAMETOOLONG);
    }
    if target.contains(&0) {
        return Err(Errno::INVAL);
    }
    let place = export.place_to_change(path)?;
    rustix::fs::symlinkat(target, place.dir.as_fd(), place.name)?;
    finish(&place, uid, gid, out)
}

/// [`abi::request::Op::Link`]: a symbolic link itself is linked, not what it points to. A file that is named by its handle
/// gets a name if it was made without one; ENOENT if it lost its last one.
pub fn link(export: &ExportConfig, handles: &Handles, args: &[u64; 6], input: &[u8], out: &mut Output<'_>) -> Result {
    let [_, len, number, ..] = *args;
    let (old, new) = split_path(input, len)?;
    let new = export.place_to_change(RelPath::new(new)?)?;
    if number == 0 {
        let old = export.place_to_change(old)?;
        rustix::fs::linkat(old.dir.as_fd(), old.name, new.dir.as_fd(), new.name, AtFlags::empty())?;
    } else {
        let file = Subject::find(export, handles, number, old)?;
        let path = attr::proc_path(file.as_fd());
        rustix::fs::linkat(rustix::fs::CWD, path, new.dir.as_fd(), new.name, AtFlags::SYMLINK_FOLLOW)?;
    }
    out.put_optional(&attr::node_attr(&new.attr()?))?;
    Ok(Reply::default())
}

/// [`abi::request::Op::Unlink`].
pub fn unlink(export: &ExportConfig, args: &[u64; 6], path: RelPath<'_>) -> Result {
    let flags = match args[1] {
        0 => AtFlags::empty(),
        1 => AtFlags::REMOVEDIR,
        _ => return Err(Errno::INVAL),
    };
    let place = export.place_to_change(path)?;
    rustix::fs::unlinkat(place.dir.as_fd(), place.name, flags)?;
    Ok(Reply::default())
}

/// [`abi::request::Op::Rename`]: `RENAME_NOREPLACE` and `RENAME_EXCHANGE`; no whiteouts.
pub fn rename(export: &ExportConfig, args: &[u64; 6], input: &[u8], out: &mut Output<'_>) -> Result {
    let flags = u32::try_from(args[2]).map(RenameFlags::from_bits_retain).map_err(|_| Errno::INVAL)?;
    if !(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags) {
        return Err(Errno::INVAL);
    }
    let (old, new) = split_path(input, args[1])?;
    let old = export.place_to_change(old)?;
    let new = export.place_to_change(RelPath::new(new)?)?;
    rustix::fs::renameat_with(old.dir.as_fd(), old.name, new.dir.as_fd(), new.name, flags)?;
    // Should it be gone already, nothing is told of it.
    if let Ok(stat) = new.attr() {
        out.put_optional(&attr::node_attr(&stat))?;
    }
    Ok(Reply::default())
}

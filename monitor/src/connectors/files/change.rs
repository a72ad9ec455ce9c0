//! Changes of directories: new nodes, links, removal, renaming.

use super::super::payload::Output;
use super::super::{Errno, Result};
use super::attr;
use super::export::{ExportConfig, Place};
use super::handles::Handles;
use super::path::{MAX_PATH, RelPath};
use super::subject::Subject;
use abi::request::{Link, Mkdir, Mknod, Rename, Symlink, Unlink};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, Statx};

/// Changes the owner of a new node to the user and group of the program that created it, if the monitor is root. In a
/// set-group-id directory the directory's group remains. Returns the node's new attributes.
pub fn give(dir: BorrowedFd<'_>, node: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<Statx> {
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

/// Finishes the creation of a node: its owner, and its attributes for the guest.
fn finish(place: &Place<'_>, uid: u32, gid: u32, out: &mut Output<'_>) -> Result<()> {
    let node = place.node()?;
    let stat = give(place.dir.as_fd(), node.as_fd(), uid, gid)?;
    out.put_optional(&attr::node_attr(&stat))
}

/// [`Mkdir`].
pub fn mkdir(export: &ExportConfig, new: Mkdir, path: RelPath<'_>, out: &mut Output<'_>) -> Result<()> {
    let place = export.place_of_directory(path)?;
    let mode = Mode::from_raw_mode(export.mode(FileType::Directory, new.mode));
    rustix::fs::mkdirat(place.dir.as_fd(), place.name, mode)?;
    finish(&place, new.uid, new.gid, out)
}

/// [`Mknod`]: FIFOs, sockets and regular files; EPERM for devices.
pub fn mknod(export: &ExportConfig, new: Mknod, path: RelPath<'_>, out: &mut Output<'_>) -> Result<()> {
    let kind = match FileType::from_raw_mode(new.mode) {
        kind @ (FileType::Fifo | FileType::Socket | FileType::RegularFile) => kind,
        FileType::CharacterDevice | FileType::BlockDevice => return Err(Errno::PERM),
        _ => return Err(Errno::INVAL),
    };
    let place = export.place_to_change(path)?;
    let mode = Mode::from_raw_mode(export.mode(kind, new.mode));
    rustix::fs::mknodat(place.dir.as_fd(), place.name, kind, mode, 0)?;
    finish(&place, new.uid, new.gid, out)
}

/// Splits an input that begins with a path of `len` bytes.
pub fn split_path(input: &[u8], len: u64) -> Result<(RelPath<'_>, &[u8])> {
    let len = usize::try_from(len).map_err(|_| Errno::INVAL)?;
    let (path, rest) = input.split_at_checked(len).ok_or(Errno::INVAL)?;
    Ok((RelPath::new(path)?, rest))
}

/// [`Symlink`].
pub fn symlink(export: &ExportConfig, new: Symlink, input: &[u8], out: &mut Output<'_>) -> Result<()> {
    let (path, target) = split_path(input, new.path_len)?;
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
    finish(&place, new.uid, new.gid, out)
}

/// [`struct@Link`]: links a symbolic link itself, not its target. A handle names a file that was created without a
/// name; ENOENT if the file lost its last name.
pub fn link(export: &ExportConfig, handles: &Handles, link: Link, input: &[u8], out: &mut Output<'_>) -> Result<()> {
    let (old, new) = split_path(input, link.path_len)?;
    let new = export.place_to_change(RelPath::new(new)?)?;
    if link.handle == 0 {
        let old = export.place_to_change(old)?;
        rustix::fs::linkat(old.dir.as_fd(), old.name, new.dir.as_fd(), new.name, AtFlags::empty())?;
    } else {
        let file = Subject::find(export, handles, link.handle, old)?;
        let path = attr::proc_path(file.as_fd());
        rustix::fs::linkat(rustix::fs::CWD, path, new.dir.as_fd(), new.name, AtFlags::SYMLINK_FOLLOW)?;
    }
    out.put_optional(&attr::node_attr(&new.attr()?))
}

/// [`Unlink`].
pub fn unlink(export: &ExportConfig, unlink: Unlink, path: RelPath<'_>) -> Result<()> {
    let flags = if unlink.directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let place = export.place_to_change(path)?;
    rustix::fs::unlinkat(place.dir.as_fd(), place.name, flags)
}

/// [`Rename`]: `RENAME_NOREPLACE` and `RENAME_EXCHANGE`; no whiteouts.
pub fn rename(export: &ExportConfig, rename: Rename, input: &[u8], out: &mut Output<'_>) -> Result<()> {
    let flags = RenameFlags::from_bits_retain(rename.flags);
    if !(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags) {
        return Err(Errno::INVAL);
    }
    let (old, new) = split_path(input, rename.path_len)?;
    let old = export.place_to_change(old)?;
    let new = export.place_to_change(RelPath::new(new)?)?;
    rustix::fs::renameat_with(old.dir.as_fd(), old.name, new.dir.as_fd(), new.name, flags)?;
    // If the file is gone already, return no attributes.
    if let Ok(stat) = new.attr() {
        out.put_optional(&attr::node_attr(&stat))?;
    }
    Ok(())
}

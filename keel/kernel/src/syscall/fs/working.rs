//! Root and working directory: chdir(2), chroot(2), getcwd(2).

use crate::mm::user;
use crate::task::descriptors;
use crate::task::path::{self, Caller};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::PathRef;
use vfs::cred::{MAY_EXEC, cap};
use vfs::memory::Text;

/// A directory that the caller may search.
fn searchable(caller: &Caller, place: PathRef) -> Result<PathRef> {
    if place.inode().file_type() != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    caller.cred().check(&**place.inode(), MAY_EXEC)?;
    Ok(place)
}

/// chdir(2).
pub fn sys_chdir(name: usize) -> Result<()> {
    let name = path::read(name)?;
    let caller = Caller::current();
    let place = searchable(&caller, caller.resolve(g::AT_FDCWD, &name, true)?)?;
    caller.fs.set_cwd(place);
    Ok(())
}

/// fchdir(2).
pub fn sys_fchdir(fd: i32) -> Result<()> {
    let caller = Caller::current();
    let place = descriptors::current_file_raw(fd)?.path.clone().ok_or(Errno::ENOTDIR)?;
    caller.fs.set_cwd(searchable(&caller, place)?);
    Ok(())
}

/// chroot(2).
pub fn sys_chroot(name: usize) -> Result<()> {
    let name = path::read(name)?;
    let caller = Caller::current();
    let place = searchable(&caller, caller.resolve(g::AT_FDCWD, &name, true)?)?;
    if !caller.cred().has_here(cap::SYS_CHROOT) {
        return Err(Errno::EPERM);
    }
    caller.fs.set_root(place);
    Ok(())
}

/// getcwd(2).
pub fn sys_getcwd(buf: usize, size: usize) -> Result<usize> {
    let caller = Caller::current();
    let (root, cwd) = (caller.fs.root(), caller.fs.cwd());
    if cwd.is_deleted() {
        return Err(Errno::ENOENT);
    }
    let mut text = Text::default();
    if !cwd.is_within(&root) {
        text.add(b"(unreachable)");
    }
    text.add(&cwd.path(Some(&root))?);
    text.add(b"\0");
    let text = text.done()?;
    if text.len() > g::PATH_MAX as usize {
        return Err(Errno::ENAMETOOLONG);
    }
    if text.len() > size {
        return Err(Errno::ERANGE);
    }
    user::write_bytes(buf, &text)?;
    Ok(text.len())
}

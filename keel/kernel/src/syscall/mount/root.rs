//! pivot_root(2).

use super::Admin;
use crate::task::{mountns, path};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::mount::change;
use vfs::{FileType, PathRef};

fn directory(caller: &path::Caller, name: usize) -> Result<PathRef> {
    let place = caller.resolve(g::AT_FDCWD, &path::read(name)?, true)?;
    if place.inode().file_type() == FileType::Directory { Ok(place) } else { Err(Errno::ENOTDIR) }
}

/// pivot_root(2).
pub fn sys_pivot_root(new: usize, old: usize) -> Result<()> {
    let admin = Admin::current()?;
    let new = directory(&admin.caller, new)?;
    let old = directory(&admin.caller, old)?.covered();
    let root = admin.caller.fs.root();
    change::pivot(&root, &new, &old, admin.tree())?;
    mountns::move_roots(&root, &new);
    Ok(())
}

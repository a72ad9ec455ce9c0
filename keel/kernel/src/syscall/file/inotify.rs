//! Calls about file change events, inotify(7).

use crate::file::File;
use crate::file::inotify::{ALL, Inotify};
use crate::task;
use crate::task::descriptors::{current_file, install};
use crate::task::path::{self, Caller};
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::FileType;
use vfs::cred::MAY_READ;

/// inotify_init(2).
pub fn sys_inotify_init() -> Result<i32> {
    sys_inotify_init1(0)
}

/// inotify_init1(2). EINVAL, EMFILE.
pub fn sys_inotify_init1(flags: u32) -> Result<i32> {
    path::check_flags(flags, g::IN_CLOEXEC | g::IN_NONBLOCK)?;
    let uid = task::current().cred().uid;
    let instance = Inotify::new(uid)?;
    install(File::new(Rc::new(instance), g::O_RDONLY | flags & g::O_NONBLOCK, None), flags)
}

/// An instance by its descriptor. EBADF, EINVAL.
fn instance(file: &File) -> Result<&Rc<Inotify>> {
    file.downcast().ok_or(Errno::EINVAL)
}

/// inotify_add_watch(2). EACCES, EBADF, EEXIST, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR.
pub fn sys_inotify_add_watch(fd: i32, name: usize, mask: u32) -> Result<i32> {
    if mask & ALL == 0 {
        return Err(Errno::EINVAL);
    }
    let file = current_file(fd)?;
    if mask & g::IN_MASK_ADD != 0 && mask & g::IN_MASK_CREATE != 0 {
        return Err(Errno::EINVAL);
    }
    let instance = instance(&file)?;
    let name = path::read(name)?;
    let caller = Caller::current();
    let place = caller.resolve(g::AT_FDCWD, &name, mask & g::IN_DONT_FOLLOW == 0)?;
    if mask & g::IN_ONLYDIR != 0 && place.inode().file_type() != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    caller.cred().check(&**place.inode(), MAY_READ)?;
    instance.watch(place.inode(), mask)
}

/// inotify_rm_watch(2). EBADF, EINVAL.
pub fn sys_inotify_rm_watch(fd: i32, wd: i32) -> Result<()> {
    let file = current_file(fd)?;
    instance(&file)?.forget(wd).ok_or(Errno::EINVAL)
}

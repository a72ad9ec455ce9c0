//! Descriptors: close(2), dup(2), close_range(2).

use crate::file::FdTable;
use crate::task;
use alloc::rc::Rc;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// `CLOSE_RANGE_UNSHARE`, close_range(2).
const CLOSE_RANGE_UNSHARE: u32 = 2;
/// `CLOSE_RANGE_CLOEXEC`, close_range(2).
const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// close(2).
pub fn sys_close(fd: i32) -> Result<()> {
    task::current().files().close(fd)
}

/// dup(2).
pub fn sys_dup(fd: i32) -> Result<i32> {
    let files = task::current().files();
    files.insert(files.get_raw(fd)?, false)
}

/// dup2(2).
pub fn sys_dup2(old: i32, new: i32) -> Result<i32> {
    let files = task::current().files();
    if old == new {
        return files.get_raw(old).map(|_| new);
    }
    duplicate(&files, old, new, false)
}

/// dup3(2).
pub fn sys_dup3(old: i32, new: i32, flags: u32) -> Result<i32> {
    if flags & !g::O_CLOEXEC != 0 || old == new {
        return Err(Errno::EINVAL);
    }
    duplicate(&task::current().files(), old, new, flags != 0)
}

fn duplicate(files: &Rc<FdTable>, old: i32, new: i32, close_on_exec: bool) -> Result<i32> {
    let file = files.get_raw(old)?;
    files.replace(new, file, close_on_exec)?;
    Ok(new)
}

/// close_range(2).
pub fn sys_close_range(first: u32, last: u32, flags: u32) -> Result<()> {
    if flags & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 || first > last {
        return Err(Errno::EINVAL);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        task::current().unshare_files()?;
    }
    let files = task::current().files();
    for fd in files.range(first as usize, last as usize) {
        // Another thread may close one meanwhile: then there is nothing left to do for it.
        let _ = match flags & CLOSE_RANGE_CLOEXEC {
            0 => files.close(fd),
            _ => files.set_close_on_exec(fd, true),
        };
    }
    Ok(())
}

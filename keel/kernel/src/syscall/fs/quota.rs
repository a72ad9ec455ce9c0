//! Disk quotas, which no file system of a pod has: quotactl(2) says so as Linux does.

use crate::task::descriptors;
use crate::task::path::{self, Caller};
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::FileType;

/// `Q_SYNC`.
const SYNC: u32 = 0x80_0001;

/// Splits the command off the type of quotas, of which there are three. EINVAL.
fn command(cmd: u32) -> Result<u32> {
    const TYPES: u32 = 3;
    if cmd & 0xff < TYPES { Ok(cmd >> 8) } else { Err(Errno::EINVAL) }
}

/// quotactl(2). EINVAL, ENODEV, ENOTBLK.
pub fn sys_quotactl(cmd: u32, special: usize, _id: i32, _addr: usize) -> Result<()> {
    let command = command(cmd)?;
    if special == 0 {
        return if command == SYNC { Ok(()) } else { Err(Errno::ENODEV) };
    }
    let name = path::read(special)?;
    let place = Caller::current().resolve(g::AT_FDCWD, &name, true)?;
    match place.inode().file_type() {
        FileType::BlockDevice if !place.mount().has_devices() => Err(Errno::EACCES),
        FileType::BlockDevice => Err(Errno::ENODEV),
        _ => Err(Errno::ENOTBLK),
    }
}

/// quotactl_fd(2). EBADF, EINVAL, ENOSYS.
pub fn sys_quotactl_fd(fd: i32, cmd: u32, _id: i32, _addr: usize) -> Result<()> {
    descriptors::current_file_raw(fd)?;
    command(cmd)?;
    Err(Errno::ENOSYS)
}

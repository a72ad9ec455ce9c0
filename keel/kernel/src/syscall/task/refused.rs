//! Calls that nobody in a pod may make: their arguments are looked at first, as in Linux.

use uapi::{Errno, Result};

/// iopl(2): no more than level 0, which every thread has. EINVAL, EPERM.
pub fn sys_iopl(level: u32) -> Result<()> {
    match level {
        0 => Ok(()),
        1..=3 => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// ioperm(2): ports can only be given up, and no thread has any. EINVAL, EPERM.
pub fn sys_ioperm(from: usize, count: usize, on: i32) -> Result<()> {
    const PORTS: usize = 65_536;
    match from.checked_add(count) {
        Some(end) if end > from && end <= PORTS && on == 0 => Ok(()),
        Some(end) if end > from && end <= PORTS => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// swapon(2). EINVAL, EPERM.
pub fn sys_swapon(_path: usize, flags: u32) -> Result<()> {
    /// A priority, that it is preferred, and how to discard.
    const KNOWN: u32 = 0x7_ffff;
    Err(if flags & !KNOWN != 0 { Errno::EINVAL } else { Errno::EPERM })
}

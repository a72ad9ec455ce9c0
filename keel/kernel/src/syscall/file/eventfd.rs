//! Calls that make event counters, eventfd(2).

use crate::file::eventfd::EventFd;
use crate::task::descriptors::install;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// `EFD_SEMAPHORE`: a read takes 1.
const EFD_SEMAPHORE: u32 = 1;

/// eventfd(2).
pub fn sys_eventfd(count: u32) -> Result<i32> {
    sys_eventfd2(count, 0)
}

/// eventfd2(2).
pub fn sys_eventfd2(count: u32, flags: u32) -> Result<i32> {
    if flags & !(EFD_SEMAPHORE | g::O_CLOEXEC | g::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    install(EventFd::open(u64::from(count), flags & EFD_SEMAPHORE != 0, flags & g::O_NONBLOCK), flags)
}

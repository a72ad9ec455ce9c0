//! pipe(2).

use crate::file::pipe::new_pipe;
use crate::task::descriptors::install_pair;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// pipe(2).
pub fn sys_pipe(fds: usize) -> Result<()> {
    sys_pipe2(fds, 0)
}

/// pipe2(2).
pub fn sys_pipe2(fds: usize, flags: u32) -> Result<()> {
    if flags & !(g::O_CLOEXEC | g::O_NONBLOCK | g::O_DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    let (reader, writer) = new_pipe(flags & (g::O_NONBLOCK | g::O_DIRECT));
    install_pair(fds, reader, writer, flags)
}

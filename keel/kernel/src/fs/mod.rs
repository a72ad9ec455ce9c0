//! The pod's tree as processes see it: root, working directory, path system calls, /dev and /proc.

use alloc::rc::Rc;
use uapi::{Errno, Result};

/// A place in the tree (inode and name); re-exported from the vfs crate by its owner.
pub type PathRef = Rc<()>;

/// Root, working directory and umask of a process.
#[derive(Debug)]
pub struct FsContext {
    _todo: (),
}

impl FsContext {
    /// A copy for fork(2).
    pub fn fork(&self) -> Rc<Self> {
        todo!()
    }
}

/// Opens a file for execve(2): regular, executable for the current credentials. ENOENT, EACCES …
pub fn open_exec(_dir_fd: i32, _path: &[u8], _flags: u32) -> Result<PathRef> {
    Err(Errno::ENOSYS)
}

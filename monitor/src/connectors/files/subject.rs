//! The file that a request is about: what a path leads to, or a file that is open, which may have no name any more.

use super::super::{Errno, Result};
use super::export::ExportConfig;
use super::handles::Handles;
use super::path::RelPath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the module.
#[derive(Debug)]
pub enum Subject<'h> {
    /// Found by its path, as an `O_PATH` descriptor.
    Named(OwnedFd),
    /// Open.
    Open(BorrowedFd<'h>),
}

impl<'h> Subject<'h> {
    /// The file of the handle `number`, or what `path` names if that is 0. EBADF for handles of other exports, EINVAL for
    /// a handle with a path.
    pub fn find(export: &ExportConfig, handles: &'h Handles, number: u64, path: RelPath<'_>) -> Result<Self> {
        if number == 0 {
            return export.node(path).map(Self::Named);
        }
        if !path.is_empty() {
            return Err(Errno::INVAL);
        }
        let file = handles.file(number)?;
        if file.export == export.id { Ok(Self::Open(file.fd.as_fd())) } else { Err(Errno::BADF) }
    }
}

impl AsFd for Subject<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Named(fd) => fd.as_fd(),
            Self::Open(fd) => *fd,
        }
    }
}

//! The file of a request: named by a path, or by the handle of an open file, which may have no name any more.

use super::super::{Errno, Result};
use super::export::ExportConfig;
use super::handles::Handles;
use super::path::RelPath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the module.
#[derive(Debug)]
pub enum Subject<'h> {
    /// Found by path, as an `O_PATH` descriptor.
    Named(OwnedFd),
    /// An open file.
    Open(BorrowedFd<'h>),
}

impl<'h> Subject<'h> {
    /// The file of the handle `number`, or of `path` if that is 0. EBADF for handles of other exports, EINVAL for a
    /// handle with a path.
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

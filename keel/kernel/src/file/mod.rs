//! Open files: descriptors, descriptions, and everything that is read and written through them.

use crate::task::wait::WaitQueue;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::Cell;
use uapi::{Errno, Result};
use vfs::{Attr, Dst, Inode, Src};

/// Descriptors of a process.
#[derive(Debug)]
pub struct FdTable {
    _todo: (),
}

impl FdTable {
    /// The description behind a descriptor. EBADF.
    pub fn get(&self, _fd: i32) -> Result<Rc<File>> {
        Err(Errno::EBADF)
    }
    /// Puts a description at the lowest free descriptor. EMFILE.
    pub fn insert(&self, _file: Rc<File>, _close_on_exec: bool) -> Result<i32> {
        Err(Errno::EMFILE)
    }
    /// A copy for fork(2).
    pub fn fork(&self) -> Rc<Self> {
        todo!()
    }
    /// Closes what execve(2) closes.
    pub fn close_on_exec(&self) {}
    /// Closes everything (exit).
    pub fn close_all(&self) {}
}

/// An open file description, open(2).
pub struct File {
    /// Access mode and status flags (`O_RDWR | O_APPEND …`), changed by fcntl(2).
    pub flags: Cell<u32>,
    /// Offset.
    pub pos: Cell<u64>,
    /// What it is.
    pub ops: Rc<dyn FileOps>,
    /// Name in the tree, if it was opened by one.
    pub path: Option<crate::fs::PathRef>,
}

/// What kinds of open files do. The defaults are Linux's answers for files without the operation.
pub trait FileOps: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// read(2) at the file's own position.
    fn read(&self, _file: &File, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// write(2) at the file's own position.
    fn write(&self, _file: &File, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// pread(2).
    fn read_at(&self, _file: &File, _offset: u64, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::ESPIPE)
    }
    /// pwrite(2).
    fn write_at(&self, _file: &File, _offset: u64, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::ESPIPE)
    }
    /// lseek(2).
    fn seek(&self, _file: &File, _offset: i64, _whence: u32) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    /// fstat(2).
    fn attr(&self) -> Result<Attr>;
    /// Readiness now, as poll(2) event bits. Regular files are always ready.
    fn poll(&self, _file: &File) -> u32 {
        uapi::raw::general::POLLIN | uapi::raw::general::POLLOUT
    }
    /// Queues woken when [`FileOps::poll`] may have changed.
    fn poll_queues(&self, _out: &mut Vec<Rc<WaitQueue>>) {}
    /// ioctl(2).
    fn ioctl(&self, _file: &File, _command: u32, _arg: usize) -> Result<usize> {
        Err(Errno::ENOTTY)
    }
    /// The inode, for mmap, fstat, getdents, fchmod …
    fn inode(&self) -> Option<Rc<dyn Inode>> {
        None
    }
    /// The last descriptor of this description was closed.
    fn release(&self, _file: &File) {}
}

impl core::fmt::Debug for File {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("File").field("flags", &self.flags).finish_non_exhaustive()
    }
}

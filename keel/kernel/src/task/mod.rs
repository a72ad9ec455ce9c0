//! Threads and processes.

pub mod wait;

use crate::{file::FdTable, fs::FsContext, mm::Mm};
use alloc::rc::Rc;

/// A thread.
#[derive(Debug)]
pub struct Task {
    _todo: (),
}

/// The running thread.
pub fn current() -> Rc<Task> {
    todo!()
}

impl Task {
    /// Its memory.
    pub fn mm(&self) -> Rc<Mm> {
        todo!()
    }
    /// Its open files.
    pub fn files(&self) -> Rc<FdTable> {
        todo!()
    }
    /// Its root, working directory and umask.
    pub fn fs(&self) -> Rc<FsContext> {
        todo!()
    }
    /// Its credentials.
    pub fn cred(&self) -> Rc<Cred> {
        todo!()
    }
    /// Thread id.
    pub fn tid(&self) -> i32 {
        todo!()
    }
    /// Process id.
    pub fn pid(&self) -> i32 {
        todo!()
    }
}

/// Credentials, credentials(7). Replaced as a whole when one changes.
#[derive(Clone, Debug)]
pub struct Cred {
    /// Real, effective, saved and file system user id.
    pub uid: u32,
    /// Effective user id.
    pub euid: u32,
    /// Saved user id.
    pub suid: u32,
    /// File system user id.
    pub fsuid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub egid: u32,
    /// Saved group id.
    pub sgid: u32,
    /// File system group id.
    pub fsgid: u32,
    /// Supplementary groups.
    pub groups: alloc::vec::Vec<u32>,
    /// Effective capabilities, one bit each, capabilities(7).
    pub cap_effective: u64,
    /// Permitted capabilities.
    pub cap_permitted: u64,
    /// Inheritable capabilities.
    pub cap_inheritable: u64,
    /// Bounding set.
    pub cap_bounding: u64,
    /// Ambient set.
    pub cap_ambient: u64,
}

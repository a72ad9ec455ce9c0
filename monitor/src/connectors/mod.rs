//! Connectors: the only ways out of a pod.
//!
//! Each takes requests of [`abi::request::Op`] whose arguments and payloads come from a hostile guest:
//! it validates everything and returns an errno for bad input.

pub mod files;
pub mod payload;
pub mod streams;

use rustix::fd::BorrowedFd;
pub use rustix::io::Errno;

/// A successful answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Result of the operation.
    pub result: u64,
    /// More results; their meaning depends on the operation.
    pub extra: [u64; 2],
}

impl Reply {
    /// A reply with `result` alone.
    pub fn of(result: u64) -> Self {
        Self { result, extra: [0; 2] }
    }
}

/// A reply or a Linux errno.
pub type Result<T = Reply> = std::result::Result<T, Errno>;

/// The part of guest-physical memory in which pages of host files appear.
pub trait Window {
    /// Shows `len` bytes of `file` from `offset` at guest-physical `gpa`. All three are multiples of a
    /// page; the range was not checked against the window's present size (EINVAL if outside).
    fn map(&self, gpa: u64, file: BorrowedFd<'_>, offset: u64, len: u64, writable: bool) -> Result<()>;

    /// Takes the pages at `gpa .. gpa + len` from the host ahead of the guest's reading, or storing. EFAULT if it can't provide
    /// one: the file was cut, can't be read, or has no room for what would be stored.
    fn populate(&self, gpa: u64, len: u64, write: bool) -> Result<()>;

    /// Takes the file pages at `gpa .. gpa + len` away; what remains there must be memory that holds
    /// no file page, so that late access is harmless.
    fn unmap(&self, gpa: u64, len: u64) -> Result<()>;
}

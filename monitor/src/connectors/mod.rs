//! Connectors: the only interfaces between a pod and the host.
//!
//! Each takes requests of [`abi::request`] whose arguments and payloads come from a hostile guest:
//! it validates everything and returns an errno for bad input.

pub mod files;
pub mod payload;
pub mod sockets;
pub mod streams;

use abi::operation::{Invalid, Operation};
use rustix::fd::BorrowedFd;
pub use rustix::io::Errno;

pub use abi::operation::Reply;

/// A value, most often a reply, or a Linux errno.
pub type Result<T = Reply> = std::result::Result<T, Errno>;

/// The reply to an operation with these results.
fn reply<O: Operation>(operation: O, results: Result<O::Results>) -> Result {
    results.map(|results| operation.reply(results))
}

/// Errno of a malformed request.
pub fn errno_of(invalid: Invalid) -> Errno {
    match invalid {
        Invalid::Number => Errno::NOSYS,
        Invalid::Argument => Errno::INVAL,
    }
}

/// The part of guest-physical memory in which pages of host files appear.
pub trait Window {
    /// Maps `len` bytes of `file` from `offset` at guest-physical `gpa`. All three are multiples of a page; the caller
    /// has not checked the range against the window's current size (EINVAL if outside).
    fn map(&self, gpa: u64, file: BorrowedFd<'_>, offset: u64, len: u64, writable: bool) -> Result<()>;

    /// Populates the pages at `gpa .. gpa + len` for reads, or stores, ahead of the guest. EFAULT if the host can't
    /// provide one: the file was truncated, can't be read, or has no room for the store.
    fn populate(&self, gpa: u64, len: u64, write: bool) -> Result<()>;

    /// Unmaps the file pages at `gpa .. gpa + len`; harmless memory without a file page replaces them, so that late
    /// accesses do no harm.
    fn unmap(&self, gpa: u64, len: u64) -> Result<()>;
}

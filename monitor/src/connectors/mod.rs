//! Connectors: the only ways out of a pod.
//!
//! Each takes requests of [`abi::request`] whose arguments and payloads come from a hostile guest:
//! it validates everything and returns an errno for bad input.

pub mod files;
pub mod payload;
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

/// What a request fails with that is no operation.
pub fn errno_of(invalid: Invalid) -> Errno {
    match invalid {
        Invalid::Number => Errno::NOSYS,
        Invalid::Argument => Errno::INVAL,
    }
}

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

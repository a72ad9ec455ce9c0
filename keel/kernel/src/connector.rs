//! Requests to the monitor that park the calling thread until they complete.

use abi::request::Op;
use uapi::{Errno, Result};

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Result, never negative.
    pub result: u64,
    /// Extra results.
    pub extra: [u64; 2],
}

/// Sends a request and waits for its completion. Other threads run meanwhile: hold no borrows.
/// Not interrupted by signals.
pub fn call(_op: Op, _args: [u64; 6], _input: &[u8], _output: &mut [u8]) -> Result<Reply> {
    Err(Errno::ENOSYS)
}

/// Like [`call`] for operations that may take forever (streams): a signal cancels it (ERESTARTSYS).
pub fn call_interruptible(_op: Op, _args: [u64; 6], _input: &[u8], _output: &mut [u8]) -> Result<Reply> {
    Err(Errno::ENOSYS)
}

/// Sends a request whose completion is given to `done` later (in keel, outside any borrow).
pub fn start(_op: Op, _args: [u64; 6], _done: alloc::boxed::Box<dyn FnOnce(Result<Reply>)>) {}

//! The files connector: requests of the vfs crate go to the monitor.

use crate::connector;
use abi::request::Op;
use alloc::boxed::Box;
use hal::frame::Frame;
use uapi::Result;
use vfs::host::{HostFiles, Reply};

/// The monitor.
#[derive(Debug)]
pub struct Monitor;

impl HostFiles for Monitor {
    fn call(&self, op: Op, args: [u64; 6], input: &[u8], output: &mut [u8]) -> Result<Reply> {
        let reply = connector::call(op, args, input, output)?;
        Ok(Reply { result: reply.result, extra: reply.extra })
    }

    fn post(&self, op: Op, args: [u64; 6]) {
        connector::start(op, args, Box::new(|_| {}));
    }

    fn window_page(&self, gpa: u64) -> Option<Frame> {
        Some(Frame::from_window(gpa))
    }

    fn memory_is_short(&self) -> bool {
        let ram = hal::boot::ram_usage();
        ram.limit.saturating_sub(ram.total) + ram.free < ram.limit / 4
    }
}

//! Calls about memory.

pub mod barrier;
pub mod calls;
pub mod policy;
pub mod process_vm;

//! Calls about memory.

pub mod barrier;
pub mod calls;
pub mod other;
pub mod policy;

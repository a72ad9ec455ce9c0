//! Calls on sockets.

pub mod calls;
pub mod transfer;

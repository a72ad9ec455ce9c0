//! The Linux x86-64 user ABI that keel implements: [`Errno`], constants and structures.
//!
//! Numbers and structures come from `linux-raw-sys` (generated from the kernel's own headers) and are re-exported as
//! [`raw`]. [`UserAbi`] marks those that may be copied between program and keel as plain bytes.
#![no_std]

pub mod cap;
pub mod errno;
mod user_abi;

pub use errno::{Errno, Result};
/// Generated kernel headers.
pub use linux_raw_sys as raw;
pub use user_abi::{UserAbi, zeroed};

//! From the first instruction to the kernel's boot hook.

use alloc::vec::Vec;

/// The serialised pod configuration.
pub fn config() -> &'static [u8] { todo!() }

/// Bytes of RAM in use and available now, and the pod's limit.
pub fn ram_usage() -> RamUsage { todo!() }

/// Memory figures in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RamUsage {
    /// RAM that the monitor has given so far.
    pub total: u64,
    /// Of that, not in use.
    pub free: u64,
    /// What it may become.
    pub limit: u64,
}

/// A symbol-free backtrace of keel for crash reports: return addresses, innermost first.
pub fn backtrace() -> Vec<u64> { todo!() }

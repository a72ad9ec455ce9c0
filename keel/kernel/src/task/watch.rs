//! Counts the reasons to check each system call: a tracer or filter exists, or memory is scarce.

pub use hal::watch::is_on;

/// A reason, until it is dropped.
#[derive(Debug)]
pub struct Reason(());

impl Reason {
    /// Adds a reason.
    pub fn new() -> Self {
        hal::watch::add();
        Self(())
    }

    /// Keeps the reason for ever.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Default for Reason {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Reason {
    fn drop(&mut self) {
        hal::watch::remove();
    }
}

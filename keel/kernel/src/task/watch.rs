//! Whether system calls must be looked at one by one: a tracer or a filter exists, or memory is scarce.

pub use hal::watch::is_on;

/// A reason; gone when it is dropped.
#[derive(Debug)]
pub struct Reason(());

impl Reason {
    /// One more.
    pub fn new() -> Self {
        hal::watch::add();
        Self(())
    }

    /// Stays for ever.
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

//! Statics under the big lock, and values for each virtual CPU.
#![allow(unsafe_code)]

use core::ops::{Deref, DerefMut};

/// A value that only code inside keel accesses; see the crate's invariant.
///
/// For `static X: Global<Cell<…>>` and `Global<RefCell<…>>`, and for refcounted handles inside a value under a lock.
#[derive(Debug, Default)]
pub struct Global<T>(T);

// SAFETY: keel code runs under the big lock and is never preempted (crate invariant), so no two
// virtual CPUs are inside the value at once. Hosted: unit tests use one thread per value.
unsafe impl<T> Sync for Global<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Global<T> {}

impl<T> Global<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Global<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Global<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A value in a cache line of its own, to avoid false sharing.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

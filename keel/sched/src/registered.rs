//! Interfaces to the layer above.

use core::cell::Cell;
use hal::cell::Global;

/// An implementation that the layer above registers once, at boot.
pub struct Registered<T: ?Sized + 'static>(Global<Cell<Option<&'static T>>>);

impl<T: ?Sized> Registered<T> {
    /// Not registered.
    pub const fn none() -> Self {
        Self(Global::new(Cell::new(None)))
    }

    /// Registers the implementation (boot).
    pub fn set(&self, implementation: &'static T) {
        self.0.set(Some(implementation));
    }

    /// The implementation.
    ///
    /// # Panics
    /// If it was not registered.
    pub fn get(&self) -> &'static T {
        match self.0.get() {
            Some(implementation) => implementation,
            None => unreachable!("boot has not named it yet"),
        }
    }
}

impl<T: ?Sized> Default for Registered<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T: ?Sized> core::fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Registered").finish_non_exhaustive()
    }
}

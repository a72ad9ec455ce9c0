//! The platform of unit tests: a process of the host, without programs. It gives frames and time.

pub mod clock;
pub mod frame;

/// Waits a moment for another thread.
pub(crate) fn relax(_round: &mut u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

//! Calls about signals.

pub mod calls;
pub mod coredump;
pub mod deliver;
pub mod frame;
pub mod kill;

//! Calls about signals.

pub mod calls;
pub mod kill;

//! The platform: a virtual machine of KVM and the monitor beside it.

pub(crate) mod ports;
mod start;

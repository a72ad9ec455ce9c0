//! Calls about processes and threads: ids, credentials, priorities, limits.

pub mod calls;
pub(crate) mod caps;
pub mod exec;
pub mod futex2;
pub mod group;
pub(crate) mod ids;
pub mod info;
pub mod landlock;
mod places;
pub mod policy;
pub mod prctl;
pub mod refused;

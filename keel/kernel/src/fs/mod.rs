//! The pod's tree as processes see it: open files of the tree ([`regular`], [`directory`], [`dev`]), `/proc`, `/sys`.
//!
//! The tree, path resolution and the file systems are in the `vfs` crate; this module has the requests to the monitor
//! ([`host`]), the tree at boot ([`setup`]), and opening ([`open`]).

pub mod dev;
pub mod directory;
pub mod host;
pub mod memfd;
pub mod open;
pub mod proc;
pub mod regular;
pub mod setup;
pub mod spare;
pub mod sys;

pub use open::{may_read, open_exec};
pub use setup::{init, tree};

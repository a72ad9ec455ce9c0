//! Virtual file system of keel: inodes, names, tmpfs, an overlay over host files.
//!
//! Pure logic without unsafe, tested on the host with `hal`'s `hosted` feature. The monitor's files
//! connector is reached through a trait, so that tests give a host directory or a mock.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attr;
pub mod inode;
pub mod io;

pub use attr::{Attr, FileType};
pub use inode::Inode;
pub use io::{Dst, Src};

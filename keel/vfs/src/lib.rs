//! Virtual file system of keel: inodes, names, tmpfs, an overlay over host files.
//!
//! Pure logic without unsafe, tested on the host with `hal`'s `hosted` feature. The monitor's files
//! connector is reached through [`host::HostFiles`], so that tests give a host directory.
//!
//! The layers, bottom up: [`host`] (what the host has, cached), [`erofs`] (files of an image), [`node`] (private files
//! in memory, alone or over a file of the host or of an image), [`synth`] (files whose content is made when they are opened),
//! [`dentry`] (names in a file system), [`mount`] and [`place`] (file systems in the tree), [`walk`] (paths to names), [`ops`] (changes of names, with
//! permissions), [`overlay`] (directories of all these, shown as one).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "fuzzing"))]
extern crate std;

pub mod acl;
pub mod attr;
pub mod capability;
pub mod claim;
pub mod cred;
pub mod dentry;
pub mod erofs;
pub mod frames;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod host;
pub mod inode;
pub mod io;
pub mod landlock;
pub mod listing;
pub mod locks;
pub mod memory;
pub mod mount;
pub mod node;
pub mod notify;
pub mod ops;
pub mod overlay;
pub mod pagemap;
pub mod place;
pub mod shown;
pub mod spare;
pub mod synth;
#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code))]
mod tests;
pub mod tree;
pub mod walk;
pub mod ways;

pub use attr::{Attr, FileType};
pub use claim::Claim;
pub use cred::Cred;
pub use dentry::Dentry;
pub use inode::{Attachments, Change, Found, Inode, NewNode, SetTime};
pub use io::{Dst, Src};
pub use listing::{DirEntry, Listing};
pub use mount::Mount;
pub use place::PathRef;

/// A name or a link target, shared between the tables that hold it.
pub type Name = alloc::rc::Rc<[u8]>;

/// Longest name of a directory entry in bytes.
pub const NAME_MAX: usize = 255;
/// Longest path in bytes, with its terminator.
pub const PATH_MAX: usize = 4096;
/// Largest file in bytes.
pub const FILE_MAX: u64 = i64::MAX as u64;

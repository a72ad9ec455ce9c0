//! Calls on descriptors and open files.

pub mod copy;
pub mod dup;
pub(crate) mod epoll;
pub mod fcntl;
pub mod ioctl;
pub mod ioctl_files;
pub mod rw;
pub mod select;
pub mod splice;

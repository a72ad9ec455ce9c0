//! Calls on descriptors and open files.

pub mod aio;
pub mod copy;
pub mod dup;
pub(crate) mod epoll;
pub mod eventfd;
pub mod fcntl;
pub mod inotify;
pub mod ioctl;
pub mod ioctl_files;
pub mod pipe;
pub mod poll;
pub mod rw;
pub mod select;
pub mod splice;
pub mod timerfd;

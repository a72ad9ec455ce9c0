//! Interface of sockets to the running thread.

use crate::netns::NetNs;
use alloc::rc::Rc;
use sched::Registered;
use uapi::Result;
use vfs::{Inode, PathRef};

/// The running thread, from the layer above.
pub trait Caller {
    /// Its network namespace; the first, before the first process exists.
    fn net(&self) -> Rc<NetNs>;
    /// Makes the node of a Unix socket, bind(2). EEXIST, EACCES …
    fn create_node(&self, name: &[u8], mode: u32) -> Result<PathRef>;
    /// The node of a Unix socket for connect(2) and sendto(2). ENOENT, EACCES …
    fn find_node(&self, name: &[u8]) -> Result<Rc<dyn Inode>>;
}

/// The implementation.
pub static CALLER: Registered<dyn Caller> = Registered::none();

/// The network namespace of the running thread.
pub fn net() -> Rc<NetNs> {
    CALLER.get().net()
}

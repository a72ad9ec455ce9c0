//! What the platforms with a machine of their own share, a virtual one or a simulated one: RAM that frames are taken from,
//! page tables that keel writes, and a counter that time is told from.

pub mod clock;
pub mod frame;
pub mod paging;
mod tables;

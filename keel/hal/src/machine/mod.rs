//! Common code of platforms with a virtual or simulated machine: RAM frames, page tables that keel writes, and a
//! counter for time.

pub mod clock;
pub mod frame;
pub mod paging;
mod tables;

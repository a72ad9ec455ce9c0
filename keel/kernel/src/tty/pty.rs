//! Pseudo-terminals, pty(7): a master, from `/dev/ptmx`, and a slave, `/dev/pts/N`, which is a terminal
//! with a line discipline.

mod devpts;
mod master;
mod pair;
mod requests;
mod slave;

pub use devpts::file_system;
pub use master::open_master;
pub use pair::Pair;
pub use slave::{Slave, open_slave};

/// Major number of the slaves.
pub const MAJOR: u32 = 136;

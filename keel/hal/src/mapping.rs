//! Mappings of a space.

use crate::frame::Frame;
use bitflags::bitflags;

bitflags! {
    /// Rights of a mapping. A page without `READ` (PROT_NONE) keeps its frame in the table, but the program can't
    /// access it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Prot: u8 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
        /// Instruction fetches.
        const EXEC = 4;
    }
}

/// A present page.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The frame: a separate handle, so [`Frame::refs`] counts it and the table's.
    pub frame: Frame,
    /// Current rights in the table.
    pub prot: Prot,
    /// May have been written since it was mapped.
    pub dirty: bool,
    /// May have been accessed since it was mapped. A page that was not is in no TLB: unmapping it needs no flush.
    pub accessed: bool,
}

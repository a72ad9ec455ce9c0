//! What a space maps at an address.

use crate::frame::Frame;
use bitflags::bitflags;

bitflags! {
    /// What a mapping allows. A page without `READ` keeps its frame in the table, out of the program's
    /// reach (PROT_NONE).
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
    /// The frame: a counted handle of its own, so [`Frame::refs`] counts it beside the table's.
    pub frame: Frame,
    /// What the table allows now.
    pub prot: Prot,
    /// May have been written since mapped.
    pub dirty: bool,
    /// May have been used since mapped. A page that was not is in no translation cache: taking it away
    /// needs no flush.
    pub accessed: bool,
}

//! An executable file in use.

use uapi::Result;
use uapi::raw::general as g;
use vfs::{Claim, PathRef, notify};

/// A file that is open for execution: opening it for writing fails with ETXTBSY.
#[derive(Debug)]
pub struct Program {
    /// The file.
    pub place: PathRef,
    /// Excludes writers.
    _claim: Claim,
}

impl Program {
    /// Opens the file at a path. ETXTBSY.
    pub fn open(place: PathRef) -> Result<Self> {
        let program = Self { _claim: Claim::execute(place.inode())?, place };
        notify::happened(&program.place, g::IN_OPEN, true);
        notify::happened(&program.place, g::IN_ACCESS, true);
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        notify::happened(&self.place, g::IN_CLOSE_NOWRITE, true);
    }
}

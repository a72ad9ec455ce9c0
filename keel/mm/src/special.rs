//! Pages that keel maps into programs on its own: the vDSO and its data.

use alloc::vec::Vec;
use hal::frame::Frame;

/// A named run of pages.
#[derive(Debug)]
pub struct Special {
    /// Name in /proc/PID/maps, with the brackets.
    pub name: &'static str,
    /// The pages.
    pub pages: Vec<Frame>,
}

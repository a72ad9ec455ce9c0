//! Heuristic overcommit, `vm.overcommit_memory=0`: a single mapping that is larger than all memory is refused, if the program
//! could come to need as much.

use super::Inner;
use super::area::{Area, AreaFlags};
use hal::paging::Prot;
use uapi::{Errno, Result};

/// A small pod counts as so much memory: stacks of threads have 8 MiB, of which few pages are used.
const LEAST: u64 = 64 << 20;

/// ENOMEM if so many bytes are more than all memory.
pub fn check(bytes: u64) -> Result<()> {
    if bytes > hal::frame::ram_usage().limit.max(LEAST) { Err(Errno::ENOMEM) } else { Ok(()) }
}

impl Area {
    /// Whether its pages count when they can be written.
    pub(super) fn may_count(&self) -> bool {
        self.is_private() && !self.flags.contains(AreaFlags::NO_RESERVE)
    }

    /// Whether its pages count: private, writable, and not `MAP_NORESERVE`.
    pub(super) fn counts(&self) -> bool {
        self.prot.contains(Prot::WRITE) && self.may_count()
    }
}

impl Inner {
    /// ENOMEM if an area of `len` bytes at `start`, in place of what is there, is more than all memory.
    pub(super) fn check_commit(&self, start: usize, len: usize, area: &Area) -> Result<()> {
        if !area.counts() || check(len as u64).is_ok() {
            return Ok(());
        }
        let end = start + len;
        let replaced = self.vmas.overlapping(start, end).filter(|v| v.attrs.counts());
        let replaced: usize = replaced.map(|v| v.end.min(end) - v.start.max(start)).sum();
        check(len.saturating_sub(replaced) as u64)
    }
}

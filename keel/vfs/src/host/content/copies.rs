//! Private copies of a host file's content, for mappings that are written from end to end.

use super::super::HostNode;
use super::{MAX_READ, PAGE};
use alloc::vec::Vec;
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

impl HostNode {
    /// Copies of pages, see [`crate::Inode::copies`]. What is not in RAM is read into them without being kept: a look at each
    /// page in the window costs more than reading it.
    pub fn content_copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        let attr = self.attr_reaching(first)?;
        let content = self.content();
        self.validate(&attr);
        let count = (count as u64).clamp(1, MAX_READ / PAGE).min(attr.size.div_ceil(PAGE) - first);
        let mut copies = Vec::new();
        copies.try_reserve_exact(count as usize).map_err(|_| Errno::ENOMEM)?;
        let pages = content.pages.borrow();
        for page in (first..first + count).map_while(|index| pages.get(index)) {
            let Some(copy) = Frame::alloc() else { break };
            copy.copy_from(page);
            copies.push(copy);
        }
        drop(pages);
        if !copies.is_empty() {
            return Ok(copies);
        }
        let next = content.pages.borrow().next_present(first).unwrap_or(u64::MAX);
        let len = ((first + count).min(next) - first) as usize * FRAME_SIZE;
        let (mut frames, done) = self.read_frames(first, len, attr.size)?;
        frames.truncate(done.div_ceil(FRAME_SIZE));
        if frames.is_empty() { Err(Errno::ENXIO) } else { Ok(frames) }
    }
}

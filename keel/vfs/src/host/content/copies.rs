//! Private copies of a host file's content, for mappings that are written from end to end.

use super::super::HostNode;
use super::{MAX_READ, PAGE};
use abi::request::Op;
use alloc::vec::Vec;
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

impl HostNode {
    /// Copies of pages, see [`crate::Inode::copies`]. What is not in RAM is read into them without being kept: a look at each
    /// page in the window costs more than reading it.
    pub fn content_copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        let attr = self.fresh_attr()?;
        let content = self.content();
        content.validate(self.host(), &attr);
        let total = attr.size.div_ceil(PAGE);
        if first >= total {
            return Err(Errno::ENXIO);
        }
        let count = (count as u64).clamp(1, MAX_READ / PAGE).min(total - first);
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
        self.host().with_buffer(len, |buffer| {
            let mut done = 0;
            while done < len {
                let n = self.on_handle(false, |id| {
                    let args = [id, first * PAGE + done as u64, 0, 0, 0, 0];
                    self.host().io.call(Op::Read, args, &[], &mut buffer[done..])
                })?;
                done += (n.result as usize).min(len - done);
                if n.result == 0 || first * PAGE + done as u64 >= attr.size {
                    break;
                }
            }
            if done == 0 {
                return Err(Errno::ENXIO);
            }
            buffer[done..].fill(0);
            for page in buffer[..done.next_multiple_of(FRAME_SIZE)].chunks(FRAME_SIZE) {
                let Some(copy) = Frame::alloc() else { break };
                copy.write(0, page);
                copies.push(copy);
            }
            Ok(())
        })?;
        match copies.len() {
            0 => Err(Errno::ENOMEM),
            _ => Ok(copies),
        }
    }
}

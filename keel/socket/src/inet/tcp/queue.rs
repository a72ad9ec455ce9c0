//! Bytes on their way to a receiver: pages in order.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use file::lock::SleepLock;
use hal::frame::Frame;
use keel_core::pipe_buf::{PAGE, Piece, PipeRing};
use uapi::{Errno, Result};
use vfs::{Dst, Src};

#[cfg(test)]
mod tests;

/// Emptied pages that are kept for the next bytes.
const SPARE_PAGES: usize = 16;

/// Queue of one direction of a connection. Has no limit itself.
#[derive(Debug)]
pub struct Bytes {
    ring: RefCell<PipeRing<Frame>>,
    spare: RefCell<Vec<Frame>>,
    /// Serialises senders and receivers that move bytes.
    busy: SleepLock,
    /// Total number of consumed bytes.
    taken: Cell<u64>,
}

impl Default for Bytes {
    fn default() -> Self {
        let ring = RefCell::new(PipeRing::unlimited());
        Self { ring, spare: RefCell::default(), busy: SleepLock::default(), taken: Cell::new(0) }
    }
}

impl Bytes {
    /// Bytes inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.borrow().bytes()
    }

    /// Stream positions of the next byte to read, and of the next to add.
    pub fn positions(&self) -> (u64, u64) {
        (self.taken.get(), self.taken.get() + self.len() as u64)
    }

    fn page(&self) -> Result<Frame> {
        let spare = self.spare.borrow_mut().pop();
        spare.or_else(Frame::alloc).ok_or(Errno::ENOBUFS)
    }

    /// Adds up to `limit` bytes of `src`; how many. An error only if there were none.
    pub fn add(&self, src: &mut dyn Src, limit: usize) -> Result<usize> {
        let _busy = self.busy.lock();
        let total = src.remaining().min(limit);
        let mut done = 0;
        let room = self.ring.borrow().merge_room(1).map(|(page, end)| (page.clone(), end));
        if let Some((page, end)) = room {
            done = src.get_frame(&page, end, total.min(PAGE - end))?;
            self.ring.borrow_mut().merged(done);
            if done < total.min(PAGE - end) {
                return Ok(done);
            }
        }
        while done < total {
            let want = (total - done).min(PAGE);
            let room = self.ring.borrow_mut().reserve().map_err(|_| Errno::ENOBUFS);
            let got = room.and_then(|()| match src.take_frame(want) {
                Some((page, len)) => Ok((len, page)),
                None => self.page().and_then(|page| Ok((src.get_frame(&page, 0, want)?, page))),
            });
            let (len, page) = match got {
                Ok((0, _)) => break,
                Ok(got) => got,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            done += len;
            let piece = Piece { page, start: 0, len, mergeable: true, packet: false };
            // Never fails: the ring is unbounded.
            let _ = self.ring.borrow_mut().push(piece);
            if len < want {
                break;
            }
        }
        Ok(done)
    }

    /// Adds bytes that are in a page already.
    pub fn append(&self, piece: Piece<Frame>) {
        // Never fails: the ring is unbounded.
        let _ = self.ring.borrow_mut().push(piece);
    }

    /// Takes up to `limit` bytes into `dst`; how many. An error only if there were none.
    pub fn take(&self, dst: &mut dyn Dst, limit: usize) -> Result<usize> {
        let _busy = self.busy.lock();
        let room = dst.remaining().min(limit);
        let mut done = 0;
        while done < room {
            let front = self.ring.borrow().front().map(|piece| (piece.page.clone(), piece.start, piece.len));
            let Some((page, start, len)) = front else { break };
            let moved = match dst.put_frame(&page, start, len.min(room - done)) {
                Ok(moved) => moved,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            drop(page);
            done += moved;
            self.consume(moved);
            if moved == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Copies up to `limit` bytes to `dst`, after the first `skip`; how many.
    pub fn peek(&self, dst: &mut dyn Dst, mut skip: usize, limit: usize) -> Result<usize> {
        let _busy = self.busy.lock();
        let room = dst.remaining().min(limit);
        let (mut done, mut index) = (0, 0);
        while done < room {
            let piece = self.ring.borrow().get(index).map(|piece| (piece.page.clone(), piece.start, piece.len));
            let Some((page, start, len)) = piece else { break };
            index += 1;
            if skip >= len {
                skip -= len;
                continue;
            }
            let want = (len - skip).min(room - done);
            let moved = match dst.put_frame(&page, start + skip, want) {
                Ok(moved) => moved,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            done += moved;
            if moved < want {
                break;
            }
            skip = 0;
        }
        Ok(done)
    }

    /// Drops up to `limit` bytes; how many.
    pub fn drop_bytes(&self, limit: usize) -> usize {
        let _busy = self.busy.lock();
        let mut done = 0;
        while done < limit {
            let Some(len) = self.ring.borrow().front().map(|piece| piece.len.min(limit - done)) else { break };
            self.consume(len);
            done += len;
        }
        done
    }

    fn consume(&self, len: usize) {
        let freed = self.ring.borrow_mut().consume(len);
        self.taken.set(self.taken.get() + len as u64);
        if let Some(page) = freed
            && page.refs() == 1
        {
            let mut spare = self.spare.borrow_mut();
            if spare.len() < SPARE_PAGES {
                spare.push(page);
            }
        }
    }

    /// Discards all data.
    pub fn clear(&self) {
        let old = self.ring.replace(PipeRing::unlimited());
        let spare = self.spare.take();
        drop((old, spare));
    }
}

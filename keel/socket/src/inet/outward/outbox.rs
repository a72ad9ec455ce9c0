//! Bytes on their way to the host.

use abi::ring::Segment;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use file::lock::SleepLock;
use hal::frame::{FRAME_SIZE, Frame};
use keel_core::pieces::Pieces;
use uapi::{Errno, Result};
use vfs::Src;

/// Bytes that are copied twice, so that small sends share a page.
const SMALL: usize = 512;
/// Most pages of one request.
const MAX_PAGES: usize = 64;

/// The bytes `start .. start + len` of a page.
#[derive(Debug)]
pub struct Piece {
    page: Frame,
    start: usize,
    len: usize,
    /// Its last byte is urgent.
    urgent: bool,
}

/// Queue of one connection. Has no limit itself.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: RefCell<Pieces<Piece>>,
    bytes: Cell<usize>,
    /// Serialises senders.
    busy: SleepLock,
}

impl Outbox {
    /// Bytes inside.
    pub fn len(&self) -> usize {
        self.bytes.get()
    }

    /// Adds up to `limit` bytes of `src`; how many. An error only if there were none.
    pub fn add(&self, src: &mut dyn Src, limit: usize) -> Result<usize> {
        let _busy = self.busy.lock();
        let total = src.remaining().min(limit);
        let mut done = 0;
        while done < total {
            let want = total - done;
            let added = if want <= SMALL { self.add_small(src, want) } else { self.add_page(src, want) };
            match added {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }

    fn add_page(&self, src: &mut dyn Src, want: usize) -> Result<usize> {
        if let Some((page, len)) = src.take_frame(want) {
            self.push(Piece { page, start: 0, len, urgent: false });
            return Ok(len);
        }
        let page = Frame::alloc().ok_or(Errno::ENOBUFS)?;
        let len = src.get_frame(&page, 0, want.min(FRAME_SIZE))?;
        if len > 0 {
            self.push(Piece { page, start: 0, len, urgent: false });
        }
        Ok(len)
    }

    /// Adds a few bytes behind the last ones. They may leave while more are copied from the program.
    fn add_small(&self, src: &mut dyn Src, want: usize) -> Result<usize> {
        let mut bytes = [0; SMALL];
        let len = src.get(&mut bytes[..want])?;
        let mut pieces = self.pieces.borrow_mut();
        if let Some(mut last) = pieces.pop_back() {
            let end = last.start + last.len;
            let fits = end + len <= FRAME_SIZE && !last.urgent;
            if fits {
                last.page.write(end, &bytes[..len]);
                last.len += len;
                self.bytes.set(self.bytes.get() + len);
            }
            pieces.push_back(last);
            if fits {
                return Ok(len);
            }
        }
        drop(pieces);
        let page = Frame::alloc().ok_or(Errno::ENOBUFS)?;
        page.write(0, &bytes[..len]);
        self.push(Piece { page, start: 0, len, urgent: false });
        Ok(len)
    }

    fn push(&self, piece: Piece) {
        self.bytes.set(self.bytes.get() + piece.len);
        self.pieces.borrow_mut().push_back(piece);
    }

    /// The last byte is urgent.
    pub fn mark(&self) {
        let mut pieces = self.pieces.borrow_mut();
        if let Some(mut last) = pieces.pop_back() {
            last.urgent = true;
            pieces.push_back(last);
        }
    }

    /// Takes the first bytes for a request: the pages, which must live until it completes, where they lie, and whether the last byte is
    /// urgent.
    pub fn take(&self) -> (Vec<Piece>, Vec<Segment>, bool) {
        let mut pieces = self.pieces.borrow_mut();
        let count = pieces.len().min(MAX_PAGES);
        let (mut taken, mut list) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            let Some(piece) = pieces.pop_front() else { break };
            list.push(Segment { gpa: piece.page.gpa() + piece.start as u64, len: piece.len as u64 });
            self.bytes.set(self.bytes.get() - piece.len);
            let urgent = piece.urgent;
            taken.push(piece);
            if urgent {
                return (taken, list, true);
            }
        }
        (taken, list, false)
    }

    /// Discards all.
    pub fn clear(&self) {
        let old = self.pieces.take();
        self.bytes.set(0);
        drop(old);
    }
}

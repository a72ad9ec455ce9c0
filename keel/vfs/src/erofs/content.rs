//! Content of files.

use super::superblock::u32_at;
use super::{BLOCK, Data, File};
use crate::Dst;
use crate::io::{Part, read_parts};
use crate::memory::list;
use crate::pagemap::PageMap;
use alloc::vec::Vec;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// Most pages that a read asks for ahead.
const MOST_AHEAD: u64 = 256;
/// A chunk without blocks.
const HOLE: u32 = u32::MAX;

/// Where a page of a file is, and how many pages follow each other there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Blocks of the image.
    Blocks { first: u64, count: u64 },
    /// The bytes behind the inode.
    Tail { at: u64 },
    /// Zeros.
    Hole { count: u64 },
}

/// Bytes of a file in one page.
pub(super) struct Piece {
    frame: Frame,
    start: usize,
    len: usize,
}

impl Piece {
    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies bytes. EUCLEAN: beyond its end.
    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            return Err(Errno::EUCLEAN);
        }
        self.frame.read(self.start + offset, bytes);
        Ok(())
    }
}

impl File {
    /// Number of pages with content.
    fn total(&self) -> u64 {
        if self.data == Data::None { 0 } else { self.attr.size.div_ceil(BLOCK) }
    }

    /// Where page `page` is. ENXIO beyond the end; EUCLEAN, EOPNOTSUPP.
    fn extent(&self, page: u64) -> Result<Extent> {
        let total = self.total();
        if page >= total {
            return Err(Errno::ENXIO);
        }
        let left = total - page;
        match self.data {
            // `RawInode::data` checked that these blocks exist.
            Data::Plain { first } => Ok(Extent::Blocks { first: first + page, count: left }),
            Data::Inline { tail, .. } if left == 1 => Ok(Extent::Tail { at: tail }),
            Data::Inline { first, .. } => Ok(Extent::Blocks { first: first + page, count: left - 1 }),
            Data::Chunks { table, bits, is_wide } => {
                let width = if is_wide { 8 } else { 4 };
                let entry = (page >> bits).checked_mul(width).and_then(|at| at.checked_add(table));
                let mut bytes = [0; 8];
                self.image.read(entry.ok_or(Errno::EUCLEAN)?, &mut bytes[..width as usize])?;
                let in_chunk = page & ((1 << bits) - 1);
                let count = ((1 << bits) - in_chunk).min(left);
                let block = u32_at(&bytes, if is_wide { 4 } else { 0 })?;
                if block == HOLE {
                    return Ok(Extent::Hole { count });
                }
                // Blocks of another device.
                if is_wide && bytes[2..4] != [0; 2] {
                    return Err(Errno::EOPNOTSUPP);
                }
                let first = u64::from(block) + in_chunk;
                if first + count > self.image.blocks() {
                    return Err(Errno::EUCLEAN);
                }
                Ok(Extent::Blocks { first, count })
            }
            Data::None => Err(Errno::ENXIO),
            Data::Unsupported => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Bytes of page `page` that belong to the file.
    fn len_of(&self, page: u64) -> usize {
        (self.attr.size - page * BLOCK).min(BLOCK) as usize
    }

    /// The content of page `page` of a directory or a link.
    pub(super) fn piece(&self, page: u64) -> Result<Piece> {
        let extent = self.extent(page)?;
        let (frame, start) = match extent {
            Extent::Blocks { first, .. } => (self.image.source.page(first)?, 0),
            Extent::Tail { at } => (self.image.source.page(at / BLOCK)?, (at % BLOCK) as usize),
            Extent::Hole { .. } => (self.image.zeros()?, 0),
        };
        Ok(Piece { frame, start, len: self.len_of(page) })
    }

    /// Reads bytes that lie in one page.
    pub(super) fn read_piece(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.piece(offset / BLOCK)?.read((offset % BLOCK) as usize, bytes)?;
        if self.image.has_lost_pages() {
            return self.piece(offset / BLOCK)?.read((offset % BLOCK) as usize, bytes);
        }
        Ok(())
    }

    /// How many pages a read at `page` asks for that wants `wanted` now: more and more as reads follow each other.
    fn readahead(&self, page: u64, wanted: u64) -> u64 {
        let (expected, last) = self.ahead.get();
        let grown = if page == expected { last.saturating_mul(2) } else { 0 };
        let asked = grown.max(wanted).min(MOST_AHEAD);
        self.ahead.set((page + wanted.min(asked), asked));
        asked
    }

    /// Reads content.
    pub fn read_content(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let size = self.attr.size;
        if self.total() == 0 || offset >= size {
            return Ok(0);
        }
        let wanted = (dst.remaining() as u64).min(size - offset).div_ceil(BLOCK);
        let ahead = self.readahead(offset / BLOCK, wanted);
        read_parts(offset, size, dst, |part, dst| self.store(part, ahead, dst))
    }

    /// Stores a part, and reads at most `ahead` pages from its own on.
    fn store(&self, part: Part, ahead: u64, dst: &mut dyn Dst) -> Result<usize> {
        let Part { page, in_page, len } = part;
        let source = &self.image.source;
        match self.extent(page)? {
            Extent::Hole { .. } => dst.put_zeros(len),
            Extent::Tail { at } => dst.put_frame(&source.page(at / BLOCK)?, (at % BLOCK) as usize + in_page, len),
            Extent::Blocks { first, count } => match source.content(first, ahead.min(count))? {
                Some(frame) => dst.put_frame(&frame, in_page, len),
                None => Err(Errno::ENOMEM),
            },
        }
    }

    /// The last page, which is stored behind the inode, as a page of its own.
    fn tail_page(&self, at: u64) -> Result<Frame> {
        if let Some(frame) = &*self.tail.borrow() {
            return Ok(frame.clone());
        }
        let frame = self.tail_copy(at)?;
        Ok(self.tail.borrow_mut().get_or_insert(frame).clone())
    }

    fn tail_copy(&self, at: u64) -> Result<Frame> {
        let frame = Frame::alloc_zeroed().ok_or(Errno::ENOMEM)?;
        let len = self.len_of(self.total() - 1);
        let mut bytes = [0; 256];
        for start in (0..len).step_by(bytes.len()) {
            let piece = &mut bytes[..(len - start).min(256)];
            self.image.read(at + start as u64, piece)?;
            frame.write(start, piece);
        }
        Ok(frame)
    }

    /// Pages for a mapping that does not change them, see [`crate::Inode::pages`].
    pub fn content_pages(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        let count = count.max(1) as u64;
        match self.extent(first)? {
            Extent::Tail { at } => list(core::iter::once(self.tail_page(at)?)),
            Extent::Hole { count: hole } => {
                let zeros = self.image.zeros()?;
                list((0..hole.min(count)).map(|_| zeros.clone()))
            }
            Extent::Blocks { first, count: there } => {
                let count = count.min(there);
                let asked = self.asked.get();
                let often = asked > self.total();
                if !often {
                    self.asked.set(asked + count);
                }
                self.image.source.pages(first, count, self.attr.size, often)
            }
        }
    }

    /// Copies of pages, see [`crate::Inode::copies`].
    pub fn content_copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        match self.extent(first)? {
            Extent::Tail { at } => list(core::iter::once(self.tail_copy(at)?)),
            Extent::Hole { .. } => list(core::iter::once(Frame::alloc_zeroed().ok_or(Errno::ENOMEM)?)),
            Extent::Blocks { first, count: there } => self.image.source.copies(first, there.min(count.max(1) as u64)),
        }
    }

    /// A private copy of the first `size` bytes, for the first write in an overlay. Holes stay holes. ENOSPC.
    pub(crate) fn copy_up(&self, size: u64) -> Result<PageMap> {
        let mut copy = PageMap::new();
        let end = size.div_ceil(BLOCK).min(self.total());
        let mut page = 0;
        while page < end {
            if let Extent::Hole { count } = self.extent(page)? {
                page += count;
                continue;
            }
            let left = usize::try_from(end - page).unwrap_or(usize::MAX);
            let frames = self.content_copies(page, left);
            let frames = frames.map_err(|errno| if errno == Errno::ENOMEM { Errno::ENOSPC } else { errno })?;
            for frame in frames {
                copy.insert(page, frame);
                page += 1;
            }
        }
        Ok(copy)
    }

    /// Next data (or hole) at or after `offset`, which is in the file. ENXIO.
    pub fn seek_content(&self, offset: u64, hole: bool) -> Result<u64> {
        let size = self.attr.size;
        let mut page = offset / BLOCK;
        while page < self.total() {
            let (is_hole, count) = match self.extent(page)? {
                Extent::Hole { count } => (true, count),
                Extent::Blocks { count, .. } => (false, count),
                Extent::Tail { .. } => (false, 1),
            };
            if is_hole == hole {
                return Ok((page * BLOCK).max(offset));
            }
            page += count;
        }
        if hole { Ok(size) } else { Err(Errno::ENXIO) }
    }

    /// Whether the host's image file has become shorter than pages that were mapped: the size of this file then.
    pub fn cut_content(&self) -> Option<u64> {
        // What is left of the file is not known: all of its mapped pages are asked for again.
        self.image.source.was_cut().then_some(0)
    }

    /// The host lost pages, see [`crate::Inode::drop_window`].
    pub fn drop_window(&self, distrust: bool) {
        self.image.source.drop_pages(distrust);
    }
}

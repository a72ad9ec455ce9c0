//! Directories: blocks of entries, sorted by name over all of them.

use super::content::Piece;
use super::superblock::{u16_at, u64_at};
use super::{BLOCK, File};
use crate::{FileType, Listing, NAME_MAX};
use alloc::rc::Rc;
use core::cmp::Ordering;
use uapi::{Errno, Result};

/// Size of an entry: nid, offset of the name, type, one byte unused.
const ENTRY: usize = 12;

/// A block of a directory.
struct Block {
    piece: Piece,
    /// Number of entries.
    count: usize,
}

/// A name, with room for the longest.
struct EntryName {
    bytes: [u8; NAME_MAX + 1],
    len: usize,
}

impl EntryName {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Block {
    fn new(piece: Piece) -> Result<Self> {
        let mut first = [0; ENTRY];
        piece.read(0, &mut first)?;
        // The names follow the entries.
        let names = usize::from(u16_at(&first, 8)?);
        if names == 0 || !names.is_multiple_of(ENTRY) || names > piece.len() {
            return Err(Errno::EUCLEAN);
        }
        Ok(Self { piece, count: names / ENTRY })
    }

    /// nid and type of an entry that exists, where its name begins, and how many bytes it has; zeros fill the block after the
    /// last one.
    fn head(&self, index: usize) -> Result<(u64, u8, usize, usize)> {
        let mut bytes = [0; 2 * ENTRY];
        let is_last = index + 1 == self.count;
        let len = if is_last { ENTRY } else { 2 * ENTRY };
        self.piece.read(index * ENTRY, &mut bytes[..len])?;
        let start = usize::from(u16_at(&bytes, 8)?);
        let end = if is_last { self.piece.len() } else { usize::from(u16_at(&bytes, ENTRY + 8)?) };
        let len = end.checked_sub(start).filter(|_| start >= self.count * ENTRY).ok_or(Errno::EUCLEAN)?;
        let len = if is_last { len.min(NAME_MAX + 1) } else { len };
        if len == 0 || len > NAME_MAX + usize::from(is_last) {
            return Err(Errno::EUCLEAN);
        }
        Ok((u64_at(&bytes, 0)?, bytes[10], start, len))
    }

    /// nid, type and name of an entry that exists.
    fn entry(&self, index: usize) -> Result<(u64, u8, EntryName)> {
        let (nid, kind, start, len) = self.head(index)?;
        let mut name = EntryName { bytes: [0; NAME_MAX + 1], len: 0 };
        let text = name.bytes.get_mut(..len).ok_or(Errno::EUCLEAN)?;
        self.piece.read(start, text)?;
        let is_last = index + 1 == self.count;
        name.len = if is_last { text.iter().position(|&b| b == 0).unwrap_or(len) } else { len };
        if name.len == 0 || name.len > NAME_MAX || name.bytes().iter().any(|&b| b == 0 || b == b'/') {
            return Err(Errno::EUCLEAN);
        }
        Ok((nid, kind, name))
    }

    /// How the name of an entry that exists compares to `name`, which has no zeros; nid and type of the entry. The text is
    /// copied as far as the two are the same.
    fn compare(&self, index: usize, name: &[u8]) -> Result<(Ordering, u64, u8)> {
        let (nid, kind, start, len) = self.head(index)?;
        let is_last = index + 1 == self.count;
        let mut done = 0;
        let order = loop {
            let mut piece = [0; 32];
            let part = &mut piece[..(len - done).min(32)];
            self.piece.read(start + done, part)?;
            let rest = &name[done.min(name.len())..];
            let zero = if is_last { part.iter().position(|&b| b == 0) } else { None };
            let text = &part[..zero.unwrap_or(part.len())];
            let same = rest.get(..text.len()).unwrap_or(rest);
            match text.cmp(same) {
                Ordering::Equal => done += text.len(),
                order => break order,
            }
            if zero.is_some() || done == len {
                break done.cmp(&name.len());
            }
        };
        Ok((order, nid, kind))
    }
}

/// Type of an entry.
fn kind(number: u8) -> Option<FileType> {
    Some(match number {
        1 => FileType::Regular,
        2 => FileType::Directory,
        3 => FileType::CharDevice,
        4 => FileType::BlockDevice,
        5 => FileType::Fifo,
        6 => FileType::Socket,
        7 => FileType::Symlink,
        _ => return None,
    })
}

impl File {
    fn block(&self, index: u64) -> Result<Block> {
        Block::new(self.piece(index)?)
    }

    /// nid and type of a name.
    fn search(&self, name: &[u8]) -> Result<(u64, u8)> {
        // The last block whose first name does not come after `name`; the only one, if there is one.
        let (mut low, mut high) = (0, self.attr.size.div_ceil(BLOCK));
        let mut block = if high == 1 { Some(self.block(0)?) } else { None };
        while block.is_none() && low < high || low + 1 < high {
            let middle = low + (high - low) / 2;
            let candidate = self.block(middle)?;
            let (order, nid, kind) = candidate.compare(0, name)?;
            match order {
                Ordering::Equal => return Ok((nid, kind)),
                Ordering::Less => (low, block) = (middle, Some(candidate)),
                Ordering::Greater => high = middle,
            }
        }
        let block = block.ok_or(Errno::ENOENT)?;
        let (mut low, mut high) = (0, block.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let (order, nid, kind) = block.compare(middle, name)?;
            match order {
                Ordering::Equal => return Ok((nid, kind)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(Errno::ENOENT)
    }

    /// Finds a name. ENOENT, ENOTDIR.
    pub fn find(&self, name: &[u8]) -> Result<Rc<Self>> {
        if self.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mut found = self.search(name);
        if self.image.has_lost_pages() {
            found = self.search(name);
        }
        let (nid, number) = found?;
        let file = self.image.file(nid)?;
        // So a listing and a lookup tell the same.
        if kind(number).is_some_and(|kind| kind != file.kind) {
            return Err(Errno::EUCLEAN);
        }
        Ok(file)
    }

    /// All entries but `.` and `..`. ENOMEM.
    pub fn list(&self) -> Result<Listing> {
        if self.kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mut listing = Listing::new();
        for index in 0..self.attr.size.div_ceil(BLOCK) {
            let block = self.block(index)?;
            for at in 0..block.count {
                let (nid, number, name) = block.entry(at)?;
                if !matches!(name.bytes(), b"." | b"..") {
                    let kind = kind(number).map_or_else(|| self.image.file(nid).map(|file| file.kind), Ok)?;
                    listing.push(name.bytes(), nid, kind)?;
                }
            }
        }
        // The next call reads other pages.
        if self.image.has_lost_pages() { Err(Errno::EIO) } else { Ok(listing) }
    }
}

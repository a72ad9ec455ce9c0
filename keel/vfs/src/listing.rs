//! The names of a directory, all at once, in pieces small enough for a nearly full memory.

use crate::{FileType, NAME_MAX};
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Inode number.
    pub ino: u64,
    /// Type.
    pub kind: FileType,
}

/// Bytes of the first piece; the following ones double up to [`LARGEST`].
const SMALLEST: usize = 512;
const LARGEST: usize = 16 << 10;
/// Bytes before the name in a record: inode number, type, length of the name.
const HEAD: usize = 10;

struct Piece {
    /// Number of its first entry.
    first: usize,
    /// Records, one after another.
    bytes: Vec<u8>,
}

/// Entries of a directory in their order.
#[derive(Default)]
pub struct Listing {
    pieces: Vec<Piece>,
    len: usize,
}

impl core::fmt::Debug for Listing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Listing {
    /// No entries.
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an entry. ENOMEM; ENAMETOOLONG.
    pub fn push(&mut self, name: &[u8], ino: u64, kind: FileType) -> Result<()> {
        let len = u8::try_from(name.len()).map_err(|_| Errno::ENAMETOOLONG)?;
        let need = HEAD + name.len();
        if self.pieces.last().is_none_or(|piece| piece.bytes.capacity() - piece.bytes.len() < need) {
            // Caches may be borrowed: they are not shrunk here.
            if hal::frame::is_scarce() {
                return Err(Errno::ENOMEM);
            }
            let size = (SMALLEST << self.pieces.len().min(8)).clamp(HEAD + NAME_MAX, LARGEST);
            let mut piece = Piece { first: self.len, bytes: Vec::new() };
            piece.bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
            self.pieces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            self.pieces.push(piece);
        }
        let Some(Piece { bytes, .. }) = self.pieces.last_mut() else { return Err(Errno::ENOMEM) };
        bytes.extend_from_slice(&ino.to_le_bytes());
        bytes.push(kind.dirent_type());
        bytes.push(len);
        bytes.extend_from_slice(name);
        self.len += 1;
        Ok(())
    }

    /// All entries.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// Entries from the one of this number on.
    pub fn iter_from(&self, index: usize) -> Iter<'_> {
        if index >= self.len {
            return Iter { pieces: &[], rest: &[] };
        }
        let at = self.pieces.partition_point(|piece| piece.first <= index).saturating_sub(1);
        let mut iter = Iter { pieces: &self.pieces[at..], rest: &[] };
        for _ in self.pieces.get(at).map_or(index, |piece| piece.first)..index {
            iter.next();
        }
        iter
    }
}

/// Iterator over a [`Listing`].
pub struct Iter<'a> {
    pieces: &'a [Piece],
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = DirEntry<'a>;

    fn next(&mut self) -> Option<DirEntry<'a>> {
        while self.rest.is_empty() {
            let (first, pieces) = self.pieces.split_first()?;
            (self.rest, self.pieces) = (&first.bytes, pieces);
        }
        let (head, rest) = self.rest.split_first_chunk::<HEAD>()?;
        let (ino, [kind, len]) =
            head.split_first_chunk::<8>().and_then(|(ino, rest)| Some((ino, rest.try_into().ok()?)))?;
        let (name, rest) = rest.split_at_checked(usize::from(len))?;
        self.rest = rest;
        Some(DirEntry { name, ino: u64::from_le_bytes(*ino), kind: FileType::of(u32::from(kind) << 12) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::vec::Vec;

    #[test]
    fn keeps_order_and_finds_places() {
        let mut listing = Listing::new();
        assert!(listing.is_empty() && listing.iter().next().is_none());
        let names: Vec<_> = (0..5000).map(|i| format!("{i:0width$}", width = i % 255 + 1)).collect();
        for (i, name) in names.iter().enumerate() {
            let kind = if i % 2 == 0 { FileType::Directory } else { FileType::Regular };
            listing.push(name.as_bytes(), i as u64, kind).unwrap();
        }
        assert_eq!(listing.push(&[b'x'; 256], 0, FileType::Regular), Err(Errno::ENAMETOOLONG));
        assert_eq!(listing.len(), names.len());
        for start in [0, 1, 2, 1234, 4998, 4999, 5000, usize::MAX] {
            let got: Vec<_> = listing.iter_from(start).map(|e| (e.ino, e.name.to_vec(), e.kind)).collect();
            assert_eq!(got.len(), names.len().saturating_sub(start));
            for ((ino, name, kind), i) in got.into_iter().zip(start..) {
                assert_eq!((ino, &name[..]), (i as u64, names[i].as_bytes()));
                assert_eq!(kind == FileType::Directory, i % 2 == 0);
            }
        }
    }
}

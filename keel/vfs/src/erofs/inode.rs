//! Inodes, compact and extended.

use super::superblock::{u16_at, u32_at, u64_at};
use super::xattr::Area;
use super::{BLOCK, Image};
use crate::attr::{self, makedev};
use crate::{Attr, FILE_MAX, FileType};
use uapi::{Errno, Result};

const COMPACT: usize = 32;
const EXTENDED: usize = 64;

/// Bits of the format: the size of the inode, and how the data is stored.
const IS_EXTENDED: u16 = 1;
const KNOWN_BITS: u16 = 15;

/// Bits of the chunk format: log2 of the blocks of a chunk, and that the table has 8 bytes for each.
const CHUNK_BITS: u32 = 31;
const CHUNK_INDEXES: u32 = 32;

/// Where a file's content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// No content: a device, a FIFO, a socket, an empty file.
    None,
    /// In consecutive blocks.
    Plain { first: u64 },
    /// In consecutive blocks, but its last page, which is at byte `tail` of the image, in one block.
    Inline { first: u64, tail: u64 },
    /// In chunks of `1 << bits` blocks, which the table at byte `table` lists, with 4 or 8 bytes (`is_wide`) for each.
    Chunks { table: u64, bits: u32, is_wide: bool },
    /// In a form that is not supported.
    Unsupported,
}

/// An inode as it is stored.
pub(super) struct RawInode {
    pub(super) kind: FileType,
    pub(super) attr: Attr,
    pub(super) data: Data,
    pub(super) xattrs: Area,
}

/// `st_rdev` of a stored device number.
const fn device(number: u32) -> u64 {
    makedev((number & 0xfff00) >> 8, number & 0xff | (number >> 12) & 0xfff00)
}

impl RawInode {
    /// Reads the inode `nid`. EUCLEAN, EOPNOTSUPP.
    pub(super) fn read(image: &Image, nid: u64) -> Result<Self> {
        let at = image.superblock.inode(nid)?;
        let mut bytes = [0; EXTENDED];
        image.read(at, &mut bytes[..COMPACT])?;
        let format = u16_at(&bytes, 0)?;
        if format & !KNOWN_BITS != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let is_extended = format & IS_EXTENDED != 0;
        let len = if is_extended { EXTENDED } else { COMPACT };
        if is_extended {
            image.read(at + COMPACT as u64, &mut bytes[COMPACT..])?;
        }
        let mode = u32::from(u16_at(&bytes, 4)?);
        let kind = FileType::of(mode);
        if kind.mode_bits() != mode & 0o170000 {
            return Err(Errno::EUCLEAN);
        }
        let (size, nlink, uid, gid, time) = if is_extended {
            let time = (u64_at(&bytes, 32)?.cast_signed(), u32_at(&bytes, 40)?.min(999_999_999));
            (u64_at(&bytes, 8)?, u32_at(&bytes, 44)?, u32_at(&bytes, 24)?, u32_at(&bytes, 28)?, time)
        } else {
            let (uid, gid) = (u16_at(&bytes, 24)?.into(), u16_at(&bytes, 26)?.into());
            (u32_at(&bytes, 8)?.into(), u16_at(&bytes, 6)?.into(), uid, gid, image.superblock.time)
        };
        if size > FILE_MAX {
            return Err(Errno::EUCLEAN);
        }
        let own = u32_at(&bytes, 16)?;
        let xattrs = Area::new(at + len as u64, u16_at(&bytes, 2)?);
        let data = match kind {
            FileType::Regular | FileType::Directory | FileType::Symlink if size == 0 => Data::None,
            FileType::Regular | FileType::Directory | FileType::Symlink => {
                Self::data(image, format >> 1 & 7, own, size, xattrs.end())?
            }
            _ => Data::None,
        };
        // A directory has as many names as fit into the image, however often its table names a block.
        if kind == FileType::Directory && size > image.blocks() * BLOCK {
            return Err(Errno::EUCLEAN);
        }
        let is_device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
        let (s, ns) = time;
        let attr = Attr {
            ino: nid,
            dev: image.dev,
            mode,
            nlink,
            uid,
            gid,
            rdev: if is_device { device(own) } else { 0 },
            size: if is_device { 0 } else { size },
            blksize: BLOCK as u32,
            blocks: size.div_ceil(BLOCK).saturating_mul(BLOCK / 512),
            btime: s,
            btime_ns: ns,
            ..attr::since((s, ns))
        };
        Ok(Self { kind, attr, data, xattrs })
    }

    /// Where `size` bytes of content are. `end`: the first byte behind the inode and its attributes.
    fn data(image: &Image, layout: u16, own: u32, size: u64, end: u64) -> Result<Data> {
        let pages = size.div_ceil(BLOCK);
        let in_image = |first: u64, pages: u64| {
            let fits = pages == 0 || first.checked_add(pages).is_some_and(|end| end <= image.blocks());
            if fits { Ok(first) } else { Err(Errno::EUCLEAN) }
        };
        match layout {
            0 => Ok(Data::Plain { first: in_image(own.into(), pages)? }),
            2 => {
                // The tail does not cross into another block.
                let tail = size - (pages - 1) * BLOCK;
                if end % BLOCK + tail > BLOCK || end / BLOCK >= image.blocks() {
                    return Err(Errno::EUCLEAN);
                }
                Ok(Data::Inline { first: in_image(own.into(), pages - 1)?, tail: end })
            }
            4 if own & !(CHUNK_BITS | CHUNK_INDEXES) == 0 => {
                let is_wide = own & CHUNK_INDEXES != 0;
                let table = end.next_multiple_of(if is_wide { 8 } else { 4 });
                Ok(Data::Chunks { table, bits: own & CHUNK_BITS, is_wide })
            }
            _ => Ok(Data::Unsupported),
        }
    }
}

//! The superblock.

use super::{BLOCK, SLOT, Source};
use hal::frame::FRAME_SIZE;
use keel_core::crc32c;
use uapi::{Errno, Result};

/// Place and size of the superblock, and its magic number.
const OFFSET: u64 = 1024;
const SIZE: usize = 128;
const MAGIC: u32 = 0xe0f5_e1e2;
/// log2 of the size of a block.
const BLOCK_BITS: u8 = BLOCK.trailing_zeros() as u8;

/// Compatible feature: the first block has a checksum.
const CHECKSUM: u32 = 1;
/// Incompatible features: a rule for compressed files, which has no meaning without them, and files in chunks.
const ZERO_PADDING: u32 = 1;
const CHUNKS: u32 = 4;
const SUPPORTED: u32 = ZERO_PADDING | CHUNKS;

/// What the superblock says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Superblock {
    /// nid of the root directory.
    pub(super) root: u64,
    /// Byte offset of nid 0.
    inodes: u64,
    /// Byte offset of the shared extended attributes.
    pub(super) shared_xattrs: u64,
    /// Number of blocks.
    pub(super) blocks: u64,
    /// Times of files that have none of their own.
    pub(super) time: (i64, u32),
}

/// Unsigned integers of the format, little endian, by offset.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(Err(Errno::EUCLEAN), |b| Ok(u16::from_le_bytes(*b)))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(Err(Errno::EUCLEAN), |b| Ok(u32::from_le_bytes(*b)))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(Err(Errno::EUCLEAN), |b| Ok(u64::from_le_bytes(*b)))
}

impl Superblock {
    /// Reads and checks it; the errors of [`super::Image::open`].
    pub(super) fn read(source: &dyn Source) -> Result<Self> {
        if source.size() < OFFSET + SIZE as u64 {
            return Err(Errno::EINVAL);
        }
        let page = source.page(0)?;
        let mut bytes = [0; SIZE];
        page.read(OFFSET as usize, &mut bytes);
        if u32_at(&bytes, 0)? != MAGIC {
            return Err(Errno::EINVAL);
        }
        let features = u32_at(&bytes, 80)?;
        if bytes[12] != BLOCK_BITS || features & !SUPPORTED != 0 || bytes[90] != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // Further devices, and the size of a longer superblock, which only newer formats have.
        if u16_at(&bytes, 86)? != 0 || bytes[13] > 16 {
            return Err(Errno::EOPNOTSUPP);
        }
        let blocks = u64::from(u32_at(&bytes, 36)?);
        if blocks == 0 || blocks * BLOCK > source.size().next_multiple_of(BLOCK) {
            return Err(Errno::EUCLEAN);
        }
        if u32_at(&bytes, 8)? & CHECKSUM != 0 {
            let mut sum = crc32c::Sum::default();
            let mut piece = [0; SIZE];
            for at in (OFFSET as usize..FRAME_SIZE).step_by(SIZE) {
                page.read(at, &mut piece);
                if at == OFFSET as usize {
                    // Computed with zeros in its own place.
                    piece[4..8].fill(0);
                }
                sum.add(&piece);
            }
            if sum.raw() != u32_at(&bytes, 4)? {
                return Err(Errno::EUCLEAN);
            }
        }
        Ok(Self {
            root: u64::from(u16_at(&bytes, 14)?),
            inodes: u64::from(u32_at(&bytes, 40)?) * BLOCK,
            shared_xattrs: u64::from(u32_at(&bytes, 44)?) * BLOCK,
            blocks,
            time: (u64_at(&bytes, 24)?.cast_signed(), u32_at(&bytes, 32)?.min(999_999_999)),
        })
    }

    /// Byte offset of an inode.
    pub(super) fn inode(&self, nid: u64) -> Result<u64> {
        nid.checked_mul(SLOT).and_then(|at| at.checked_add(self.inodes)).ok_or(Errno::EUCLEAN)
    }

    /// Reads bytes at an offset of the image. EUCLEAN: beyond its end.
    pub(super) fn read_at(&self, source: &dyn Source, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::EUCLEAN)?;
        if end > self.blocks * BLOCK {
            return Err(Errno::EUCLEAN);
        }
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let in_page = (at % BLOCK) as usize;
            let n = rest.len().min(FRAME_SIZE - in_page);
            let (head, tail) = rest.split_at_mut(n);
            source.page(at / BLOCK)?.read(in_page, head);
            at += n as u64;
            rest = tail;
        }
        Ok(())
    }
}

//! EROFS on disk: numbers and the encoding of its structures (Linux: `fs/erofs/erofs_fs.h`).

/// Size of a block.
pub(crate) const BLOCK: u64 = 1 << BLOCK_BITS;
pub(crate) const BLOCK_BITS: u8 = 12;

/// Place and size of the superblock.
pub(crate) const SUPER: u64 = 1024;
pub(crate) const SUPER_SIZE: usize = 128;
pub(crate) const MAGIC: u32 = 0xe0f5_e1e2;

/// The superblock has a checksum; inodes have modification times.
pub(crate) const COMPAT: u32 = 1 | 2;
/// Files are made of chunks.
pub(crate) const CHUNKED: u32 = 4;

/// Unit of inode numbers: an inode's number is its offset in the metadata area in this unit.
pub(crate) const SLOT: u64 = 32;
pub(crate) const COMPACT: u64 = 32;
pub(crate) const EXTENDED: u64 = 64;

/// A directory's entry without its name.
pub(crate) const DIRENT: usize = 12;

/// Where an inode's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In blocks.
    Plain = 0,
    /// In blocks, and the rest behind the inode.
    Inline = 2,
    /// In chunks whose blocks are listed behind the inode.
    Chunks = 4,
}

/// A chunk that is a hole.
pub(crate) const HOLE: u32 = u32::MAX;

/// Types in directory entries.
pub(crate) mod file_type {
    pub const FILE: u8 = 1;
    pub const DIRECTORY: u8 = 2;
    pub const CHAR: u8 = 3;
    pub const BLOCK: u8 = 4;
    pub const FIFO: u8 = 5;
    pub const SOCKET: u8 = 6;
    pub const SYMLINK: u8 = 7;
}

/// CRC-32C without the final inversion, as the superblock has it.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 })
    })
}

/// A device number as inodes have it.
pub(crate) fn device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Fields of an inode.
pub(crate) struct RawInode {
    pub layout: Layout,
    pub extended: bool,
    /// Size of the attributes' table in units of four bytes, less two; zero without a table.
    pub xattr_count: u16,
    /// Type and permissions.
    pub mode: u16,
    pub links: u32,
    pub size: u64,
    /// First block, device number or format of chunks.
    pub union: u32,
    pub number: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: (i64, u32),
}

impl RawInode {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend((u16::from(self.extended) | (self.layout as u16) << 1).to_le_bytes());
        out.extend(self.xattr_count.to_le_bytes());
        out.extend(self.mode.to_le_bytes());
        if self.extended {
            out.extend([0; 2]);
            out.extend(self.size.to_le_bytes());
        } else {
            out.extend((self.links as u16).to_le_bytes());
            out.extend((self.size as u32).to_le_bytes());
            out.extend([0; 4]);
        }
        out.extend(self.union.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        if self.extended {
            out.extend(self.uid.to_le_bytes());
            out.extend(self.gid.to_le_bytes());
            out.extend(self.mtime.0.to_le_bytes());
            out.extend(self.mtime.1.to_le_bytes());
            out.extend(self.links.to_le_bytes());
            out.extend([0; 16]);
        } else {
            out.extend((self.uid as u16).to_le_bytes());
            out.extend((self.gid as u16).to_le_bytes());
            out.extend([0; 4]);
        }
    }
}

/// Fields of the superblock.
pub(crate) struct RawSuper {
    pub incompat: u32,
    pub root: u16,
    pub inodes: u64,
    pub time: (i64, u32),
    pub blocks: u32,
    pub metadata: u32,
    pub xattrs: u32,
    pub uuid: [u8; 16],
}

impl RawSuper {
    /// The superblock's place in its block, from [`SUPER`] to the end of the block, with the checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity((BLOCK - SUPER) as usize);
        out.extend(MAGIC.to_le_bytes());
        out.extend([0; 4]);
        out.extend(COMPAT.to_le_bytes());
        out.extend([BLOCK_BITS, 0]);
        out.extend(self.root.to_le_bytes());
        out.extend(self.inodes.to_le_bytes());
        out.extend(self.time.0.to_le_bytes());
        out.extend(self.time.1.to_le_bytes());
        out.extend(self.blocks.to_le_bytes());
        out.extend(self.metadata.to_le_bytes());
        out.extend(self.xattrs.to_le_bytes());
        out.extend(self.uuid);
        out.extend([0; 16]);
        out.extend(self.incompat.to_le_bytes());
        out.resize((BLOCK - SUPER) as usize, 0);
        let checksum = crc32c(!0, &out);
        out[4..8].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{crc32c, device};

    #[test]
    fn checksum_of_known_text() {
        // The check value of CRC-32C, which has a final inversion.
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn device_numbers() {
        assert_eq!(device(1, 3), 0x103);
        assert_eq!(device(0xfff, 0xf_ffff), 0xffff_ffff);
    }
}

//! Writing what [`super::layout`] placed.

use std::{fs::File, os::unix::fs::FileExt};

use sha2::{Digest, Sha256};

use super::{
    Options, Summary, directory,
    format::{self, BLOCK, CHUNKED, HOLE, Layout, RawInode, RawSuper, SUPER},
    layout::{Item, Layouts},
};
use crate::{
    error::Error,
    spool::{Chunks, Place},
    tree::{Body, Id, ROOT, Tree},
};

/// Bytes of metadata that are gathered before a write.
const BUFFER: usize = 1 << 20;

/// Writes the metadata area in order and hashes it.
struct Writer<'a> {
    image: &'a File,
    start: u64,
    buffer: Vec<u8>,
    hash: Option<Sha256>,
}

impl Writer<'_> {
    fn flush(&mut self) -> Result<(), Error> {
        self.image.write_all_at(&self.buffer, self.start).map_err(Error::Write)?;
        if let Some(hash) = &mut self.hash {
            hash.update(&self.buffer);
        }
        self.start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Zeros up to `offset` of the image.
    fn pad(&mut self, offset: u64) -> Result<(), Error> {
        let gap = offset - self.start - self.buffer.len() as u64;
        self.buffer.resize(self.buffer.len() + gap as usize, 0);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }
}

/// Writes metadata, then the superblock, to `image`.
pub(super) fn write(tree: &Tree, image: &File, layouts: &Layouts, options: &Options<'_>) -> Result<Summary, Error> {
    let base = u64::from(layouts.metadata) * BLOCK;
    let end = u64::from(layouts.end) * BLOCK;
    image.set_len(end).map_err(Error::Write)?;
    image.write_all_at(&layouts.shared.area, u64::from(layouts.xattrs) * BLOCK).map_err(Error::Write)?;
    let hash = options.identity.is_none().then(Sha256::new);
    let mut writer = Writer { image, start: base, buffer: Vec::with_capacity(2 * BUFFER), hash };
    for &(offset, id) in &layouts.order {
        writer.pad(base + offset)?;
        inode(tree, layouts, id, &mut writer)?;
    }
    writer.pad(end)?;
    writer.flush()?;
    let digest = match (options.identity, writer.hash) {
        (Some(identity), _) => Sha256::digest(identity),
        (None, hash) => hash.unwrap_or_default().finalize(),
    };
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&digest[..16]);
    // A UUID of version 8: derived by a rule of the application.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    let superblock = RawSuper {
        incompat: if layouts.has_chunks { CHUNKED } else { 0 },
        // The root is placed first.
        root: layouts.items[ROOT as usize].nid() as u16,
        inodes: layouts.order.len() as u64,
        time: layouts.time,
        blocks: layouts.end,
        metadata: layouts.metadata,
        xattrs: if layouts.shared.area.is_empty() { 0 } else { layouts.xattrs },
        uuid,
    };
    image.write_all_at(&superblock.encode(), SUPER).map_err(Error::Write)?;
    let first = tree.spool.image()?.1;
    let metadata = end - u64::from(first) * BLOCK;
    Ok(Summary { bytes: end, inodes: layouts.order.len() as u64, metadata, uuid })
}

/// Writes one inode, its attributes, its inline data, and blocks of a directory or symbolic link.
fn inode(tree: &Tree, layouts: &Layouts, id: Id, writer: &mut Writer<'_>) -> Result<(), Error> {
    let item = layouts.items[id as usize];
    let inode = tree.inode(id);
    let (kind, union) = match &inode.body {
        Body::Directory(_) => (0o040_000, item.block),
        Body::Symlink(_) => (0o120_000, item.block),
        Body::File { size, place: Place::Flat { block, tail } } => {
            let blocks = crate::spool::flat_blocks(*size, tail.is_some());
            (0o100_000, if blocks == 0 { u32::MAX } else { *block })
        }
        Body::File { place: Place::Chunks(chunks), .. } => (0o100_000, u32::from(chunks.bits)),
        Body::Char(major, minor) => (0o020_000, format::device(*major, *minor)),
        Body::Block(major, minor) => (0o060_000, format::device(*major, *minor)),
        Body::Fifo => (0o010_000, 0),
        Body::Socket => (0o140_000, 0),
    };
    let table = layouts.shared.table_size(&inode.meta.xattrs);
    let raw = RawInode {
        layout: item.layout,
        extended: item.extended,
        // The header of the table counts as one unit.
        xattr_count: if table == 0 { 0 } else { (1 + (table - 12) / 4) as u16 },
        mode: kind | inode.meta.mode,
        links: item.links,
        size: item.size,
        union,
        number: item.number,
        uid: inode.meta.uid,
        gid: inode.meta.gid,
        mtime: inode.meta.mtime,
    };
    raw.encode(&mut writer.buffer);
    // References count from the start of the shared area.
    layouts.shared.table(&inode.meta.xattrs, 0, &mut writer.buffer);
    match &inode.body {
        Body::Directory(directory) => {
            let names = directory::names(directory, id, item.parent);
            let content = directory::encode(&names, tree, |id| layouts.items[id as usize].nid());
            own_data(&item, &content, writer)
        }
        Body::Symlink(target) => own_data(&item, target, writer),
        Body::File { size, place: Place::Flat { tail: Some(at), .. } } => {
            let start = writer.buffer.len();
            writer.buffer.resize(start + (size % BLOCK) as usize, 0);
            tree.spool.read_tail(*at, &mut writer.buffer[start..])
        }
        Body::File { size, place: Place::Chunks(chunks) } => chunk_list(chunks, *size, writer),
        _ => Ok(()),
    }
}

/// Data of directories and symbolic links: blocks at the item's place, the rest behind the inode.
fn own_data(item: &Item, content: &[u8], writer: &mut Writer<'_>) -> Result<(), Error> {
    let whole = match item.layout {
        Layout::Inline => content.len() - content.len() % BLOCK as usize,
        _ => content.len(),
    };
    let (blocks, tail) = content.split_at(whole);
    writer.buffer.extend_from_slice(tail);
    if blocks.is_empty() {
        return Ok(());
    }
    if let Some(hash) = &mut writer.hash {
        hash.update(blocks);
    }
    writer.image.write_all_at(blocks, u64::from(item.block) * BLOCK).map_err(Error::Write)
}

/// The block of each chunk.
fn chunk_list(chunks: &Chunks, size: u64, writer: &mut Writer<'_>) -> Result<(), Error> {
    let mut next = 0;
    let holes = |writer: &mut Writer<'_>, from: u64, to: u64| {
        for _ in from..to {
            writer.buffer.extend(HOLE.to_le_bytes());
        }
    };
    for &(first, block, count) in &chunks.rows {
        holes(writer, next, first);
        for i in 0..count {
            writer.buffer.extend((block + (i << chunks.bits) as u32).to_le_bytes());
        }
        next = first + count;
    }
    holes(writer, next, size.div_ceil(BLOCK << chunks.bits));
    Ok(())
}

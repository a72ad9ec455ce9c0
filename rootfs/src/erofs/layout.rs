//! Where each inode and each directory block goes.

use std::collections::{BTreeMap, VecDeque};

use super::{
    directory,
    format::{BLOCK, COMPACT, EXTENDED, Layout, SLOT},
    xattr::{self, Shared},
};
use crate::{
    error::Error,
    spool::Place,
    tree::{Body, Id, Inode, ROOT, Tree},
};

/// Metadata blocks with room that are looked at for an inode: inodes of one directory stay near each other.
const OPEN: usize = 64;

/// Places of everything that the writer adds to the data of files.
pub(super) struct Layouts {
    /// Inodes in order of their place: offset in the metadata area and identity.
    pub order: Vec<(u64, Id)>,
    /// Of each inode, by identity.
    pub items: Vec<Item>,
    /// First blocks of the shared attributes and of the metadata, and the block after its end.
    pub xattrs: u32,
    pub metadata: u32,
    pub end: u32,
    /// Modification time that most inodes have; those need no field for it.
    pub time: (i64, u32),
    pub shared: Shared,
    pub has_chunks: bool,
}

/// Place and form of one inode.
#[derive(Clone, Copy)]
pub(super) struct Item {
    /// Offset of the inode in the metadata area.
    pub offset: u64,
    /// First block of its data, if the writer chose it (directories, long symbolic links).
    pub block: u32,
    /// Size of its data.
    pub size: u64,
    pub links: u32,
    /// Number in directory order, from 1.
    pub number: u32,
    /// Directory that has this one.
    pub parent: Id,
    pub layout: Layout,
    pub extended: bool,
}

const UNSEEN: Item =
    Item { offset: 0, block: 0, size: 0, links: 0, number: 0, parent: ROOT, layout: Layout::Plain, extended: false };

impl Item {
    /// The inode's number on disk.
    pub fn nid(&self) -> u64 {
        self.offset / SLOT
    }

    /// Size of the inode itself.
    pub fn head(&self) -> u64 {
        if self.extended { EXTENDED } else { COMPACT }
    }
}

/// Room in metadata blocks.
struct Room {
    /// Blocks with room: number and bytes in use.
    open: VecDeque<(u64, u64)>,
    next: u64,
}

impl Room {
    /// A place for `len` bytes: inside one block if they fit in one, else from the start of a block.
    fn take(&mut self, len: u64) -> u64 {
        let best = self.open.iter().enumerate().filter(|(_, (_, used))| used + len <= BLOCK).max_by_key(|(_, b)| b.1);
        if let Some((at, _)) = best {
            let (block, used) = self.open[at];
            self.open[at].1 = (used + len).next_multiple_of(SLOT);
            return block * BLOCK + used;
        }
        let block = self.next;
        self.next += len.div_ceil(BLOCK);
        let used = len - (self.next - 1 - block) * BLOCK;
        self.open.push_back((self.next - 1, used.next_multiple_of(SLOT)));
        if self.open.len() > OPEN {
            self.open.pop_front();
        }
        block * BLOCK
    }
}

impl Layouts {
    /// Lays out `tree`; `first` is the first block after the data of files.
    pub fn of(tree: &Tree, first: u32) -> Result<Layouts, Error> {
        let shared = Shared::of(tree);
        let time = usual_time(tree);
        let mut items = vec![UNSEEN; tree.inodes.len()];
        let mut order = Vec::new();
        let mut blocks = u64::from(first);
        let mut has_chunks = false;
        // Number 0 stands for "no inode" in many programs.
        let mut room = Room { open: VecDeque::from([(0, SLOT)]), next: 1 };
        let mut place = |id: Id, items: &mut Vec<Item>| {
            let inode = tree.inode(id);
            let mut item = items[id as usize];
            item.number = order.len() as u32 + 1;
            let table = shared.table_size(&inode.meta.xattrs);
            item.size = match &inode.body {
                Body::Directory(dir) => directory::size(&directory::names(dir, id, item.parent)),
                Body::File { size, .. } => *size,
                Body::Symlink(target) => target.len() as u64,
                _ => 0,
            };
            item.links = match &inode.body {
                Body::Directory(dir) => {
                    2 + dir.names.values().filter(|slot| tree.directory(slot.id).is_some()).count() as u32
                }
                _ => inode.links,
            };
            item.extended = needs_extended(inode, &item, time);
            let head = item.head() + table;
            let tail = item.size % BLOCK;
            let mut len = head;
            match &inode.body {
                Body::Directory(_) | Body::Symlink(_) => {
                    if tail != 0 && head + tail <= BLOCK {
                        item.layout = Layout::Inline;
                        len += tail;
                    }
                    let whole =
                        if item.layout == Layout::Inline { item.size / BLOCK } else { item.size.div_ceil(BLOCK) };
                    item.block = if whole == 0 { u32::MAX } else { blocks as u32 };
                    blocks += whole;
                }
                Body::File { place: Place::Flat { tail: Some(_), .. }, .. } => {
                    item.layout = Layout::Inline;
                    len += tail;
                }
                Body::File { size, place: Place::Chunks(chunks) } => {
                    has_chunks = true;
                    item.layout = Layout::Chunks;
                    len += 4 * size.div_ceil(BLOCK << chunks.bits);
                }
                _ => {}
            }
            item.offset = room.take(len);
            order.push((item.offset, id));
            items[id as usize] = item;
        };
        // Directory by directory, so that a directory's inodes are neighbours.
        place(ROOT, &mut items);
        let mut todo = VecDeque::from([ROOT]);
        while let Some(id) = todo.pop_front() {
            let Some(directory) = tree.directory(id) else { continue };
            for slot in directory.names.values() {
                let item = &mut items[slot.id as usize];
                if item.number != 0 {
                    continue;
                }
                item.parent = id;
                if tree.directory(slot.id).is_some() {
                    todo.push_back(slot.id);
                }
                place(slot.id, &mut items);
            }
        }
        order.sort_unstable();
        let metadata = blocks + (shared.area.len() as u64).div_ceil(BLOCK);
        let mut end = metadata + room.next;
        // `fsck.erofs` 1.5 reads the header of an attributes' table behind each inode, also where there is none.
        let behind_last = order.last().map_or(0, |&(offset, id)| offset + items[id as usize].head());
        if behind_last + xattr::HEADER as u64 > room.next * BLOCK {
            end += 1;
        }
        if end > u64::from(u32::MAX) {
            return Err(Error::TooLarge("more than 16 TiB"));
        }
        Ok(Layouts {
            order,
            items,
            xattrs: blocks as u32,
            metadata: metadata as u32,
            end: end as u32,
            time,
            shared,
            has_chunks,
        })
    }
}

/// Compact inodes have short fields and the volume's time.
fn needs_extended(inode: &Inode, item: &Item, time: (i64, u32)) -> bool {
    let short = |value: u32| value <= u32::from(u16::MAX);
    inode.meta.mtime != time
        || item.size > u64::from(u32::MAX)
        || !short(inode.meta.uid)
        || !short(inode.meta.gid)
        || !short(item.links)
}

/// The modification time that most inodes have, the earliest of several.
fn usual_time(tree: &Tree) -> (i64, u32) {
    let mut counts: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    for inode in tree.inodes.iter().flatten() {
        *counts.entry(inode.meta.mtime).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|&(_, count)| count).map_or((0, 0), |(time, _)| time)
}

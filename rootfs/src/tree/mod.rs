//! The tree of a root file system in memory: inodes with identity, directories with sorted names.

mod read;
mod walk;

pub(crate) use walk::{Last, Missing};

use std::{collections::BTreeMap, fs::File};

use crate::{
    Limits,
    error::{Fault, Limit},
    spool::{Place, Spool},
    xattr::Xattrs,
};

/// Number of an inode in [`Tree::inodes`].
pub(crate) type Id = u32;

/// The root directory.
pub(crate) const ROOT: Id = 0;

/// A root file system that is being put together. File data is not in memory: it is written to the image as it comes.
///
/// After an error the tree has a part of the layer; drop it and the image.
pub struct Tree {
    pub(crate) inodes: Vec<Option<Inode>>,
    free: Vec<Id>,
    pub(crate) spool: Spool,
    pub(crate) limits: Limits,
    /// Number of the layer that is being applied, from 1. Implied directories and the first root have 0.
    pub(crate) layer: u32,
    entries: u64,
    xattrs: u64,
}

/// Attributes of an inode.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    /// Permission bits, without the type.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds.
    pub mtime: (i64, u32),
    pub xattrs: Xattrs,
}

/// A file, directory or other object.
#[derive(Debug)]
pub(crate) struct Inode {
    pub meta: Meta,
    /// Names of it, unless it is a directory.
    pub links: u32,
    pub body: Body,
}

/// What an inode is, with its content.
#[derive(Debug)]
pub(crate) enum Body {
    Directory(Box<Directory>),
    File { size: u64, place: Place },
    Symlink(Box<[u8]>),
    Char(u32, u32),
    Block(u32, u32),
    Fifo,
    Socket,
}

#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub names: BTreeMap<Box<[u8]>, Slot>,
    /// Layer in which the names of lower layers were hidden last.
    cleared: u32,
}

/// A name's inode and the layer that set it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub id: Id,
    pub layer: u32,
}

impl Inode {
    fn directory(meta: Meta, cleared: u32) -> Inode {
        Inode { meta, links: 0, body: Body::Directory(Box::new(Directory { names: BTreeMap::new(), cleared })) }
    }
}

impl Tree {
    /// An empty tree: a root directory of mode 0755.
    ///
    /// `image` is an empty file, open for reading and writing, which becomes the image; `scratch` another one, which
    /// is not needed afterwards.
    pub fn new(image: File, scratch: File, limits: Limits) -> Tree {
        let root = Inode::directory(implied((0, 0)), 0);
        Tree {
            inodes: vec![Some(root)],
            free: Vec::new(),
            spool: Spool::new(image, scratch),
            limits,
            layer: 0,
            entries: 0,
            xattrs: 0,
        }
    }

    pub(crate) fn inode(&self, id: Id) -> &Inode {
        self.inodes[id as usize].as_ref().expect("names refer to inodes that exist")
    }

    pub(crate) fn inode_mut(&mut self, id: Id) -> &mut Inode {
        self.inodes[id as usize].as_mut().expect("names refer to inodes that exist")
    }

    /// The directory `id`, if it is one.
    pub(crate) fn directory(&self, id: Id) -> Option<&Directory> {
        match &self.inode(id).body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    fn names_mut(&mut self, id: Id) -> &mut Directory {
        match &mut self.inode_mut(id).body {
            Body::Directory(directory) => directory,
            _ => unreachable!("the caller has found a directory"),
        }
    }

    /// Counts the attributes of an entry.
    pub(crate) fn count_xattrs(&mut self, xattrs: &Xattrs) -> Result<(), Fault> {
        self.xattrs += crate::xattr::table_size(xattrs) as u64;
        let limit = self.limits.all_xattrs;
        if self.xattrs > limit { Err(Fault::Limit(Limit::AllXattrs(limit))) } else { Ok(()) }
    }

    /// Adds an inode without names.
    pub(crate) fn create(&mut self, inode: Inode) -> Id {
        match self.free.pop() {
            Some(id) => {
                self.inodes[id as usize] = Some(inode);
                id
            }
            None => {
                // The limit of entries is far below 2^32.
                self.inodes.push(Some(inode));
                (self.inodes.len() - 1) as Id
            }
        }
    }

    /// Adds a directory without names in this layer.
    pub(crate) fn create_directory(&mut self, meta: Meta) -> Id {
        let layer = self.layer;
        self.create(Inode::directory(meta, layer))
    }

    /// Gives `id` the name `name` in `parent`; what had the name loses it.
    pub(crate) fn link(&mut self, parent: Id, name: &[u8], id: Id) -> Result<(), Fault> {
        let layer = self.layer;
        self.inode_mut(id).links += 1;
        let old = self.names_mut(parent).names.insert(name.into(), Slot { id, layer });
        if let Some(old) = old {
            self.entries -= 1;
            self.release(old.id);
        }
        self.entries += 1;
        let limit = self.limits.entries;
        if self.entries > limit { Err(Fault::Limit(Limit::Entries(limit))) } else { Ok(()) }
    }

    /// Takes a name away.
    pub(crate) fn unlink(&mut self, parent: Id, name: &[u8]) {
        if let Some(slot) = self.names_mut(parent).names.remove(name) {
            self.entries -= 1;
            self.release(slot.id);
        }
    }

    /// Notes that the present layer has this name.
    pub(crate) fn touch(&mut self, parent: Id, name: &[u8]) {
        let layer = self.layer;
        if let Some(slot) = self.names_mut(parent).names.get_mut(name) {
            slot.layer = layer;
        }
    }

    /// One name of `id` is gone: without another one, the inode and all below it go too.
    pub(crate) fn release(&mut self, id: Id) {
        let mut gone = vec![id];
        while let Some(id) = gone.pop() {
            let inode = self.inode_mut(id);
            inode.links -= 1;
            if inode.links > 0 {
                continue;
            }
            let inode = self.inodes[id as usize].take().expect("it was just there");
            self.free.push(id);
            self.xattrs -= crate::xattr::table_size(&inode.meta.xattrs) as u64;
            match inode.body {
                Body::Directory(directory) => {
                    self.entries -= directory.names.len() as u64;
                    gone.extend(directory.names.values().map(|slot| slot.id));
                }
                Body::File { size, place } => self.spool.discard(&place, size),
                _ => {}
            }
        }
    }

    /// Replaces a directory's attributes.
    pub(crate) fn set_meta(&mut self, id: Id, meta: Meta) {
        self.xattrs -= crate::xattr::table_size(&self.inode(id).meta.xattrs) as u64;
        self.inode_mut(id).meta = meta;
    }

    /// Hides what lower layers have in `directory` and below; names that this layer set stay.
    pub(crate) fn hide_lower(&mut self, directory: Id) {
        let layer = self.layer;
        let mut todo = vec![directory];
        while let Some(id) = todo.pop() {
            let directory = self.names_mut(id);
            if directory.cleared == layer {
                // Nothing of lower layers came back since.
                continue;
            }
            directory.cleared = layer;
            let (mut lower, mut upper) = (Vec::new(), Vec::new());
            directory.names.retain(|_, slot| {
                let keep = slot.layer == layer;
                if keep {
                    upper.push(slot.id)
                } else {
                    lower.push(slot.id)
                }
                keep
            });
            self.entries -= lower.len() as u64;
            for id in lower {
                self.release(id);
            }
            todo.extend(upper.into_iter().filter(|&id| self.directory(id).is_some()));
        }
    }
}

/// Attributes of a directory that no entry describes.
pub(crate) fn implied(mtime: (i64, u32)) -> Meta {
    Meta { mode: 0o755, uid: 0, gid: 0, mtime, xattrs: Box::default() }
}

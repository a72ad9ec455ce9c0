//! EROFS: the read-only file system of an image, read in place.
//!
//! An [`Image`] reads metadata and data from pages of a [`Source`], which is the image file of the host or, in tests,
//! memory. A [`File`] is one inode; there is one for each nid at a time, so hard links lead to the same one. Nothing is
//! believed without a check: a broken image causes EUCLEAN, EIO or EOPNOTSUPP. No function calls itself, and each loop
//! ends with the image or with a size that was compared with the image's.
//!
//! Files may be stored plain, with their tail behind the inode, or in chunks. Compressed files, further devices and
//! packed inodes are refused. The format: the EROFS documents of the Linux kernel.

mod content;
mod directory;
mod inode;
#[cfg(any(test, feature = "fuzzing"))]
mod memory;
mod superblock;
#[cfg(test)]
mod tests;
mod xattr;

use crate::node::Node;
use crate::{Attr, FileType, Name, PATH_MAX};
use alloc::collections::BTreeMap;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use hal::frame::{FRAME_SIZE, Frame};
use inode::{Data, RawInode};
#[cfg(any(test, feature = "fuzzing"))]
pub use memory::visit;
use superblock::Superblock;
use uapi::{Errno, Result};

/// Size of a block, which is that of a page.
const BLOCK: u64 = FRAME_SIZE as u64;
/// Bytes by which nids count.
const SLOT: u64 = 32;

/// Provides the pages of an image.
pub trait Source {
    /// Bytes of the image.
    fn size(&self) -> u64;
    /// A page with metadata. EIO: it can't be read; ENOMEM.
    fn page(&self, index: u64) -> Result<Frame>;
    /// Pages with content of a file of `size` bytes: at least one, at most `count`. `often`: its pages are mapped again
    /// and again.
    fn pages(&self, first: u64, count: u64, size: u64, often: bool) -> Result<Vec<Frame>>;
    /// One page with content, of which the caller will read `wanted`. `None`: no memory for it.
    fn content(&self, index: u64, wanted: u64) -> Result<Option<Frame>>;
    /// Copies of pages, at least one and at most `count`.
    fn copies(&self, first: u64, count: u64) -> Result<Vec<Frame>>;
    /// Whether pages that were given may read as zeros by now. After [`Self::drop_pages`] they are not given again.
    fn has_lost_pages(&self) -> bool {
        false
    }
    /// Drops all pages that were mapped, because some were lost.
    fn drop_pages(&self, _distrust: bool) {}
    /// Whether the image has become shorter than pages that were mapped.
    fn was_cut(&self) -> bool {
        false
    }
}

/// An image.
pub struct Image {
    source: Rc<dyn Source>,
    superblock: Superblock,
    dev: u64,
    /// A tree, because many files would need a big table in one piece.
    files: RefCell<BTreeMap<u64, Weak<File>>>,
    /// Holes of all files.
    zeros: OnceCell<Frame>,
}

impl core::fmt::Debug for Image {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Image").field("superblock", &self.superblock).finish_non_exhaustive()
    }
}

impl Image {
    /// Opens an image: its root directory. `dev`: its device number. EINVAL: no EROFS; EUCLEAN: damaged or cut;
    /// EOPNOTSUPP: it needs features that are not supported.
    pub fn open(source: Rc<dyn Source>, dev: u64) -> Result<Rc<File>> {
        let superblock = Superblock::read(&*source)?;
        let (files, zeros) = Default::default();
        let image = Rc::new(Self { source, superblock, dev, files, zeros });
        let root = image.file(superblock.root)?;
        if root.kind != FileType::Directory {
            return Err(Errno::EUCLEAN);
        }
        Ok(root)
    }

    /// Reads metadata at byte `offset` of the image.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.superblock.read_at(&*self.source, offset, bytes)?;
        if self.has_lost_pages() { self.superblock.read_at(&*self.source, offset, bytes) } else { Ok(()) }
    }

    /// Whether pages that were read may have been lost before: then they are to be read again.
    fn has_lost_pages(&self) -> bool {
        let has = self.source.has_lost_pages();
        if has {
            self.source.drop_pages(true);
        }
        has
    }

    /// The file of a nid, read if it is not known.
    fn file(self: &Rc<Self>, nid: u64) -> Result<Rc<File>> {
        let known = self.files.borrow().get(&nid).and_then(Weak::upgrade);
        if let Some(file) = known {
            return Ok(file);
        }
        crate::memory::check()?;
        let raw = RawInode::read(self, nid)?;
        // Reading may wait for the host; another thread may have read the inode meanwhile.
        let known = self.files.borrow().get(&nid).and_then(Weak::upgrade);
        if let Some(file) = known {
            return Ok(file);
        }
        let file = Rc::new(File {
            nid,
            kind: raw.kind,
            attr: raw.attr,
            data: raw.data,
            xattrs: raw.xattrs,
            target: OnceCell::new(),
            tail: RefCell::default(),
            lists: OnceCell::new(),
            asked: Cell::new(0),
            ahead: Cell::default(),
            overlay: RefCell::new(Weak::new()),
            image: self.clone(),
        });
        self.files.borrow_mut().insert(nid, Rc::downgrade(&file));
        Ok(file)
    }

    /// Pages of the image.
    fn blocks(&self) -> u64 {
        self.superblock.blocks
    }

    /// A page of zeros. It is given for reading only. ENOMEM.
    fn zeros(&self) -> Result<Frame> {
        if let Some(frame) = self.zeros.get() {
            return Ok(frame.clone());
        }
        let frame = Frame::alloc_zeroed().ok_or(Errno::ENOMEM)?;
        Ok(self.zeros.get_or_init(|| frame).clone())
    }
}

/// A file of an image.
pub struct File {
    image: Rc<Image>,
    nid: u64,
    kind: FileType,
    attr: Attr,
    data: Data,
    xattrs: xattr::Area,
    target: OnceCell<Name>,
    /// The last page, if it is stored behind the inode: made for mappings.
    tail: RefCell<Option<Frame>>,
    lists: OnceCell<xattr::Lists>,
    /// Pages that mappings asked for.
    asked: Cell<u64>,
    /// Page where the last read ended, and how many pages it asked for: readahead.
    ahead: Cell<(u64, u64)>,
    /// The overlay's node over this file, while it lives.
    pub(crate) overlay: RefCell<Weak<Node>>,
}

impl core::fmt::Debug for File {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "File({})", self.nid)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // No file is dropped during a borrow of the table; if one is, a dead weak pointer stays.
        if let Ok(mut files) = self.image.files.try_borrow_mut()
            && files.get(&self.nid).is_some_and(|file| file.strong_count() == 0)
        {
            files.remove(&self.nid);
        }
    }
}

impl File {
    /// Type.
    pub const fn kind(&self) -> FileType {
        self.kind
    }

    /// Attributes; they never change.
    pub const fn attr(&self) -> Attr {
        self.attr
    }

    /// Target of a symbolic link. EUCLEAN: it has none that Linux accepts.
    pub fn link_target(&self) -> Result<Name> {
        if self.kind != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = self.target.get() {
            return Ok(target.clone());
        }
        let len = usize::try_from(self.attr.size).ok().filter(|len| (1..PATH_MAX).contains(len));
        let mut buffer = [0; PATH_MAX];
        let text = buffer.get_mut(..len.ok_or(Errno::EUCLEAN)?).ok_or(Errno::EUCLEAN)?;
        self.read_piece(0, text)?;
        if text.contains(&0) {
            return Err(Errno::EUCLEAN);
        }
        Ok(self.target.get_or_init(|| Rc::from(&*text)).clone())
    }
}

//! Descriptions that only name a place, `O_PATH`.

use super::{Abilities, FileOps};
use alloc::rc::Rc;
use core::any::Any;
use uapi::Result;
use vfs::mount::Namespace;
use vfs::{Attr, Inode};

/// A description that only names a place (`O_PATH`).
pub struct PathFile {
    inode: Rc<dyn Inode>,
    _holder: Option<Rc<Namespace>>,
}

impl PathFile {
    /// For a place's inode.
    pub fn new(inode: Rc<dyn Inode>) -> Rc<Self> {
        Rc::new(Self { inode, _holder: None })
    }

    /// The same with what holds the mount of the place.
    pub fn holding(inode: Rc<dyn Inode>, holder: Rc<Namespace>) -> Rc<Self> {
        Rc::new(Self { inode, _holder: Some(holder) })
    }
}

impl FileOps for PathFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }

    fn attr(&self) -> Result<Attr> {
        self.inode.attr()
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.inode.clone())
    }
}

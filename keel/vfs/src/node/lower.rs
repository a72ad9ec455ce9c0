//! Files below a private layer: of a read-only export of the host, or of an image.

use super::Node;
use crate::acl::{self, Acl, Kind};
use crate::erofs::File;
use crate::host::HostNode;
use crate::pagemap::PageMap;
use crate::shown::{Shown, State};
use crate::{Attr, Dst, FileType, Listing, Name};
use alloc::rc::{Rc, Weak};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// A file below a private layer.
#[derive(Clone, Debug)]
pub enum Lower {
    /// Of the host: its attributes and names are believed for a while.
    Host(Rc<HostNode>),
    /// Of an image, which never changes.
    Image(Rc<File>),
}

impl From<Rc<HostNode>> for Lower {
    fn from(node: Rc<HostNode>) -> Self {
        Self::Host(node)
    }
}

impl From<Rc<File>> for Lower {
    fn from(file: Rc<File>) -> Self {
        Self::Image(file)
    }
}

impl Lower {
    /// The layer's node over it, while that lives.
    pub(super) fn overlay(&self) -> &RefCell<Weak<Node>> {
        match self {
            Self::Host(node) => &node.overlay,
            Self::Image(file) => &file.overlay,
        }
    }

    pub(super) fn kind(&self) -> FileType {
        match self {
            Self::Host(node) => node.kind(),
            Self::Image(file) => file.kind(),
        }
    }

    /// Attributes, however old.
    pub(super) fn attr_known(&self) -> Attr {
        match self {
            Self::Host(node) => node.attr_cached(),
            Self::Image(file) => file.attr(),
        }
    }

    pub(super) fn fresh_attr(&self) -> Result<Attr> {
        match self {
            Self::Host(node) => node.fresh_attr(),
            Self::Image(file) => Ok(file.attr()),
        }
    }

    /// Whether other processes of the host see what the pod writes.
    pub(super) fn is_writable(&self) -> bool {
        match self {
            Self::Host(node) => node.is_writable(),
            Self::Image(_) => false,
        }
    }

    /// Finds a name, and until when it holds.
    pub(super) fn find(&self, name: &[u8], ahead: &[u8]) -> Result<(Self, u64)> {
        match self {
            Self::Host(node) => node.find(name, ahead).map(|(found, expires)| (Self::Host(found), expires)),
            Self::Image(file) => file.find(name).map(|found| (Self::Image(found), u64::MAX)),
        }
    }

    pub(super) fn list(&self) -> Result<Listing> {
        match self {
            Self::Host(node) => node.list(),
            Self::Image(file) => file.list(),
        }
    }

    pub(super) fn link_target(&self) -> Result<Name> {
        match self {
            Self::Host(node) => node.link_target(),
            Self::Image(file) => file.link_target(),
        }
    }

    pub(super) fn read_content(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        match self {
            Self::Host(node) => node.read_content(offset, dst),
            Self::Image(file) => file.read_content(offset, dst),
        }
    }

    /// Pages for mappings that do not change them.
    pub(super) fn content_pages(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        match self {
            Self::Host(node) => node.content_pages(first, count, false),
            Self::Image(file) => file.content_pages(first, count),
        }
    }

    pub(super) fn content_copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        match self {
            Self::Host(node) => node.content_copies(first, count),
            Self::Image(file) => file.content_copies(first, count),
        }
    }

    pub(super) fn seek_content(&self, offset: u64, hole: bool) -> Result<u64> {
        match self {
            Self::Host(node) => node.seek_content(offset, hole),
            Self::Image(file) => file.seek_content(offset, hole),
        }
    }

    pub(super) fn cut_content(&self) -> Option<u64> {
        match self {
            Self::Host(node) => node.cut_content(),
            Self::Image(file) => file.cut_content(),
        }
    }

    pub(super) fn drop_window(&self, distrust: bool) {
        match self {
            Self::Host(node) => crate::Inode::drop_window(&**node, distrust),
            Self::Image(file) => file.drop_window(distrust),
        }
    }

    /// Where a node over it is shown: a change of either withdraws it.
    pub(super) fn shown_here(&self) -> Arc<Shown> {
        match self {
            Self::Host(node) => node.shown_here(),
            Self::Image(_) => Arc::default(),
        }
    }

    /// See [`crate::Inode::show`].
    pub(super) fn known_state(&self) -> Option<State> {
        match self {
            Self::Host(node) => node.known_state(),
            Self::Image(file) => {
                Some(State { attr: file.attr(), expires: u64::MAX, is_settled: true, has_holes: false })
            }
        }
    }

    /// Attributes, if they are known without asking the host, and until when they are believed.
    pub(super) fn known_attributes(&self) -> Option<(Attr, u64)> {
        match self {
            Self::Host(node) => node.known_attributes(),
            Self::Image(file) => Some((file.attr(), u64::MAX)),
        }
    }

    /// See [`crate::Inode::permissions_expire`].
    pub(super) fn permissions_expire(&self) -> u64 {
        match self {
            Self::Host(node) => crate::Inode::permissions_expire(&**node),
            Self::Image(_) => u64::MAX,
        }
    }

    /// Shows a state with the pages that were read. Those of an image belong to the image's file, which does not know who
    /// shows them.
    pub(super) fn show_content(&self, shown: &Shown, state: &State, offset: u64, len: usize) {
        match self {
            Self::Host(node) => node.show_content(shown, state, offset, len),
            Self::Image(_) => shown.show(state, 0, 0, |_| None),
        }
    }

    /// A private copy of the content, for the first write.
    pub(super) fn copy_up(&self, size: u64) -> Result<PageMap> {
        match self {
            Self::Host(node) => node.copy_up(size),
            Self::Image(file) => file.copy_up(size),
        }
    }

    /// The layer has a copy of its own.
    pub(super) fn drop_content(&self) {
        if let Self::Host(node) = self {
            node.drop_content();
        }
    }

    pub(super) fn acl(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        match self {
            Self::Host(node) => acl::consult(&**node, kind),
            Self::Image(file) => file.acl(kind),
        }
    }

    /// Value of an extended attribute. Those of the host's files are not shown. ENODATA.
    pub(super) fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Host(_) => Err(Errno::ENODATA),
            Self::Image(file) => file.get_xattr(name),
        }
    }

    /// Names of extended attributes but access control lists.
    pub(super) fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Host(_) => Ok(Vec::new()),
            Self::Image(file) => file.xattr_names(),
        }
    }

    /// All of them with their values.
    pub(super) fn xattrs(&self) -> Result<Vec<(Name, Vec<u8>)>> {
        let names = self.xattr_names()?;
        let mut values = Vec::new();
        for name in names {
            let value = self.xattr(&name)?;
            crate::memory::push(&mut values, (Rc::from(&name[..]), value))?;
        }
        Ok(values)
    }
}

//! Mounts in a directory of a writable export: other exports of the pod.

use super::HostNode;
use crate::{FileType, Found, Inode, Listing, Name};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::RefCell;
use uapi::{Errno, Result};

/// By name: what another file system is mounted on. The host may also have the name.
pub(super) type Mounted = RefCell<BTreeMap<Name, Rc<dyn Inode>>>;

impl HostNode {
    /// Shows a private directory or file at a name, to mount something on, and hides the host's file. ENOTDIR.
    pub fn cover_with(&self, name: &[u8], inode: &Rc<dyn Inode>) -> Result<()> {
        if self.kind() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mounted = self.mounted.get_or_init(Box::default);
        let old = mounted.borrow_mut().insert(Rc::from(name), inode.clone());
        drop(old);
        Ok(())
    }

    /// What covers a name.
    pub(super) fn mounted_at(&self, name: &[u8]) -> Option<Found> {
        let mounted = self.mounted.get()?.borrow();
        mounted.get(name).map(|inode| Found { inode: inode.clone(), expires: u64::MAX })
    }

    /// EBUSY if something is attached under a name.
    pub(super) fn check_not_mounted(&self, name: &[u8]) -> Result<()> {
        if self.mounted_at(name).is_some() { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// Adds mount points that the host does not have.
    pub(super) fn list_mounted(&self, listing: &mut Listing) -> Result<()> {
        let Some(mounted) = self.mounted.get() else { return Ok(()) };
        for (name, inode) in mounted.borrow().iter() {
            if !listing.iter().any(|entry| *entry.name == **name) {
                listing.push(name, 1, inode.file_type())?;
            }
        }
        Ok(())
    }
}

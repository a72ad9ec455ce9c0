//! Mounts in a directory of a writable export: other exports of the pod.

use super::HostNode;
use crate::{FileType, Found, Inode, Listing, Mount, Name};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::RefCell;
use uapi::{Errno, Result};

/// By name: the root of the mounted file system, and its mount. The host may also have the name.
pub(super) type Mounted = RefCell<BTreeMap<Name, (Rc<dyn Inode>, Rc<Mount>)>>;

impl HostNode {
    /// Mounts another file system, or a file of one, at a name, and hides the host's file. ENOTDIR.
    pub fn attach(&self, name: &[u8], inode: &Rc<dyn Inode>, mount: &Rc<Mount>) -> Result<()> {
        if self.kind() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let mounted = self.mounted.get_or_init(Box::default);
        let old = mounted.borrow_mut().insert(Rc::from(name), (inode.clone(), mount.clone()));
        drop(old);
        Ok(())
    }

    /// The mount at a name.
    pub(super) fn mounted_at(&self, name: &[u8]) -> Option<Found> {
        let mounted = self.mounted.get()?.borrow();
        let (inode, mount) = mounted.get(name)?;
        Some(Found { inode: inode.clone(), expires: u64::MAX, mount: Some(mount.clone()) })
    }

    /// EBUSY if something is attached under a name.
    pub(super) fn check_not_mounted(&self, name: &[u8]) -> Result<()> {
        if self.mounted_at(name).is_some() { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// Adds mount points that the host does not have.
    pub(super) fn list_mounted(&self, listing: &mut Listing) -> Result<()> {
        let Some(mounted) = self.mounted.get() else { return Ok(()) };
        for (name, (inode, _)) in mounted.borrow().iter() {
            if !listing.iter().any(|entry| *entry.name == **name) {
                listing.push(name, 1, inode.file_type())?;
            }
        }
        Ok(())
    }
}

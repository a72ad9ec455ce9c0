//! Private files as inodes.

use super::lower::Lower;
use super::{Body, F_SEAL_EXEC, Node, OWN_ATTR};
use crate::acl::{Acl, Kind};
use crate::attr::now;
use crate::host::HostNode;
use crate::inode::Attachments;
use crate::shown::Shown;
use crate::{Attr, Change, Dst, FileType, Found, Inode, Listing, Name, NewNode, SetTime, Src};
use abi::request::FsStat;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// Magic numbers of statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

impl Inode for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        if !self.owns(OWN_ATTR)
            && let Some(lower) = &self.lower
        {
            return lower.fresh_attr();
        }
        let mut attr = self.attr.get();
        match &self.body {
            Body::File(pages) => match self.lower_data() {
                Some(lower) => {
                    let below = lower.fresh_attr()?;
                    (attr.size, attr.blocks) = (below.size, below.blocks);
                }
                None => attr.blocks = pages.len() as u64 * 8,
            },
            Body::Directory(entries) if self.lower.is_none() => attr.size = entries.size(),
            _ => {}
        }
        Ok(attr)
    }

    fn perm(&self) -> Result<(u32, u32, u32)> {
        let attr = match &self.lower {
            Some(lower) if !self.owns(OWN_ATTR) => lower.fresh_attr()?,
            _ => self.attr.get(),
        };
        Ok((attr.mode, attr.uid, attr.gid))
    }

    fn file_type(&self) -> FileType {
        self.kind
    }

    fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.read_data(offset, dst)
    }

    fn write_at(&self, offset: u64, src: &mut dyn Src) -> Result<usize> {
        self.write_data(offset, src)
    }

    fn append(&self, src: &mut dyn Src) -> Result<(usize, u64)> {
        // The copy may have to be made first, which blocks; from then on the size is ours.
        self.own_data(false)?;
        let end = self.attr.get().size;
        let written = self.write_data(end, src)?;
        Ok((written, end + written as u64))
    }

    fn pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        self.map_pages(first, count, write)
    }

    fn is_host_content(&self) -> bool {
        self.lower_data().is_some_and(|lower| !lower.is_writable())
    }

    fn copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        self.lower_data().ok_or(Errno::ENODEV)?.content_copies(first, count)
    }

    fn was_cut(&self) -> Option<u64> {
        self.lower_data()?.cut_content()
    }

    fn drop_window(&self, distrust: bool) {
        if let Some(lower) = self.lower_data() {
            lower.drop_window(distrust);
        }
    }

    fn shown(&self) -> Option<Arc<Shown>> {
        Some(self.shown_here())
    }

    fn show(&self, offset: u64, len: usize) {
        self.show_file(offset, len);
    }

    fn show_attributes(&self) {
        self.show_own_attributes();
    }

    fn stamp_address(&self) -> Option<usize> {
        Some(core::ptr::from_ref(self).addr())
    }

    fn permissions_expire(&self) -> u64 {
        self.lower_attr().map_or(u64::MAX, Lower::permissions_expire)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.truncate_data(size)
    }

    fn check_readable(&self, _reads: bool, cut: bool) -> Result<()> {
        match self.lower_data() {
            // The first write copies what is there.
            Some(Lower::Host(node)) if !cut => node.check_host_readable(),
            _ => Ok(()),
        }
    }

    fn locked_outside(&self) -> Option<Rc<HostNode>> {
        // A copy is the pod's own.
        match self.lower_data()? {
            Lower::Host(node) if node.has_outside_locks() => Some(node.clone()),
            _ => None,
        }
    }

    fn attachments(&self) -> Option<&Attachments> {
        Some(&self.attachments)
    }

    fn lookup(&self, name: &[u8], ahead: &[u8]) -> Result<Found> {
        self.find(name, ahead)
    }

    fn create(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        self.create_entry(name, new)
    }

    fn create_unnamed(&self, new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        self.entries()?;
        self.fs.check_nodes()?;
        let node = self.fs.node_on(self.dev()?, new);
        node.unnamed.set(true);
        node.update(|a| a.nlink = 0);
        Ok(node)
    }

    fn link(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        self.link_entry(name, target)
    }

    fn unlink(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        self.remove_entry(name, target)
    }

    fn rename(&self, old: &[u8], to: &Rc<dyn Inode>, new: &[u8], flags: u32) -> Result<bool> {
        self.rename_entry(old, to, new, flags, None).map(|()| true)
    }

    fn rename_leaving(
        &self,
        old: &[u8],
        to: &Rc<dyn Inode>,
        new: &[u8],
        flags: u32,
        whiteout: &NewNode<'_>,
    ) -> Result<bool> {
        self.rename_entry(old, to, new, flags, Some(whiteout)).map(|()| true)
    }

    fn readlink(&self) -> Result<Name> {
        match (&self.body, &self.lower) {
            (Body::Link(target), _) => Ok(target.clone()),
            (_, Some(lower)) => lower.link_target(),
            _ => Err(Errno::EINVAL),
        }
    }

    fn readdir(&self) -> Result<Listing> {
        let entries = self.list()?;
        self.touch_atime();
        Ok(entries)
    }

    fn change(&self, change: &Change) -> Result<()> {
        self.own_attr()?;
        if let Some(mode) = change.mode
            && self.seals.get() & F_SEAL_EXEC != 0
            && (mode ^ self.attr.get().mode) & 0o111 != 0
        {
            return Err(Errno::EPERM);
        }
        if let Some(mode) = change.mode
            && let Some(acl) = self.list_of(Kind::Access)?
        {
            self.keep_list(Kind::Access, Some(Rc::new(acl.with_mode(mode)?)))?;
        }
        let current = now();
        let time = |set: SetTime| match set {
            SetTime::Now => current,
            SetTime::At(s, ns) => (s, ns),
        };
        self.update(|a| {
            if let Some(mode) = change.mode {
                a.mode = a.mode & !0o7777 | mode & 0o7777;
            }
            if let Some(uid) = change.uid {
                a.uid = uid;
            }
            if let Some(gid) = change.gid {
                a.gid = gid;
            }
            if let Some(set) = change.atime {
                (a.atime, a.atime_ns) = time(set);
            }
            if let Some(set) = change.mtime {
                (a.mtime, a.mtime_ns) = time(set);
            }
            (a.ctime, a.ctime_ns) = current;
        });
        Ok(())
    }

    fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.xattr(name)
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        self.put_xattr(name, value, flags)
    }

    fn list_xattrs(&self) -> Result<Vec<u8>> {
        self.xattr_names()
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        self.drop_xattr(name)
    }

    fn capability(&self) -> Option<Vec<u8>> {
        self.own_capability()
    }

    fn drop_capability(&self) {
        self.forget_capability();
    }

    fn has_acls(&self) -> bool {
        true
    }

    fn acl(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        self.list_of(kind)
    }

    fn put_acl(&self, kind: Kind, acl: Option<Rc<Acl>>, mode: u32) -> Result<()> {
        self.own_attr()?;
        if kind == Kind::Access {
            // Else the old list would follow the mode.
            self.keep_list(kind, None)?;
        }
        self.change(&Change { mode: Some(mode), ..Change::default() })?;
        self.keep_list(kind, acl)
    }

    fn adopt_acls(&self, access: Option<Rc<Acl>>, default: Option<Rc<Acl>>) -> Result<()> {
        self.keep_list(Kind::Access, access)?;
        self.keep_list(Kind::Default, default)
    }

    fn statfs(&self) -> Result<FsStat> {
        let (max, free) = (self.fs.space.0.max_pages.get() as u64, self.fs.space.free() as u64);
        let files = if self.fs.max_nodes.get() == u64::MAX { max } else { self.fs.max_nodes.get() };
        Ok(FsStat {
            kind: if self.fs.is_overlay { OVERLAYFS_MAGIC } else { TMPFS_MAGIC },
            bsize: 4096,
            blocks: max,
            bfree: free,
            bavail: free,
            files,
            ffree: files.saturating_sub(self.fs.nodes.get()),
            namelen: 255,
        })
    }

    fn fallocate(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        self.allocate(mode, offset, len)
    }

    fn seek_data(&self, offset: u64, hole: bool) -> Result<u64> {
        self.seek_pages(offset, hole)
    }
}

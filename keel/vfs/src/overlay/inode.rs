//! Files of overlays as inodes: what is read comes from the file that is shown, what changes goes to the upper layer.

use super::Merged;
use crate::acl::{Acl, Kind};
use crate::cred::MAY_READ;
use crate::host::End;
use crate::inode::Attachments;
use crate::{Attr, Change, Dst, FileType, Found, Inode, Listing, Name, NewNode, Src};
use abi::request::FsStat;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// `f_type` of statfs(2).
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

impl Inode for Merged {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attr(&self) -> Result<Attr> {
        let mut attr = self.shown_file()?.attr()?;
        attr.ino = self.ino;
        attr.dev = self.overlay().dev;
        let layers = self.lowers.len() + usize::from(self.upper().is_some());
        if self.kind == FileType::Directory && layers > 1 {
            // Nobody has counted the directories in it.
            attr.nlink = 1;
        }
        Ok(attr)
    }

    fn perm(&self) -> Result<(u32, u32, u32)> {
        self.shown_file()?.perm()
    }

    fn file_type(&self) -> FileType {
        self.kind
    }

    fn open(&self, write: bool) -> Result<Option<Rc<dyn Inode>>> {
        if write {
            self.risen_inode()?.open(true)
        } else {
            let file = self.shown_file()?;
            self.overlay().mounter.cred().check(&*file, MAY_READ)?;
            file.open(false)
        }
    }

    fn check_readable(&self, reads: bool, cut: bool) -> Result<()> {
        self.shown_file()?.check_readable(reads, cut)
    }

    fn read_at(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.shown_file()?.read_at(offset, dst)
    }

    fn read_cached(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        self.shown_file()?.read_cached(offset, dst)
    }

    fn write_at(&self, offset: u64, src: &mut dyn Src) -> Result<usize> {
        self.risen_inode()?.write_at(offset, src)
    }

    fn append(&self, src: &mut dyn Src) -> Result<(usize, u64)> {
        self.risen_inode()?.append(src)
    }

    fn append_later(&self, src: &mut dyn Src) -> Result<(usize, End)> {
        self.risen_inode()?.append_later(src)
    }

    fn pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        let file = if write { self.risen_inode()? } else { self.shown_file()? };
        file.pages(first, count, write)
    }

    fn shared_pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        let file = if write { self.risen_inode()? } else { self.shown_file()? };
        file.shared_pages(first, count, write)
    }

    fn is_host_content(&self) -> bool {
        self.shown_file().is_ok_and(|file| file.is_host_content())
    }

    fn copies(&self, first: u64, count: usize) -> Result<Vec<Frame>> {
        self.shown_file()?.copies(first, count)
    }

    fn was_cut(&self) -> Option<u64> {
        self.shown_file().ok()?.was_cut()
    }

    fn drop_window(&self, distrust: bool) {
        if let Ok(file) = self.shown_file() {
            file.drop_window(distrust);
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.risen_inode()?.truncate(size)
    }

    fn lookup(&self, name: &[u8], ahead: &[u8]) -> Result<Found> {
        self.find(name, ahead)
    }

    fn create(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        self.make(name, new)
    }

    fn create_unnamed(&self, new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        self.make_unnamed(new)
    }

    fn link(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        self.link_here(name, target)
    }

    fn unlink(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        self.remove(name, target)
    }

    fn rename(&self, old: &[u8], to: &Rc<dyn Inode>, new: &[u8], flags: u32) -> Result<bool> {
        self.shift(old, to, new, flags).map(|()| true)
    }

    fn readlink(&self) -> Result<Name> {
        self.shown_file()?.readlink()
    }

    fn readdir(&self) -> Result<Listing> {
        self.list()
    }

    fn change(&self, change: &Change) -> Result<()> {
        self.risen_inode()?.change(change)
    }

    fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let inward = self.overlay().inward(name)?;
        self.shown_file()?.get_xattr(inward.as_deref().unwrap_or(name))
    }

    fn set_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        let inward = self.overlay().inward(name)?;
        self.risen_inode()?.set_xattr(inward.as_deref().unwrap_or(name), value, flags)
    }

    fn list_xattrs(&self) -> Result<Vec<u8>> {
        self.overlay().outward(&self.shown_file()?.list_xattrs()?)
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        let inward = self.overlay().inward(name)?;
        let name = inward.as_deref().unwrap_or(name);
        // What is not there is no reason for a copy.
        self.shown_file()?.get_xattr(name)?;
        self.risen_inode()?.remove_xattr(name)
    }

    fn capability(&self) -> Option<Vec<u8>> {
        self.shown_file().ok()?.capability()
    }

    fn drop_capability(&self) {
        if let Some(upper) = self.upper() {
            upper.inode().drop_capability();
        }
    }

    fn has_acls(&self) -> bool {
        self.shown_file().is_ok_and(|file| file.has_acls())
    }

    fn acl(&self, kind: Kind) -> Result<Option<Rc<Acl>>> {
        self.shown_file()?.acl(kind)
    }

    fn put_acl(&self, kind: Kind, acl: Option<Rc<Acl>>, mode: u32) -> Result<()> {
        self.risen_inode()?.put_acl(kind, acl, mode)
    }

    fn adopt_acls(&self, access: Option<Rc<Acl>>, default: Option<Rc<Acl>>) -> Result<()> {
        self.risen_inode()?.adopt_acls(access, default)
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { kind: OVERLAYFS_MAGIC, ..self.shown_file()?.statfs()? })
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.upper().map_or(Ok(()), |upper| upper.inode().sync(data_only))
    }

    fn fallocate(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        self.risen_inode()?.fallocate(mode, offset, len)
    }

    fn seek_data(&self, offset: u64, hole: bool) -> Result<u64> {
        self.shown_file()?.seek_data(offset, hole)
    }

    fn attachments(&self) -> Option<&Attachments> {
        Some(&self.attachments)
    }
}

impl Merged {
    /// Made without a name, it never gets one (`O_TMPFILE | O_EXCL`). EINVAL: it is no such file.
    pub fn never_named(&self) -> Result<()> {
        let file = self.shown_file()?;
        let node = file.as_any().downcast_ref::<crate::node::Node>().ok_or(Errno::EINVAL)?;
        node.never_named();
        Ok(())
    }
}

//! Directories: private entries and whiteouts over the names of the host.

use super::{Body, Node, OWN_ATTR};
use crate::{FileType, Found, Inode, Listing, Name, NewNode};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::RefCell;
use uapi::{Errno, Result};

/// How often a change is tried again that another thread's came before.
const TRIES: usize = 8;

/// A private name.
enum Slot {
    /// It names a file.
    File { inode: Rc<dyn Inode> },
    /// It hides the host's name.
    Whiteout,
}

/// The private table of a directory.
#[derive(Default)]
pub(super) struct Entries {
    /// A tree, because a big directory would need a big table in one piece.
    slots: RefCell<BTreeMap<Name, Slot>>,
}

impl Entries {
    fn put(&self, name: Name, inode: Rc<dyn Inode>) {
        let old = self.slots.borrow_mut().insert(name, Slot::File { inode });
        drop(old);
    }

    fn hide(&self, name: Name) {
        let old = self.slots.borrow_mut().insert(name, Slot::Whiteout);
        drop(old);
    }

    fn remove(&self, name: &[u8]) {
        let old = self.slots.borrow_mut().remove(name);
        drop(old);
    }

    /// Enters a node that was found below, unless the name means something else by now.
    pub(super) fn pin(&self, name: Name, node: Rc<Node>) {
        if !self.slots.borrow().contains_key(&name) {
            self.put(name, node);
        }
    }

    /// Drops all entries, and the directories that had no other use, without recursion.
    pub(super) fn clear(&self) {
        // The directory that is being emptied. Its `origin` leads back to the one that it lay in; the first has none.
        let mut at: Option<Rc<Node>> = None;
        loop {
            let slots = match at.as_deref() {
                None => &self.slots,
                Some(Node { body: Body::Directory(entries), .. }) => &entries.slots,
                Some(_) => return,
            };
            let first = slots.borrow_mut().pop_first();
            match first {
                Some((name, Slot::File { inode })) => {
                    let Some(node) = as_node(&inode) else { continue };
                    drop(inode);
                    let is_full = matches!(&node.body, Body::Directory(entries) if !entries.slots.borrow().is_empty());
                    if is_full && Rc::strong_count(&node) == 1 {
                        let before = node.origin.replace(at.take().map(|above| (above, name)));
                        drop(before);
                        at = Some(node);
                    }
                }
                Some((_, Slot::Whiteout)) => {}
                None => {
                    let Some(empty) = at.take() else { return };
                    at = empty.origin.take().map(|(above, _)| above);
                }
            }
        }
    }

    /// Size that a directory shows: as tmpfs counts it, 20 bytes an entry.
    pub(super) fn size(&self) -> u64 {
        (self.slots.borrow().len() as u64 + 2) * 20
    }
}

fn as_node(inode: &Rc<dyn Inode>) -> Option<Rc<Node>> {
    let any: Rc<dyn Any> = inode.clone();
    any.downcast().ok()
}

impl Node {
    pub(super) fn entries(&self) -> Result<&Entries> {
        match &self.body {
            Body::Directory(entries) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Device number for what is made in it.
    pub(super) fn dev(&self) -> Result<u64> {
        match &self.lower {
            Some(lower) => Ok(lower.attr_known().dev),
            None => Ok(self.attr.get().dev),
        }
    }

    pub(super) fn find(&self, name: &[u8], ahead: &[u8]) -> Result<Found> {
        match self.entries()?.slots.borrow().get(name) {
            Some(Slot::File { inode }) => {
                return Ok(Found { inode: inode.clone(), expires: u64::MAX });
            }
            Some(Slot::Whiteout) => return Err(Errno::ENOENT),
            None => {}
        }
        let Some(lower) = &self.lower else { return Err(Errno::ENOENT) };
        let (below, expires) = lower.find(name, ahead)?;
        // The name may have been covered while the host was asked.
        match self.entries()?.slots.borrow().get(name) {
            Some(Slot::File { inode }) => {
                return Ok(Found { inode: inode.clone(), expires: u64::MAX });
            }
            Some(Slot::Whiteout) => return Err(Errno::ENOENT),
            None => {}
        }
        let node = Self::over(&self.fs, below, Some((self.rc()?, Rc::from(name))));
        Ok(Found { inode: node, expires })
    }

    /// Whether the host has the name (not asked if it is hidden already).
    fn is_below(&self, name: &[u8]) -> bool {
        match &self.lower {
            None => false,
            // When in doubt, hide it.
            Some(lower) => !matches!(lower.find(name, &[]), Err(Errno::ENOENT)),
        }
    }

    /// Whether the private table has a file of this name.
    fn has_own(&self, name: &[u8]) -> Result<bool> {
        Ok(matches!(self.entries()?.slots.borrow().get(name), Some(Slot::File { .. })))
    }

    /// Whether the name means `node` by what is known here, without asking the host again. ENOENT.
    fn check_means(&self, name: &[u8], node: &Rc<Self>) -> Result<()> {
        let means = match self.entries()?.slots.borrow().get(name) {
            Some(Slot::File { inode }) => core::ptr::addr_eq(Rc::as_ptr(inode), Rc::as_ptr(node)),
            Some(Slot::Whiteout) => false,
            None => node.lower.is_some(),
        };
        if means { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// Takes the name away: what the host has (`below`) is hidden.
    fn cover(&self, name: &[u8], below: bool) -> Result<()> {
        let entries = self.entries()?;
        if below {
            entries.hide(Rc::from(name));
        } else {
            entries.remove(name);
        }
        Ok(())
    }

    /// An entry came or went: times, and the link count for directories.
    fn changed(&self, directories: i32) -> Result<()> {
        self.own_attr()?;
        self.touch_mtime();
        self.update(|a| a.nlink = a.nlink.saturating_add_signed(directories));
        Ok(())
    }

    pub(super) fn create_entry(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        match self.find(name, &[]) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        self.fs.check_nodes()?;
        let node = self.fs.node_on(self.dev()?, new);
        self.own_attr()?;
        // From here on nothing waits, and meanwhile another thread may have made it.
        if self.has_own(name)? {
            return Err(Errno::EEXIST);
        }
        self.changed(i32::from(node.kind == FileType::Directory))?;
        self.entries()?.put(Rc::from(name), node.clone());
        Ok(node)
    }

    pub(super) fn link_entry(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        let node = as_node(target).filter(|n| Rc::ptr_eq(&n.fs, &self.fs)).ok_or(Errno::EXDEV)?;
        node.own_attr()?;
        if node.attr.get().nlink == 0 && !node.unnamed.get() {
            return Err(Errno::ENOENT);
        }
        if self.find(name, &[]).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.fs.check_memory()?;
        self.own_attr()?;
        // From here on nothing waits.
        if self.has_own(name)? {
            return Err(Errno::EEXIST);
        }
        if node.attr.get().nlink == 0 && !node.unnamed.get() {
            return Err(Errno::ENOENT);
        }
        self.changed(0)?;
        node.unnamed.set(false);
        node.update(|a| a.nlink += 1);
        node.touch_ctime();
        self.entries()?.put(Rc::from(name), target.clone());
        Ok(())
    }

    /// A name of it was removed.
    fn lost_name(&self) -> Result<()> {
        // It is about to lose its place: do not enter it there.
        let origin = self.origin.take();
        drop(origin);
        self.own_attr()?;
        if self.attr.get().nlink > 1 && self.lower.is_some() && self.kind != FileType::Directory {
            let this = self.rc()?;
            let known = self.fs.linked.borrow().iter().any(|n| Rc::ptr_eq(n, &this));
            if !known {
                self.fs.linked.borrow_mut().push(this);
            }
        }
        self.update(|a| a.nlink = if a.mode & 0o170000 == 0o040000 { 0 } else { a.nlink.saturating_sub(1) });
        self.touch_ctime();
        if self.attr.get().nlink == 0 && self.lower.is_some() {
            self.fs.linked.borrow_mut().retain(|n| !core::ptr::eq(Rc::as_ptr(n), self));
        }
        Ok(())
    }

    fn check_empty(inode: &Rc<dyn Inode>) -> Result<()> {
        let node = as_node(inode).ok_or(Errno::EBUSY)?;
        if node.kind == FileType::Directory && !node.list()?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        Ok(())
    }

    /// Whether a directory has no private entries. ENOTEMPTY.
    fn check_own_empty(node: &Self) -> Result<()> {
        let Body::Directory(entries) = &node.body else { return Ok(()) };
        let any = entries.slots.borrow().values().any(|slot| matches!(slot, Slot::File { .. }));
        if any { Err(Errno::ENOTEMPTY) } else { Ok(()) }
    }

    pub(super) fn remove_entry(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        let node = as_node(target).ok_or(Errno::EBUSY)?;
        self.own_attr()?;
        let below = self.is_below(name);
        Self::check_empty(target)?;
        node.take_attr()?;
        // From here on nothing waits, and meanwhile another thread may have removed it, or made something in it.
        let checked = self.check_means(name, &node).and_then(|()| Self::check_own_empty(&node));
        if checked.is_err() {
            node.pin()?;
            return checked;
        }
        self.cover(name, below)?;
        node.lost_name()?;
        self.changed(-i32::from(node.kind == FileType::Directory))
    }

    /// rename(2); `whiteout` is left behind.
    pub(super) fn rename_entry(
        &self,
        old: &[u8],
        to: &Rc<dyn Inode>,
        new: &[u8],
        flags: u32,
        whiteout: Option<&NewNode<'_>>,
    ) -> Result<()> {
        let to = as_node(to).filter(|n| Rc::ptr_eq(&n.fs, &self.fs)).ok_or(Errno::EXDEV)?;
        for _ in 0..TRIES {
            match self.try_rename(old, &to, new, flags, whiteout) {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
        }
        Err(Errno::EBUSY)
    }

    /// EAGAIN if another thread made `new` meanwhile.
    fn try_rename(
        &self,
        old: &[u8],
        to: &Rc<Self>,
        new: &[u8],
        flags: u32,
        whiteout: Option<&NewNode<'_>>,
    ) -> Result<()> {
        let exchange = flags & crate::ops::RENAME_EXCHANGE != 0;
        let moved = self.find(old, &[])?.inode;
        let moved_node = as_node(&moved).ok_or(Errno::EBUSY)?;
        let replaced = match to.find(new, &[]) {
            Ok(found) => Some(found.inode),
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(errno),
        };
        let same_dir = core::ptr::eq(Rc::as_ptr(to), self);
        let is_dir = |n: &Node| i32::from(n.kind == FileType::Directory);
        let moved_dir = is_dir(&moved_node);
        // From here on it belongs where it is put, not where it was found.
        let unplace = |node: &Node| {
            let origin = node.origin.take();
            drop(origin);
            node.own_attr()?;
            node.touch_ctime();
            Ok::<(), Errno>(())
        };
        // All that waits comes first.
        self.own_attr()?;
        to.own_attr()?;
        let left = match whiteout {
            Some(new) => {
                self.fs.check_nodes()?;
                Some(self.fs.node_on(self.dev()?, new))
            }
            None => None,
        };
        let below = !exchange && self.is_below(old);
        let replaced_node = replaced.as_ref().map(|inode| as_node(inode).ok_or(Errno::EBUSY)).transpose()?;
        if let Some(inode) = replaced.as_ref().filter(|_| !exchange) {
            Self::check_empty(inode)?;
        }
        for node in replaced_node.iter().chain([&moved_node]) {
            node.take_attr()?;
        }
        // From here on nothing waits, and meanwhile other threads may have changed either name.
        let checked = self.check_means(old, &moved_node).and_then(|()| match &replaced_node {
            Some(node) if exchange => to.check_means(new, node),
            Some(node) => to.check_means(new, node).and_then(|()| Self::check_own_empty(node)),
            None if !to.has_own(new)? => Ok(()),
            None if flags & crate::ops::RENAME_NOREPLACE != 0 => Err(Errno::EEXIST),
            None => Err(Errno::EAGAIN),
        });
        if checked.is_err() {
            for node in replaced_node.iter().chain([&moved_node]) {
                node.pin()?;
            }
            return checked;
        }
        if let Some(other) = replaced.as_ref().filter(|_| exchange) {
            let other_node = as_node(other).ok_or(Errno::EBUSY)?;
            unplace(&moved_node)?;
            unplace(&other_node)?;
            self.entries()?.put(Rc::from(old), other.clone());
            to.entries()?.put(Rc::from(new), moved);
            let shift = if same_dir { 0 } else { is_dir(&other_node) - moved_dir };
            self.changed(shift)?;
            return to.changed(-shift);
        }
        let mut replaced_dir = 0;
        if let Some(inode) = &replaced {
            let node = as_node(inode).ok_or(Errno::EBUSY)?;
            replaced_dir = is_dir(&node);
            node.lost_name()?;
        }
        unplace(&moved_node)?;
        match left {
            Some(left) => self.entries()?.put(Rc::from(old), left),
            None => self.cover(old, below)?,
        }
        to.entries()?.put(Rc::from(new), moved);
        if same_dir {
            return self.changed(-replaced_dir);
        }
        self.changed(-moved_dir)?;
        to.changed(moved_dir - replaced_dir)
    }

    pub(super) fn list(&self) -> Result<Listing> {
        let entries = self.entries()?;
        let below = match &self.lower {
            Some(lower) => lower.list()?,
            None => Listing::new(),
        };
        // Asked for their numbers later, as that may block.
        let mut foreign: Vec<(Name, Rc<dyn Inode>)> = Vec::new();
        let slots = entries.slots.borrow();
        let mut result = below;
        if !slots.is_empty() && !result.is_empty() {
            let below = core::mem::take(&mut result);
            for entry in below.iter().filter(|e| !slots.contains_key(e.name)) {
                result.push(entry.name, entry.ino, entry.kind)?;
            }
        }
        for (name, slot) in slots.iter() {
            let Slot::File { inode } = slot else { continue };
            match inode.as_any().downcast_ref::<Self>() {
                Some(node) => result.push(name, node.ino(), node.kind)?,
                None => foreign.push((name.clone(), inode.clone())),
            }
        }
        drop(slots);
        for (name, inode) in foreign {
            result.push(&name, inode.attr().map_or(1, |a| a.ino), inode.file_type())?;
        }
        Ok(result)
    }

    /// Makes a directory or an empty file to mount something on; what is below is hidden. One that the pod has made
    /// stays.
    pub fn cover_with(&self, name: &[u8], directory: bool) -> Result<Rc<dyn Inode>> {
        if let Some(Slot::File { inode }) = self.entries()?.slots.borrow().get(name)
            && (inode.file_type() == FileType::Directory) == directory
        {
            return Ok(inode.clone());
        }
        let mode = if directory { 0o040755 } else { 0o100644 };
        self.entries()?.remove(name);
        Ok(self.put_over(name, &NewNode::plain(mode, 0, 0))?)
    }

    /// Makes a file or directory in the place of what lies below, without a look at it. EEXIST: the pod has made one already.
    pub fn put_over(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<Self>> {
        if self.has_own(name)? {
            return Err(Errno::EEXIST);
        }
        let node = self.fs.node_on(self.dev()?, new);
        self.entries()?.put(Rc::from(name), node.clone());
        self.pin()?;
        if node.file_type() == FileType::Directory && self.owns(OWN_ATTR) {
            self.update(|a| a.nlink += 1);
        }
        Ok(node)
    }
}

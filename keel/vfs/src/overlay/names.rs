//! Changes of names in an overlay. Types and permissions were checked by the caller, see [`Inode`].

use super::Merged;
use super::marks::is_whiteout;
use crate::cred::{MAY_EXEC, MAY_WRITE};
use crate::{FileType, Inode, NewNode, PathRef, notify, ops};
use alloc::rc::Rc;
use uapi::{Errno, Result};

impl Merged {
    /// The directory in the upper layer, to change names there. EACCES: who mounted may not.
    fn risen_directory(&self) -> Result<PathRef> {
        let dir = self.risen()?;
        self.overlay().check(&dir, MAY_WRITE | MAY_EXEC)?;
        Ok(dir)
    }

    /// See [`Inode::create`].
    pub(super) fn make(&self, name: &[u8], new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        if self.trace(name, &[])?.exists() {
            return Err(Errno::EEXIST);
        }
        let dir = self.risen_directory()?;
        let is_directory = FileType::of(new.mode) == FileType::Directory;
        if dir.lookup(name, &[], false).is_ok() {
            // In the place of a whiteout. What that hid is not to be seen in a directory.
            self.overlay().make_over(&dir, name, new, is_directory)?;
        } else {
            let changes = dir.changes();
            let inode = dir.inode().create(name, new)?;
            notify::created(&dir, name, dir.adopt_new(name, inode, u64::MAX, changes).inode(), false);
        }
        Ok(self.node(name, self.trace(name, &[])?)?)
    }

    /// See [`Inode::create_unnamed`].
    pub(super) fn make_unnamed(&self, new: &NewNode<'_>) -> Result<Rc<dyn Inode>> {
        let dir = self.risen_directory()?;
        let inode = dir.inode().create_unnamed(new)?;
        let ino = self.overlay().number(inode.attr()?.dev, inode.attr()?.ino);
        let place = dir.unnamed_child(b"#", inode);
        let node = Self::new(self.overlay(), ino, FileType::Regular, None, alloc::vec::Vec::new(), None);
        node.rise(place);
        Ok(node)
    }

    /// See [`Inode::link`].
    pub(super) fn link_here(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        let node = Self::of(target, self.overlay())?;
        if self.trace(name, &[])?.exists() {
            return Err(Errno::EEXIST);
        }
        if node.is_gone.get() {
            return Err(Errno::ENOENT);
        }
        let file = node.risen_inode()?;
        let dir = self.risen_directory()?;
        if dir.lookup(name, &[], false).is_ok() {
            let link = |work: &PathRef, name: &[u8]| work.inode().link(name, &file).map(|()| file.clone());
            let linked = self.overlay().make_apart(link)?;
            return self.overlay().install(linked, &dir, name, false).map(drop);
        }
        let changes = dir.changes();
        dir.inode().link(name, &file)?;
        notify::created(&dir, name, dir.adopt_new(name, file, u64::MAX, changes).inode(), true);
        Ok(())
    }

    /// One of its names was removed.
    fn lost_name(&self) {
        let is_left = |upper: PathRef| upper.inode().attr().is_ok_and(|attr| attr.nlink > 0);
        self.is_gone.set(self.kind == FileType::Directory || !self.upper().is_some_and(is_left));
    }

    /// Makes the upper layer's part of a directory empty that is empty in the overlay: takes away its whiteouts. From then on
    /// it hides as a whole what they hid.
    fn clear(&self, upper: &PathRef) -> Result<()> {
        if upper.inode().file_type() != FileType::Directory {
            return Ok(());
        }
        let entries = upper.inode().readdir()?;
        if !entries.is_empty() {
            self.overlay().make_opaque(upper)?;
        }
        for entry in entries.iter() {
            let changes = upper.changes();
            let found = upper.lookup(entry.name, &[], false)?;
            if !is_whiteout(&**found.inode())? {
                return Err(Errno::ENOTEMPTY);
            }
            ops::remove(upper, entry.name, &found, changes)?;
        }
        Ok(())
    }

    /// ENOTEMPTY if it is a directory in which there is something.
    fn check_empty(&self) -> Result<()> {
        let is_full = self.kind == FileType::Directory && !self.list()?.is_empty();
        if is_full { Err(Errno::ENOTEMPTY) } else { Ok(()) }
    }

    /// See [`Inode::unlink`].
    pub(super) fn remove(&self, name: &[u8], target: &Rc<dyn Inode>) -> Result<()> {
        let victim = Self::of(target, self.overlay())?;
        victim.check_empty()?;
        let dir = self.risen_directory()?;
        let trace = self.trace(name, &[])?;
        let in_upper = trace.upper.clone();
        if !Rc::ptr_eq(&self.node(name, trace)?, &victim) {
            return Err(Errno::ENOENT);
        }
        let is_below = self.is_below(name)?;
        if let Some(upper) = &in_upper {
            victim.clear(upper)?;
        }
        match in_upper {
            Some(upper) if !is_below => ops::remove(&dir, name, &upper, dir.changes())?,
            _ => self.overlay().hide(&dir, name)?,
        }
        victim.lost_name();
        Ok(())
    }

    /// A directory with something from lower layers can't be moved: they have no other place for it.
    fn check_movable(&self) -> Result<()> {
        let is_bound = self.kind == FileType::Directory && !self.lowers.is_empty();
        if is_bound { Err(Errno::EXDEV) } else { Ok(()) }
    }

    /// Hides what lower layers have beneath a directory that moves there.
    fn cover(&self, is_below: bool) -> Result<()> {
        if is_below && self.kind == FileType::Directory {
            self.overlay().make_opaque(&self.risen()?)?;
        }
        Ok(())
    }

    /// See [`Inode::rename`].
    pub(super) fn shift(&self, old: &[u8], to: &Rc<dyn Inode>, new: &[u8], flags: u32) -> Result<()> {
        let overlay = self.overlay();
        let to = Self::of(to, overlay)?;
        let moved = self.node(old, self.trace(old, &[])?)?;
        let trace = to.trace(new, &[])?;
        let replaced = if trace.exists() { Some(to.node(new, trace)?) } else { None };
        let exchange = flags & ops::RENAME_EXCHANGE != 0;
        match &replaced {
            None if exchange => return Err(Errno::ENOENT),
            Some(_) if flags & ops::RENAME_NOREPLACE != 0 => return Err(Errno::EEXIST),
            _ => {}
        }
        moved.check_movable()?;
        let other = replaced.as_ref().filter(|_| exchange);
        other.map_or(Ok(()), |other| other.check_movable())?;
        let replaced = replaced.as_ref().filter(|_| !exchange);
        replaced.map_or(Ok(()), |replaced| replaced.check_empty())?;
        moved.risen()?;
        other.map_or(Ok(()), |other| other.risen().map(drop))?;
        let (from_dir, to_dir) = (self.risen_directory()?, to.risen_directory()?);
        let (is_old_below, is_new_below) = (self.is_below(old)?, to.is_below(new)?);
        moved.cover(is_new_below)?;
        other.map_or(Ok(()), |other| other.cover(is_old_below))?;
        if let Some(upper) = replaced.and_then(|replaced| Some((replaced, replaced.upper()?))) {
            upper.0.clear(&upper.1)?;
        }
        let changes = (from_dir.changes(), to_dir.changes());
        let moved_place = from_dir.lookup(old, &[], false)?;
        let there = match to_dir.lookup(new, &[], false) {
            Err(Errno::ENOENT) => None,
            found => Some(found?),
        };
        let (source, target) = ((&from_dir, old), (&to_dir, new));
        if exchange {
            let there = there.ok_or(Errno::ENOENT)?;
            from_dir.inode().rename(old, to_dir.inode(), new, ops::RENAME_EXCHANGE)?;
            let names = ((old, moved_place.dentry()), (new, there.dentry()));
            from_dir.dentry().exchanged(names.0, to_dir.dentry(), names.1, changes);
            notify::moved(source, target, &moved_place, None);
            notify::moved(target, source, &there, None);
            return Ok(());
        }
        from_dir.inode().rename(old, to_dir.inode(), new, 0)?;
        let gone = there.as_ref().map(PathRef::dentry);
        from_dir.dentry().moved(moved_place.dentry(), old, (to_dir.dentry(), new), gone, changes);
        notify::moved(source, target, &moved_place, there.as_ref());
        if let Some(replaced) = replaced {
            replaced.lost_name();
        }
        if is_old_below {
            overlay.hide(&from_dir, old)?;
        }
        Ok(())
    }
}

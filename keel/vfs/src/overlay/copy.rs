//! Files of lower layers become files of the upper one.

use super::{Merged, Overlay};
use crate::acl::Kind;
use crate::cred::{MAY_EXEC, MAY_READ, MAY_WRITE};
use crate::io::{KernelDst, KernelSrc};
use crate::memory::{buffer, chunk, push};
use crate::{Attr, Change, FileType, Inode, NewNode, PathRef, SetTime, Src};
use alloc::rc::Rc;
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Bytes that are copied at once.
const CHUNK: usize = 64 << 10;

/// The times of a file, to be set again.
fn times(attr: &Attr) -> Change {
    Change {
        atime: Some(SetTime::At(attr.atime, attr.atime_ns)),
        mtime: Some(SetTime::At(attr.mtime, attr.mtime_ns)),
        ..Change::default()
    }
}

fn copy_content(from: &dyn Inode, to: &dyn Inode, size: u64) -> Result<()> {
    let mut bytes = buffer(chunk(CHUNK).min(usize::try_from(size).unwrap_or(CHUNK)))?;
    let mut at = 0;
    while at < size {
        match from.seek_data(at, false) {
            Ok(data) => at = data,
            // The rest is a hole.
            Err(Errno::ENXIO) => break,
            // Where holes are is not known.
            Err(_) => {}
        }
        let read = from.read_at(at, &mut KernelDst(&mut bytes))?;
        let mut left = KernelSrc(&bytes[..read]);
        while left.remaining() > 0 {
            let done = (read - left.remaining()) as u64;
            if to.write_at(at + done, &mut left)? == 0 {
                return Err(Errno::EIO);
            }
        }
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    to.truncate(size)
}

impl Overlay {
    /// Copies extended attributes and access control lists, but not an overlay's own marks.
    fn copy_attributes(&self, from: &dyn Inode, to: &dyn Inode) -> Result<()> {
        let names = match from.list_xattrs() {
            // There are none.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Vec::new(),
            names => names?,
        };
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            if Kind::of(name).is_some() || self.is_mark(name) {
                continue;
            }
            match from.get_xattr(name).and_then(|value| to.set_xattr(name, &value, 0)) {
                // It was removed meanwhile, or can't be kept.
                Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        if from.has_acls() {
            to.adopt_acls(from.acl(Kind::Access)?, from.acl(Kind::Default)?)?;
        }
        Ok(())
    }

    /// EOVERFLOW if a copy of a file can't be owned as the file is: who mounted has no such ids.
    fn check_owner(&self, attr: &Attr) -> Result<()> {
        let covers = self.mounter.ids.as_ref().is_none_or(|ids| ids.covers(attr.uid, attr.gid));
        if covers { Ok(()) } else { Err(Errno::EOVERFLOW) }
    }
}

impl Merged {
    /// Its place in the upper layer, where it is copied with the directories above if it is not there yet. EROFS: there is
    /// no such layer; ENOSPC; EACCES, EOVERFLOW: who mounted may not do that.
    pub(super) fn risen(&self) -> Result<PathRef> {
        self.overlay().work()?;
        if let Some(upper) = self.upper() {
            return Ok(upper);
        }
        let mut chain: Vec<Rc<Self>> = Vec::new();
        let mut next = Some(self.rc()?);
        while let Some(node) = next.filter(|node| node.upper().is_none()) {
            next = node.place().map(|(dir, _)| dir);
            push(&mut chain, node)?;
        }
        while let Some(node) = chain.pop() {
            // Another thread may have copied it by now.
            if node.upper().is_none() {
                node.copy_up()?;
            }
        }
        self.upper().ok_or(Errno::ESTALE)
    }

    /// Its inode in the upper layer, see [`Self::risen`].
    pub(super) fn risen_inode(&self) -> Result<Rc<dyn Inode>> {
        Ok(self.risen()?.inode().clone())
    }

    /// Copies it to the upper layer, where its directory is.
    fn copy_up(&self) -> Result<()> {
        let overlay = self.overlay();
        let (above, name) = self.place().ok_or(Errno::ESTALE)?;
        let dir = above.upper().ok_or(Errno::ESTALE)?;
        let below = self.lowers.first().ok_or(Errno::ESTALE)?.inode();
        // Without a name it can only be what descriptors use.
        if self.is_gone.get() && self.kind != FileType::Regular {
            return Err(Errno::ENOENT);
        }
        overlay.check(&dir, MAY_WRITE | MAY_EXEC)?;
        let attr = below.attr()?;
        overlay.check_owner(&attr)?;
        let target = if self.kind == FileType::Symlink { Some(below.readlink()?) } else { None };
        let new = NewNode {
            rdev: attr.rdev,
            target: target.as_deref().unwrap_or_default(),
            ..NewNode::plain(attr.mode, attr.uid, attr.gid)
        };
        let before = dir.inode().attr()?;
        let (apart, made) = overlay.make_apart(|work, name| work.inode().create(name, &new))?;
        let filled = self.fill(&**below, &made, &attr);
        if filled.is_err() || self.is_gone.get() || self.upper().is_some() {
            overlay.drop_apart(&apart, &made);
            filled?;
            if self.upper().is_none() {
                self.rise(made);
            }
            return Ok(());
        }
        let made = overlay.install((apart, made), &dir, &name, false)?;
        self.rise(made);
        // The directory has what it had before.
        dir.inode().change(&times(&before))
    }

    fn fill(&self, below: &dyn Inode, made: &PathRef, attr: &Attr) -> Result<()> {
        let overlay = self.overlay();
        if self.kind == FileType::Regular {
            overlay.mounter.cred().check(below, MAY_READ)?;
            copy_content(below, &**made.inode(), attr.size)?;
        }
        overlay.copy_attributes(below, &**made.inode())?;
        if self.kind != FileType::Directory && attr.nlink == 1 {
            overlay.note_origin(made, self.ino)?;
        }
        made.inode().change(&times(attr))
    }
}

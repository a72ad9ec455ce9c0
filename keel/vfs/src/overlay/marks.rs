//! What layers say by special files and extended attributes: whiteouts, opaque directories, where a copy is from.

use super::Overlay;
use crate::memory::{append, copy};
use crate::{Attr, FileType, Inode, PathRef};
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// What a mark of an overlay is named in an overlay that it lies in: `trusted.overlay.overlay.…`.
const NESTED: &[u8] = b"overlay.";

/// Whether a file hides a name of lower layers.
pub(super) fn is_whiteout(inode: &dyn Inode) -> Result<bool> {
    Ok(inode.file_type() == FileType::CharDevice && inode.attr()?.rdev == 0)
}

impl Overlay {
    /// What the names of its attributes start with.
    fn space(&self) -> &'static [u8] {
        if self.user_attributes { b"user.overlay." } else { b"trusted.overlay." }
    }

    fn mark(&self, name: &[u8]) -> Result<Vec<u8>> {
        let mut all = copy(self.space())?;
        append(&mut all, name)?;
        Ok(all)
    }

    /// Whether a directory hides what lower layers have of its name.
    pub(super) fn is_opaque(&self, layer: &PathRef) -> Result<bool> {
        Ok(layer.inode().get_xattr(&self.mark(b"opaque")?).is_ok_and(|value| value == b"y"))
    }

    pub(super) fn make_opaque(&self, layer: &PathRef) -> Result<()> {
        layer.inode().set_xattr(&self.mark(b"opaque")?, b"y", 0)
    }

    /// Notes the number of a file on its copy, so that it keeps it.
    pub(super) fn note_origin(&self, made: &PathRef, ino: u64) -> Result<()> {
        made.inode().set_xattr(&self.mark(b"origin")?, &ino.to_le_bytes(), 0)
    }

    /// The number that a file of the upper layer has in the overlay.
    pub(super) fn number_of(&self, inode: &dyn Inode, attr: &Attr) -> Result<u64> {
        // Linux's marks are longer, and say nothing here.
        let noted = inode.get_xattr(&self.mark(b"origin")?).ok().and_then(|value| value[..].try_into().ok());
        Ok(noted.map_or_else(|| self.number(attr.dev, attr.ino), u64::from_le_bytes))
    }

    /// The name in a layer of an attribute of the overlay. `None`: it is the same. ENOMEM.
    pub(super) fn inward(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(rest) = name.strip_prefix(self.space()) else { return Ok(None) };
        let mut all = self.mark(NESTED)?;
        append(&mut all, rest)?;
        if all.len() > uapi::raw::general::XATTR_NAME_MAX as usize {
            return Err(Errno::ERANGE);
        }
        Ok(Some(all))
    }

    /// Whether an attribute of a layer is its own mark, which is not shown or copied.
    pub(super) fn is_mark(&self, name: &[u8]) -> bool {
        name.strip_prefix(self.space()).is_some_and(|rest| !rest.starts_with(NESTED))
    }

    /// Names of attributes in the overlay from those in a layer. ENOMEM.
    pub(super) fn outward(&self, names: &[u8]) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty() && !self.is_mark(name)) {
            match name.strip_prefix(self.space()).and_then(|rest| rest.strip_prefix(NESTED)) {
                Some(rest) => {
                    append(&mut all, self.space())?;
                    append(&mut all, rest)?;
                }
                None => append(&mut all, name)?,
            }
            append(&mut all, b"\0")?;
        }
        Ok(all)
    }
}

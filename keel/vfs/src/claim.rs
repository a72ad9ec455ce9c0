//! Writers and runners of a file keep each other out: ETXTBSY. Writers keep a mount from becoming read-only: EBUSY.

use crate::{Inode, Mount, PathRef};
use alloc::rc::Rc;
use uapi::{Errno, Result};

/// Write access that excludes execution of a file, or execution that excludes write access (ETXTBSY); released
/// when it is dropped. Files without [`Inode::attachments`] are not guarded.
pub struct Claim {
    inode: Rc<dyn Inode>,
    step: i32,
    /// The mount through which a writer reached it.
    mount: Option<Rc<Mount>>,
}

impl Claim {
    /// To write to the file at a place: open(2) for writing, truncate(2). ETXTBSY while the file is executed.
    pub fn write(place: &PathRef) -> Result<Self> {
        let mut claim = Self::take(place.inode(), 1)?;
        place.mount().add_writer();
        claim.mount = Some(place.mount().clone());
        Ok(claim)
    }

    /// To execute: execve(2). ETXTBSY while the file is open for writing.
    pub fn execute(inode: &Rc<dyn Inode>) -> Result<Self> {
        Self::take(inode, -1)
    }

    fn take(inode: &Rc<dyn Inode>, step: i32) -> Result<Self> {
        if let Some(attachments) = inode.attachments() {
            let claims = attachments.claims.get();
            if claims.signum() == -step {
                return Err(Errno::ETXTBSY);
            }
            attachments.claims.set(claims.saturating_add(step));
        }
        Ok(Self { inode: inode.clone(), step, mount: None })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(attachments) = self.inode.attachments() {
            attachments.claims.set(attachments.claims.get().saturating_sub(self.step));
        }
        if let Some(mount) = &self.mount {
            mount.remove_writer();
        }
    }
}

impl core::fmt::Debug for Claim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Claim").field("step", &self.step).finish_non_exhaustive()
    }
}

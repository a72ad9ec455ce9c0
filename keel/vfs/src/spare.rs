//! Handles on files that the kernel keeps beyond their last use.
//!
//! A file whose name is removed while handles on it exist counts as open: its content is kept. So handles that are kept in
//! spare are released first.

use crate::Inode;
use alloc::rc::Rc;
use core::cell::Cell;
use hal::cell::Global;

/// Releases the spare handles of the inode with this [`Inode::stamp_address`].
type Release = fn(usize);

static RELEASE: Global<Cell<Option<Release>>> = Global::new(Cell::new(None));

/// Says how spare handles are released. `release` must not wait.
pub fn on_release(release: Release) {
    RELEASE.set(Some(release));
}

/// A name of this file is about to be removed.
pub(crate) fn release(inode: &Rc<dyn Inode>) {
    if let Some(release) = RELEASE.get()
        && let Some(address) = inode.stamp_address()
    {
        release(address);
    }
}

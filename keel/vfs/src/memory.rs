//! When memory for keel's own objects runs out: what a program makes many of is refused in time.

use crate::host::Host;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::RefCell;
use hal::cell::Global;
use uapi::{Errno, Result};

/// Pages that caches are asked to give back at once.
const STEP: usize = 1024;

/// Whose caches give way.
static HOST: Global<RefCell<Weak<Host>>> = Global::new(RefCell::new(Weak::new()));

pub(crate) fn reclaim_from(host: &Rc<Host>) {
    *HOST.borrow_mut() = Rc::downgrade(host);
}

/// Whether there is hardly any memory left, even after the caches gave theirs back. Must not be asked while
/// a cache is borrowed.
#[inline]
pub fn is_scarce() -> bool {
    hal::frame::is_scarce() && !reclaim()
}

#[cold]
fn reclaim() -> bool {
    let host = HOST.borrow().upgrade();
    host.is_some_and(|host| host.shrink(STEP) > 0) && !hal::frame::is_scarce()
}

/// ENOMEM if memory is scarce.
#[inline]
pub fn check() -> Result<()> {
    if is_scarce() { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// A list of any number of items, each of which may have taken memory of its own. ENOMEM.
pub fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    /// Items after which memory is looked at again.
    const STEP: usize = 64;
    let mut list = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        if i % STEP == 0 {
            check()?;
        }
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.push(item);
    }
    Ok(list)
}

/// Appends to a text of any length. ENOMEM.
pub fn append(text: &mut Vec<u8>, more: &[u8]) -> Result<()> {
    text.try_reserve(more.len()).map_err(|_| Errno::ENOMEM)?;
    text.extend_from_slice(more);
    Ok(())
}

/// A buffer of zeros. ENOMEM.
pub fn buffer(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

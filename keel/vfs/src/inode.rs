//! What every file system gives for a file.

use crate::{Attr, Dst, FileType, Src};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// A file of any type in any file system. (The owner of this crate adds the directory operations.)
pub trait Inode: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Attributes now.
    fn attr(&self) -> Result<Attr>;
    /// Type; never changes.
    fn file_type(&self) -> FileType;
    /// Reads from `offset` until `dst` is full or the file ends; 0 at or beyond the end.
    fn read_at(&self, _offset: u64, _dst: &mut dyn Dst) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Writes at `offset`, growing the file.
    fn write_at(&self, _offset: u64, _src: &mut dyn Src) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Writes at the end, atomically against others: bytes written and the offset after them.
    fn append(&self, _src: &mut dyn Src) -> Result<(usize, u64)> {
        Err(Errno::EINVAL)
    }
    /// Pages for mmap(2), starting at page `first`: at least that one, at most `count`, fewer where
    /// more would cost a trip. `write`: they will be written through a shared mapping (for the
    /// others the caller copies before it writes). ENXIO beyond the end (SIGBUS).
    fn pages(&self, _first: u64, _count: usize, _write: bool) -> Result<Vec<Frame>> {
        Err(Errno::ENODEV)
    }
    /// Changes the size.
    fn truncate(&self, _size: u64) -> Result<()> {
        Err(Errno::EINVAL)
    }
    /// A value that other parts of keel hang on the inode: the pipe of a FIFO, a bound socket, the
    /// patched text pages of an executable. `None` if this kind keeps none.
    fn attachments(&self) -> Option<&Attachments> {
        None
    }
}

/// Values that other parts of keel keep with an inode, one per type.
#[derive(Default)]
pub struct Attachments(core::cell::RefCell<Vec<Rc<dyn Any>>>);

impl Attachments {
    /// The value of type `T`, made by `init` at first.
    pub fn get_or_insert<T: Any>(&self, init: impl FnOnce() -> T) -> Rc<T> {
        if let Some(found) = self.get() {
            return found;
        }
        let value = Rc::new(init());
        self.0.borrow_mut().push(value.clone());
        value
    }

    /// The value of type `T`, if there is one.
    pub fn get<T: Any>(&self) -> Option<Rc<T>> {
        self.0.borrow().iter().find_map(|v| v.clone().downcast().ok())
    }
}

impl core::fmt::Debug for Attachments {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Attachments").finish_non_exhaustive()
    }
}

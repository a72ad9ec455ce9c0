//! Anonymous memory that several address spaces share: `MAP_SHARED | MAP_ANONYMOUS`.

use core::cell::RefCell;
use hal::frame::{FRAME_SIZE, Frame};
use hashbrown::HashMap;

/// Pages of zeros that appear at their first touch and live as long as a mapping of the object.
#[derive(Debug, Default)]
pub struct SharedObject {
    pages: RefCell<HashMap<u64, Frame>>,
}

impl SharedObject {
    /// The page, made if it does not exist. `None` when memory is used up.
    pub fn page(&self, index: u64) -> Option<Frame> {
        let mut pages = self.pages.borrow_mut();
        if let Some(frame) = pages.get(&index) {
            return Some(frame.clone());
        }
        let frame = Frame::alloc_zeroed()?;
        pages.insert(index, frame.clone());
        Some(frame)
    }

    /// Whether the page exists.
    pub fn has(&self, index: u64) -> bool {
        self.pages.borrow().contains_key(&index)
    }

    /// Zeroes pages, for all who map them (MADV_REMOVE).
    pub fn clear(&self, first: u64, count: u64) {
        for (page, frame) in self.pages.borrow().iter() {
            if *page >= first && *page - first < count {
                frame.zero(0, FRAME_SIZE);
            }
        }
    }
}

impl super::Mm {
    /// What stands for a word in shared memory whatever the address space, for futexes: identity of
    /// the object and offset in it. `None` for private and unmapped memory.
    pub fn shared_key(&self, address: usize) -> Option<(usize, u64)> {
        use super::area::{AreaFlags, Backing};
        let inner = self.inner.borrow();
        let vma = inner.vmas.find(address)?;
        if !vma.attrs.flags.contains(AreaFlags::SHARED) {
            return None;
        }
        let (object, page) = match &vma.attrs.backing {
            Backing::File(file, page) => (alloc::rc::Rc::as_ptr(&file.inode).addr(), *page),
            Backing::Shared(object, page) => (alloc::rc::Rc::as_ptr(object).addr(), *page),
            _ => return None,
        };
        Some((object, page * abi::layout::PAGE_SIZE as u64 + (address - vma.start) as u64))
    }
}

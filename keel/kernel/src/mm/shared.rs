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

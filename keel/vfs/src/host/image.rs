//! A host file as the image of a file system: the window shows it, or RAM has copies of its pages.

use super::{FIXED_NS, HostNode};
use crate::erofs::Source;
use alloc::vec::Vec;
use hal::frame::{FRAME_SIZE, Frame};
use uapi::{Errno, Result};

const PAGE: u64 = FRAME_SIZE as u64;
/// Metadata is treated like the content of a file of this size: where the first touch of a window page costs more than
/// a page in RAM, it is read ahead.
const METADATA: u64 = 256 << 10;

impl HostNode {
    /// Bytes of the image, which are asked for once. EIO: page `index` lies beyond its end.
    fn image_size(&self, index: u64) -> Result<u64> {
        let attr = self.fresh_attr()?;
        let content = self.content();
        self.validate(&attr);
        content.used.set(true);
        if index >= attr.size.div_ceil(PAGE) { Err(Errno::EIO) } else { Ok(attr.size) }
    }

    /// Whether pages of a file of `size` bytes come from the window.
    fn is_mapped(&self, size: u64) -> bool {
        let host = self.host();
        size > host.map_from_ram && host.has_window() && !self.content().distrusted.get() && !host.io.has_losses()
    }

    /// Page `index` for keel itself, of a file of `size` bytes that is read `wanted` pages ahead.
    fn image_page(&self, index: u64, size: u64, wanted: u64) -> Result<Option<Frame>> {
        let whole = self.image_size(index)?;
        if let Some(frame) = self.cached_page(index) {
            return Ok(Some(frame));
        }
        if self.is_mapped(size)
            && self.window_pages(index, 1, whole, false).is_ok()
            && let Some(frame) = self.cached_page(index)
        {
            return Ok(Some(frame));
        }
        self.page(index, wanted, whole)
    }
}

impl Source for HostNode {
    fn size(&self) -> u64 {
        self.fresh_attr().map_or(0, |attr| attr.size)
    }

    fn page(&self, index: u64) -> Result<Frame> {
        // What is known of an image is believed until pages of the window are lost; these are pages of RAM.
        if self.export.fresh_ns == FIXED_NS && self.fetched.get() != 0 {
            let content = self.content();
            if let Some(frame) = content.pages.borrow().get_marked(index) {
                content.used.set(true);
                return Ok(frame.clone());
            }
        }
        self.image_page(index, METADATA, 1)?.ok_or(Errno::ENOMEM)
    }

    fn pages(&self, first: u64, count: u64, size: u64, often: bool) -> Result<Vec<Frame>> {
        let whole = self.image_size(first)?;
        let count = count.min(whole.div_ceil(PAGE) - first);
        let host = self.host();
        let in_ram = self.content().pages.borrow().get(first).is_some();
        let brought = often && host.cache.suits(size.div_ceil(PAGE)) && !host.io.memory_is_short();
        if !in_ram && !brought && self.is_mapped(size) {
            match self.window_pages(first, count, whole, false) {
                Err(Errno::ENOMEM | Errno::ENODEV | Errno::ENOSYS | Errno::EINVAL | Errno::EOPNOTSUPP) => {}
                other => return other,
            }
        }
        self.ram_pages(first, count, whole)
    }

    fn content(&self, index: u64, wanted: u64) -> Result<Option<Frame>> {
        // What was not mapped is read: a page of the window is touched for the first time at a price.
        self.image_page(index, 0, wanted)
    }

    fn copies(&self, first: u64, count: u64) -> Result<Vec<Frame>> {
        self.image_size(first)?;
        self.content_copies(first, usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn has_lost_pages(&self) -> bool {
        self.host().io.has_losses()
    }

    fn drop_pages(&self, distrust: bool) {
        self.host().drop_window(distrust);
        self.stale();
    }

    fn was_cut(&self) -> bool {
        self.cut_content().is_some()
    }
}

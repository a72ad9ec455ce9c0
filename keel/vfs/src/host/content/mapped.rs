//! Content of a host file in mappings: cached frames, or the host's page cache in the window.

use super::super::window::{CHUNK, Chunk};
use super::super::{HostNode, now};
use super::{PAGE, TRIES};
use crate::Attr;
use crate::memory::{list, push};
use abi::request::{Map, Populate};
use alloc::vec::Vec;
use hal::frame::Frame;
use uapi::{Errno, Result};

/// How often to look whether a file that programs stored to is still mapped, in ns: after that its attributes are believed again.
const LOOK_NS: u64 = 1_000_000_000;

impl HostNode {
    /// The attributes, for a mapping's page `first`. The host may have made the file longer since they were fetched, and a
    /// program may know it: the size is asked for again before it gets SIGBUS. ENXIO: the page is behind the end.
    pub(super) fn attr_reaching(&self, first: u64) -> Result<Attr> {
        let is_there = |attr: &Attr| first < attr.size.div_ceil(PAGE);
        let attr = self.fresh_attr()?;
        if is_there(&attr) {
            return Ok(attr);
        }
        self.stale();
        self.fresh_attr().and_then(|attr| if is_there(&attr) { Ok(attr) } else { Err(Errno::ENXIO) })
    }

    /// Pages for a shared mapping, see [`crate::Inode::shared_pages`]: of a file that may change, the host's page cache. A
    /// copy in RAM would not follow what others write.
    pub fn content_shared(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        if write || !self.is_writable() || !self.host().has_window() || self.content().distrusted.get() {
            return self.content_pages(first, count, write);
        }
        let attr = self.attr_reaching(first)?;
        let count = (count.max(1) as u64).min(attr.size.div_ceil(PAGE) - first);
        match self.when_not_leased(|| self.window_pages(first, count, attr.size, false)) {
            Err(Errno::ENOMEM | Errno::ENODEV | Errno::ENOSYS | Errno::EINVAL | Errno::EOPNOTSUPP) => {
                self.content_pages(first, count as usize, false)
            }
            other => other,
        }
    }

    /// Pages for a mapping, see [`crate::Inode::pages`].
    pub fn content_pages(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        self.when_not_leased(|| self.content_pages_now(first, count, write))
    }

    fn content_pages_now(&self, first: u64, count: usize, write: bool) -> Result<Vec<Frame>> {
        let attr = self.attr_reaching(first)?;
        let content = self.content();
        self.validate(&attr);
        content.used.set(true);
        let count = (count.max(1) as u64).min(attr.size.div_ceil(PAGE) - first);
        let distrusted = content.distrusted.get();
        if distrusted && (write || self.is_writable()) {
            // It is to be seen by all, so the window shows it, once the host has it.
            let (gpa, _) = self.window_range(first, 1, attr.size, write)?;
            self.host().call(Populate { gpa, len: PAGE, write }, &(), &mut ())?;
            return Ok(alloc::vec![self.host().io.window_page(gpa).ok_or(Errno::ENODEV)?]);
        }
        if write {
            return self.window_pages(first, count, attr.size, true);
        }
        let in_ram = content.pages.borrow().get(first).is_some();
        let large = attr.size > self.host().map_from_ram && self.host().has_window() && !distrusted;
        if !in_ram && large && !self.bring(first, count, attr.size) {
            match self.window_pages(first, count, attr.size, false) {
                Err(Errno::ENOMEM | Errno::ENODEV | Errno::ENOSYS | Errno::EINVAL | Errno::EOPNOTSUPP) => {}
                other => return other,
            }
        }
        self.ram_pages(first, count, attr.size)
    }

    /// Pages in RAM, read if they are not there; from the window what is written at the same time.
    pub(in super::super) fn ram_pages(&self, first: u64, count: u64, size: u64) -> Result<Vec<Frame>> {
        let content = self.content();
        for _ in 0..TRIES {
            if self.page(first, count, size)?.is_none() {
                return Err(Errno::ENOMEM);
            }
            let pages = content.pages.borrow();
            let frames = list((first..first + count).map_while(|index| pages.get(index).cloned()))?;
            drop(pages);
            if !frames.is_empty() {
                return Ok(frames);
            }
            if let Some(page) = self.cached_page(first) {
                return Ok(alloc::vec![page]);
            }
            // It was written while it was read.
        }
        self.window_pages(first, 1, size, false)
    }

    /// A program gets pages of a writable chunk. The first store to a page after its mapping, or after a writeback, changes the
    /// file's times on the host without a trace.
    fn will_be_stored_to(&self, chunk: Chunk) {
        self.withdraw();
        self.content().stored_to.set(Some(now()));
        self.host().is_stored_to(chunk);
    }

    /// Whether programs may store into it, or may have done so since the attributes were asked for.
    pub(super) fn has_stores(&self) -> bool {
        self.content.get().is_some_and(|content| content.stored_to.get().is_some())
    }

    /// The attributes, after all stores to mappings.
    pub(in super::super) fn attr_after_stores(&self) -> Result<Attr> {
        if !self.has_stores() {
            return self.fresh_attr();
        }
        let attr = self.fetch_attr()?;
        let content = self.content();
        if content.stored_to.get().is_some_and(|seen| now().saturating_sub(seen) > LOOK_NS) {
            let mapped = |chunk: &Chunk| chunk.writable && self.host().in_use(chunk);
            let is_mapped = content.chunks.borrow().values().any(mapped);
            content.stored_to.set(is_mapped.then(now));
        }
        Ok(attr)
    }

    /// Looks whether the file ends before pages that are in the window: its size then. What the window holds of it
    /// is mapped anew when it is wanted again.
    pub fn cut_content(&self) -> Option<u64> {
        let content = self.content.get()?;
        if content.chunks.borrow().is_empty() {
            return None;
        }
        self.stale();
        let size = self.fresh_attr().ok()?.size;
        let end = |(index, chunk): (&u64, &Chunk)| index * CHUNK + chunk.mapped;
        let cut = content.chunks.borrow().iter().map(end).any(|end| end > size.next_multiple_of(PAGE));
        if !cut {
            return None;
        }
        for (_, chunk) in content.chunks.take() {
            self.host().retire(chunk);
        }
        Some(size)
    }

    /// Brings pages into RAM although they are in the window: of a file that is mapped again and again, such as a
    /// compiler. The first touch of a window page in an address space is a fault in KVM for that page alone, as the
    /// host maps it read-only; pages of RAM come eight at a time. Whether page `first` is there now.
    fn bring(&self, first: u64, count: u64, size: u64) -> bool {
        let content = self.content();
        let total = size.div_ceil(PAGE);
        let asked = content.asked.get();
        if asked <= total {
            content.asked.set(asked + count);
            return false;
        }
        let host = self.host();
        let shared = content.chunks.borrow().values().any(|chunk| chunk.writable);
        if shared || self.is_writable() || !host.cache.suits(total) || host.io.memory_is_short() {
            return false;
        }
        // What can't be read goes on to come from the window.
        self.fill(first, count, size).is_ok() && content.pages.borrow().get(first).is_some()
    }

    pub(in super::super) fn window_pages(&self, first: u64, count: u64, size: u64, write: bool) -> Result<Vec<Frame>> {
        let (gpa, count) = self.window_range(first, count, size, write)?;
        let mut frames = Vec::new();
        for page in 0..count {
            push(&mut frames, self.host().io.window_page(gpa + page * PAGE).ok_or(Errno::ENODEV)?)?;
        }
        Ok(frames)
    }

    /// Where the window shows page `first`, and how many follow it there, itself counted, up to `count`.
    fn window_range(&self, first: u64, count: u64, size: u64, write: bool) -> Result<(u64, u64)> {
        let index = first * PAGE / CHUNK;
        let offset = first * PAGE % CHUNK;
        let known = self.content().chunks.borrow().get(&index).copied();
        let chunk = match known {
            Some(chunk) if chunk.mapped > offset && (chunk.writable || !write) => {
                if write {
                    self.will_be_stored_to(chunk);
                }
                chunk
            }
            _ => match self.map_chunk(index, size, known, write) {
                // It was cut since its size was asked for.
                Err(Errno::ENXIO) => {
                    self.stale();
                    let size = self.fresh_attr()?.size;
                    if first * PAGE >= size {
                        return Err(Errno::ENXIO);
                    }
                    self.map_chunk(index, size, known, write)?
                }
                mapped => mapped?,
            },
        };
        Ok((chunk.gpa + offset, count.min(chunk.mapped.saturating_sub(offset) / PAGE)))
    }

    /// Shows piece `index` of a file of `size` bytes in the window. ENXIO if the file has become shorter.
    fn map_chunk(&self, index: u64, size: u64, known: Option<Chunk>, write: bool) -> Result<Chunk> {
        let bytes = (size - index * CHUNK).min(CHUNK).next_multiple_of(PAGE);
        let writable = write || known.is_some_and(|c| c.writable);
        let (gpa, room) = match known {
            // The file grew within its room, or is now written too: map over it, in place.
            Some(chunk) if chunk.room >= bytes => (chunk.gpa, chunk.room),
            _ => self.host().window_room(&self.this, bytes)?,
        };
        let mapped = self.on_handle(writable, |handle| {
            let map = Map { handle, offset: index * CHUNK, len: bytes, gpa, writable };
            self.host().call(map, &(), &mut ())
        });
        let chunk = Chunk { gpa, room, mapped: bytes, writable };
        if let Err(errno) = mapped {
            if known.is_none_or(|k| k.gpa != gpa) {
                self.host().retire(Chunk { mapped: 0, ..chunk });
            }
            return Err(errno);
        }
        if writable {
            // From now on the host's page cache is the only copy.
            self.content().outdate(self.host());
            self.will_be_stored_to(chunk);
        }
        let old = self.content().chunks.borrow_mut().insert(index, chunk);
        if let Some(old) = old.filter(|old| old.gpa != gpa) {
            self.host().retire(old);
        }
        Ok(chunk)
    }
}

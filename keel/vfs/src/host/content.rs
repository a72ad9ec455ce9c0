//! Content of a host file: cached frames, window chunks, the open handle.

mod copies;
mod evict;
mod handle;
mod mapped;
mod shown;
mod write;

use super::window::{CHUNK, Chunk};
use super::{Host, HostNode};
use crate::io::read_parts;
use crate::memory::chunk;
use crate::pagemap::PageMap;
use crate::shown::Shown;
use crate::{Attr, Dst};
use abi::request::{Fetch, NodeAttr, Read};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use hal::frame::{FRAME_SIZE, Frame};
use handle::Handle;
use uapi::{Errno, Result};

const PAGE: u64 = FRAME_SIZE as u64;
/// Files up to this size come whole with their first read, unless the pod is small.
const WHOLE: u64 = 128 << 10;
/// Most bytes of one read from the host; readahead doubles up to it. As many frames as one request names.
const MAX_READ: u64 = 1 << 20;
const _: () = assert!(MAX_READ as usize / FRAME_SIZE <= abi::ring::MAX_SEGMENTS);
/// Most bytes of one write to the host, unless the pod is small.
const MAX_WRITE: usize = 256 << 10;
/// How often pages for a mapping are read again that were written meanwhile, before the window shows them.
const TRIES: usize = 8;

/// Identifies a version of a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    size: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
}

impl Stamp {
    const fn of(attr: &Attr) -> Self {
        Self { size: attr.size, mtime: (attr.mtime, attr.mtime_ns), ctime: (attr.ctime, attr.ctime_ns) }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Content {
    handle: Cell<Option<Handle>>,
    pub(super) pages: RefCell<PageMap>,
    stamp: Cell<Stamp>,
    /// Read since the cache looked last.
    pub(super) used: Cell<bool>,
    /// In the cache's list of files with pages.
    pub(super) is_listed: Cell<bool>,
    /// Where the eviction of a part goes on, see [`evict`].
    hand: Cell<u64>,
    pub(super) chunks: RefCell<BTreeMap<u64, Chunk>>,
    /// Where the last fetch ended (page) and how many bytes it brought: readahead.
    ahead: Cell<(u64, u64)>,
    /// Counts whatever makes pages old that were asked for before it: changes of the pod, and those of others that were
    /// noticed. Answers that were asked for before the last one are not kept.
    epoch: Cell<u64>,
    /// Requests with gathered writes that the host has not answered.
    pub(super) gathered: Cell<u32>,
    /// The size that the file will have then.
    pub(super) expected: Cell<u64>,
    /// No page was cached when the first of them was gathered: the size that the file has before it, if nobody else changes it.
    pub(super) unseen: Cell<Option<u64>>,
    /// When the last small write was done, monotonic ns.
    pub(super) wrote: Cell<u64>,
    /// When the pod made the file, monotonic ns; 0: it did not.
    pub(super) made: Cell<u64>,
    /// Gathered changes of its mode that the host has not answered: the pod believes it already.
    pub(super) changing: Cell<u32>,
    /// How many gathered writes failed, and how the last one did.
    pub(super) failure: Cell<(u32, Option<Errno>)>,
    /// The number of the last change that a write, or a change of attributes, made, see [`super::order`], and of its request.
    pub(super) written: Cell<(u64, u64)>,
    /// Pages that mappings asked of the window.
    asked: Cell<u64>,
    /// The handle for its locks.
    pub(super) holding: Cell<Option<super::locks::Holding>>,
    /// [`super::Export::locked`] when the pages were validated last.
    locked: Cell<u64>,
    /// Part of it can't be read, perhaps: pages for mappings are read, not shown in the window unseen.
    pub(super) distrusted: Cell<bool>,
    /// Programs may store into the host's page cache, or may have done so since the attributes were asked for: when a mapping was
    /// last seen, monotonic ns.
    stored_to: Cell<Option<u64>>,
    /// The node's, if it has one.
    shown: OnceCell<Arc<Shown>>,
}

impl Content {
    pub(super) fn take_used(&self) -> bool {
        self.used.replace(false) | self.shown.get().is_some_and(|shown| shown.take_used())
    }

    /// Pages are about to change or to go.
    fn withdraw(&self) {
        if let Some(shown) = self.shown.get() {
            shown.withdraw();
        }
    }

    pub(super) fn drop_pages(&self, host: &Host) {
        self.withdraw();
        let pages = self.pages.take();
        self.asked.set(0);
        host.cache.pages_dropped(pages.len());
    }

    /// The file is being dropped.
    pub(super) fn dispose(&self, host: &Host) {
        self.drop_pages(host);
        self.close(host);
        for (_, chunk) in self.chunks.take() {
            host.retire(chunk);
        }
    }

    /// Drops what is cached of a content that was changed, and what is under way.
    #[cold]
    pub(super) fn outdate(&self, host: &Host) {
        self.epoch.set(self.epoch.get() + 1);
        self.drop_pages(host);
    }
}

impl HostNode {
    pub(super) fn content(&self) -> &Content {
        self.content.get_or_init(Box::default)
    }

    pub(super) fn host(&self) -> &Host {
        &self.export.host
    }

    /// Drops cached pages if the file changed on the host since they were read, or if a lock was taken since: what others
    /// wrote right after they were read may have left the times as they are.
    pub(super) fn validate(&self, attr: &Attr) {
        let (content, stamp, locked) = (self.content(), Stamp::of(attr), self.export.locked_at());
        let is_same = content.stamp.replace(stamp) == stamp;
        if content.locked.replace(locked) != locked || !is_same {
            content.outdate(&self.export.host);
        }
    }

    /// Reads page `first`, with what probably follows (`wanted`: pages asked for), and keeps what is not outdated by then.
    /// The page; `None` if it lies beyond the end. ENOMEM when there is no frame for it.
    fn fill(&self, first: u64, wanted: u64, size: u64) -> Result<Option<Frame>> {
        let content = self.content();
        let (whole, most) = (chunk(WHOLE as usize) as u64, chunk(MAX_READ as usize) as u64);
        let (start, len) = if size <= whole {
            (0, size.next_multiple_of(PAGE))
        } else {
            let (expected, last) = content.ahead.get();
            let grown = if first == expected { last.saturating_mul(2) } else { whole };
            let len = grown.max(wanted.saturating_mul(PAGE)).clamp(whole, most);
            (first * PAGE, len.min((size - first * PAGE).next_multiple_of(PAGE)))
        };
        // Not over what is there already.
        let next = content.pages.borrow().next_present(first);
        let len = match next {
            Some(next) if next * PAGE > start && next > first => len.min(next * PAGE - start),
            _ => len,
        };
        content.ahead.set(((start + len) / PAGE, len));
        let fetch = start == 0 && content.handle.get().is_none() && self.host().has_fetch.get() && !self.gone.get();
        let fetched = if fetch { Some(self.fetch(len, first)) } else { None };
        let filled = match fetched {
            Some(Err(Errno::ENOSYS | Errno::EINVAL)) => {
                self.host().has_fetch.set(false);
                self.read_pages(start / PAGE, len as usize, size, first)
            }
            // Its name may be another one meanwhile.
            Some(Err(Errno::ENOENT | Errno::ESTALE)) if !self.gone.get() => {
                self.read_pages(start / PAGE, len as usize, size, first)
            }
            Some(fetched) => fetched,
            None => self.read_pages(start / PAGE, len as usize, size, first),
        };
        match filled {
            // What comes before it can't be read.
            Ok(None) | Err(_) if start < first * PAGE && filled.as_ref().err() != Some(&Errno::ENOMEM) => {
                self.read_pages(first, FRAME_SIZE, size, first)
            }
            filled => filled,
        }
    }

    /// Reads `len` bytes from page `first` on and keeps them; page `wanted` of them.
    fn read_pages(&self, first: u64, len: usize, size: u64, wanted: u64) -> Result<Option<Frame>> {
        let epoch = self.content().epoch.get();
        let (frames, _) = self.read_frames(first, len, size)?;
        let page = frames.get((wanted - first) as usize).cloned();
        self.keep_frames(first, frames, epoch);
        Ok(page)
    }

    /// Reads `len` bytes from page `first` on straight into frames: these, and how many bytes the file had. What follows pages
    /// that were read may fail: it is left out. ENOMEM when there is no frame for the first page.
    fn read_frames(&self, first: u64, len: usize, size: u64) -> Result<(Vec<Frame>, usize)> {
        let mut frames: Vec<Frame> = Vec::new();
        frames.try_reserve_exact(len.div_ceil(FRAME_SIZE)).map_err(|_| Errno::ENOMEM)?;
        while frames.len() * FRAME_SIZE < len {
            let Some(frame) = Frame::alloc() else { break };
            frames.push(frame);
        }
        let len = len.min(frames.len() * FRAME_SIZE);
        if len == 0 {
            return Err(Errno::ENOMEM);
        }
        let start = first * PAGE;
        let mut done = 0;
        while done < len {
            let at = start + done as u64;
            let read = |handle| self.host().io.read_frames(Read { handle, offset: at }, &frames, done, len - done);
            let n = match self.on_handle(false, read) {
                Err(_) if done >= FRAME_SIZE => {
                    frames.truncate(done / FRAME_SIZE);
                    return Ok((frames, done / FRAME_SIZE * FRAME_SIZE));
                }
                n => n?,
            };
            done += n.min(len - done);
            if n == 0 && self.export.fresh_ns == super::FIXED_NS {
                // An image that has become shorter.
                return Err(Errno::EIO);
            }
            if n == 0 || start + done as u64 >= size {
                break;
            }
        }
        let in_page = done % FRAME_SIZE;
        if let Some(last) = frames.get(done / FRAME_SIZE).filter(|_| in_page != 0) {
            last.zero(in_page, FRAME_SIZE - in_page);
        }
        // What the file no longer has reads as zeros.
        frames.iter().skip(done.div_ceil(FRAME_SIZE)).for_each(|frame| frame.zero(0, FRAME_SIZE));
        Ok((frames, done))
    }

    /// Keeps frames of content where there are none yet, unless it changed since `epoch`, when they were asked for.
    fn keep_frames(&self, first: u64, frames: Vec<Frame>, epoch: u64) {
        let content = self.content();
        if content.epoch.get() != epoch {
            return;
        }
        let mut added = 0;
        for (index, frame) in (first..).zip(frames) {
            // Through a writable part of the window the content changes without a trace.
            let shared = content.chunks.borrow().get(&(index * PAGE / CHUNK)).is_some_and(|chunk| chunk.writable);
            let pages = content.pages.borrow();
            if shared || pages.get(index).is_some() {
                continue;
            }
            drop(pages);
            self.insert_page(index, frame);
            added += 1;
        }
        content.used.set(true);
        self.host().cache.pages_added(added, self.host().io.memory_is_short());
    }

    /// Adds a page that is not there yet, without counting it.
    fn insert_page(&self, index: u64, frame: Frame) {
        let content = self.content();
        let mut pages = content.pages.borrow_mut();
        pages.insert(index, frame);
        // It is to be used before it goes again.
        let _ = pages.get_marked(index);
        drop(pages);
        if !content.is_listed.replace(true) {
            self.host().cache.has_pages(self.this.clone());
        }
    }

    /// Opens the file and reads its beginning in one trip; page `wanted` of it.
    fn fetch(&self, len: u64, wanted: u64) -> Result<Option<Frame>> {
        const HEAD: usize = size_of::<NodeAttr>();
        let (epoch, asked) = (self.content().epoch.get(), self.host().ask());
        let _held = self.export.hold_paths()?;
        self.host().with_buffer(HEAD + len as usize, |buffer| {
            let fetched = self.host().call(Fetch { export: self.export.id }, &self.path()[..], &mut *buffer)?;
            let (head, data) = buffer.split_at_mut(HEAD);
            let attr: NodeAttr = bytemuck::pod_read_unaligned(head);
            if super::Key::of(&attr) != super::Key::of(&self.attr_cached()) {
                if fetched.handle != 0 {
                    self.host().close(fetched.handle);
                }
                if self.host().changes.get() == asked.changes {
                    self.is_misplaced();
                }
                return Err(Errno::ESTALE);
            }
            if fetched.handle != 0 {
                self.take_handle(fetched.handle, false);
            }
            let done = (fetched.bytes as usize).min(data.len());
            data[done..].fill(0);
            // If the rest can't be read, only whole pages are kept.
            let kept = if done as u64 >= attr.size { data.len() } else { done / FRAME_SIZE * FRAME_SIZE };
            let mut frames: Vec<Frame> = Vec::new();
            frames.try_reserve_exact(kept.div_ceil(FRAME_SIZE)).map_err(|_| Errno::ENOMEM)?;
            for page in data[..kept].chunks(FRAME_SIZE) {
                let Some(frame) = Frame::alloc() else { break };
                frame.write(0, page);
                frame.zero(page.len(), FRAME_SIZE - page.len());
                frames.push(frame);
            }
            let page = frames.get(wanted as usize).cloned();
            if page.is_none() && frames.len() < kept.div_ceil(FRAME_SIZE) {
                return Err(Errno::ENOMEM);
            }
            self.keep_frames(0, frames, epoch);
            Ok(page)
        })
    }

    /// A cached page, from RAM or from the window.
    pub(super) fn cached_page(&self, index: u64) -> Option<Frame> {
        let content = self.content();
        if let Some(frame) = content.pages.borrow().get_marked(index) {
            return Some(frame.clone());
        }
        let chunk = content.chunks.borrow().get(&(index * PAGE / CHUNK)).copied()?;
        let offset = index * PAGE % CHUNK;
        let page = (offset < chunk.mapped).then(|| self.host().io.window_page(chunk.gpa + offset))??;
        // It is there once it was touched.
        let mut first = [0];
        page.read(0, &mut first);
        core::hint::black_box(first);
        if self.host().io.has_losses() {
            self.host().drop_window(true);
            return None;
        }
        Some(page)
    }

    /// Page `index` of a file of `size` bytes, fetched if needed. `None`: no memory for it.
    pub(super) fn page(&self, index: u64, wanted: u64, size: u64) -> Result<Option<Frame>> {
        if let Some(frame) = self.cached_page(index) {
            return Ok(Some(frame));
        }
        match self.fill(index, wanted, size) {
            Err(Errno::ENOMEM) => Ok(self.cached_page(index)),
            filled => filled,
        }
    }

    /// Reads content through the cache.
    pub fn read_content(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let attr = self.fresh_attr()?;
        let content = self.content();
        self.validate(&attr);
        content.used.set(true);
        let size = attr.size;
        read_parts(offset, size, dst, |part, dst| {
            let wanted = (dst.remaining() as u64).div_ceil(PAGE);
            match self.when_not_leased(|| self.page(part.page, wanted, size))? {
                Some(frame) => dst.put_frame(&frame, part.in_page, part.len),
                None => self.read_uncached(part.page * PAGE + part.in_page as u64, part.len, dst),
            }
        })
    }

    /// [`Self::read_content`] up to the first page that is not cached. EAGAIN: that is the first one.
    pub(super) fn read_cached_content(&self, offset: u64, dst: &mut dyn Dst) -> Result<usize> {
        let attr = self.fresh_attr()?;
        self.validate(&attr);
        self.content().used.set(true);
        read_parts(offset, attr.size, dst, |part, dst| match self.cached_page(part.page) {
            Some(frame) => dst.put_frame(&frame, part.in_page, part.len),
            None => Err(Errno::EAGAIN),
        })
    }

    /// Reads at most a page without keeping it: memory is used up.
    fn read_uncached(&self, offset: u64, len: usize, dst: &mut dyn Dst) -> Result<usize> {
        self.host().with_buffer(len, |buffer| {
            let n = self.on_handle(false, |handle| self.host().call(Read { handle, offset }, &(), &mut *buffer))?;
            dst.put(&buffer[..(n as usize).min(len)])
        })
    }

    /// A private copy of the whole content, for the first write in an overlay: cached frames are
    /// handed over, not copied. ENOSPC.
    pub(crate) fn copy_up(&self, size: u64) -> Result<PageMap> {
        let mut copy = PageMap::new();
        for index in 0..size.div_ceil(PAGE) {
            let page = self.page(index, size.div_ceil(PAGE) - index, size)?.ok_or(Errno::ENOSPC)?;
            let in_ram = self.content().pages.borrow().get(index).is_some();
            if in_ram {
                // Programs that mapped it see later writes, as they would with one file.
                copy.insert(index, page);
            } else {
                let frame = Frame::alloc().ok_or(Errno::ENOSPC)?;
                frame.copy_from(&page);
                copy.insert(index, frame);
            }
        }
        Ok(copy)
    }

    /// Drops cached content: the overlay has its own copy now.
    pub(crate) fn drop_content(&self) {
        if let Some(content) = self.content.get() {
            content.outdate(self.host());
            content.close(self.host());
        }
    }
}

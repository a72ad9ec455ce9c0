//! Changes of a host file's content: they go to the host, small writes together with others.

use super::super::gather::{End, SMALL};
use super::super::order::Asked;
use super::super::{HostNode, Key};
use super::{MAX_WRITE, PAGE, Stamp, WHOLE};
use crate::Src;
use crate::memory::chunk;
use abi::request::{Fallocate, NodeAttr, Seek, Sync, Truncate, Write};
use hal::frame::{FRAME_SIZE, Frame};
use uapi::Result;

/// Pieces of `data`, one for each page that it begins in at byte `start`: the page, where in it, and the bytes.
fn by_page(start: u64, data: &[u8]) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let (mut at, mut rest) = (start, data);
    core::iter::from_fn(move || {
        let in_page = (at % PAGE) as usize;
        let (part, after) = rest.split_at(rest.len().min(FRAME_SIZE - in_page));
        let page = at / PAGE;
        (at, rest) = (at + part.len() as u64, after);
        (!part.is_empty()).then_some((page, in_page, part))
    })
}

impl HostNode {
    /// A write of `data` was gathered, to a file that will have had `size` bytes by then: pages that are being read are old
    /// when they come. Those that are cached follow; where an append will land is not sure, so its pages are read again.
    pub(in super::super) fn gathers(&self, at: Option<u64>, start: u64, data: &[u8], size: u64) {
        let content = self.content();
        content.withdraw();
        content.epoch.set(content.epoch.get() + 1);
        if at.is_some() {
            return self.write_pages(start, data, size);
        }
        for (page, _, _) in by_page(start, data) {
            if content.pages.borrow().is_empty() {
                break;
            }
            let removed = content.pages.borrow_mut().remove(page);
            self.host().cache.pages_dropped(usize::from(removed.is_some()));
        }
    }

    /// Writes to the cached pages of a file that had `size` bytes before. Of a small file, pages that hold nothing else are kept
    /// from here on: what one program writes, another one often reads.
    fn write_pages(&self, start: u64, data: &[u8], size: u64) {
        let content = self.content();
        let is_small = size.max(start + data.len() as u64) <= chunk(WHOLE as usize) as u64;
        let keeps = is_small && content.chunks.borrow().is_empty() && !self.host().io.memory_is_short();
        let mut added = 0;
        for (page, in_page, part) in by_page(start, data) {
            if let Some(frame) = content.pages.borrow().get(page) {
                frame.write(in_page, part);
                continue;
            }
            let is_all = in_page == 0 && (part.len() == FRAME_SIZE || page * PAGE + part.len() as u64 >= size);
            if let Some(frame) = (keeps && is_all).then(Frame::alloc).flatten() {
                frame.write(0, part);
                frame.zero(part.len(), FRAME_SIZE - part.len());
                self.insert_page(page, frame);
                added += 1;
            }
        }
        if added > 0 {
            content.used.set(true);
            self.host().cache.pages_added(added, false);
        }
    }

    /// Writes to the host, at once or with other small writes soon: bytes and the offset after them. `None`: at the end.
    pub(in super::super) fn write_content(&self, offset: Option<u64>, src: &mut dyn Src) -> Result<(usize, End)> {
        let (mut at, mut done) = (offset, 0);
        let mut end = End::At(offset.unwrap_or(0));
        let is_small = src.remaining() <= SMALL;
        while src.remaining() > 0 {
            let len = src.remaining().min(chunk(MAX_WRITE));
            let step = self.host().with_buffer(len, |buffer| {
                let got = src.get(buffer)?;
                let data = &buffer[..got];
                if is_small && let Some(end) = self.try_gather(at, data) {
                    return Ok((got, end, true));
                }
                let was_dense = is_small && self.writes_are_dense();
                let offset = at.unwrap_or(u64::MAX);
                let mut around = [NodeAttr::default(); 2];
                let written = self.on_handle(true, |handle| {
                    // The requests before it get their numbers first.
                    self.host().flush();
                    let (asked, epoch, number) =
                        (self.host().ask(), self.content().epoch.get(), self.host().count_write());
                    let written = self.host().call(Write { handle, offset }, data, &mut around)?;
                    Ok((written, (asked, epoch, number)))
                });
                let (written, asked) = written.inspect_err(|_| {
                    // A disk that fails may have taken a part.
                    self.content().outdate(self.host());
                    self.stale();
                })?;
                let end = written.end;
                let written = (written.bytes as usize).min(got);
                let after = if at.is_some() { offset + written as u64 } else { end };
                let start = after - (written as u64).min(after);
                self.written(start, &data[..written], &around, asked);
                if is_small {
                    self.wrote_small(was_dense);
                }
                Ok((written, End::At(after), written < len))
            });
            match step {
                Ok((written, after, short)) => {
                    done += written;
                    at = at.map(|at| at + written as u64);
                    end = after;
                    if short {
                        break;
                    }
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok((done, end))
    }

    /// Follows a write of ours in the cache. `around`: attributes right before and after it. Pages that were read from the
    /// content as it was before are changed too; if somebody else changed it, or another write of ours was under way at the
    /// same time, nobody knows which came last, and they are read again.
    fn written(&self, offset: u64, data: &[u8], around: &[NodeAttr; 2], (asked, epoch, number): (Asked, u64, u64)) {
        let content = self.content();
        let [before, after] = around;
        let is_known = self.is_of(around);
        // Where nothing is cached nothing can be old.
        let follows = content.stamp.get() == Stamp::of(before) || content.pages.borrow().is_empty();
        if is_known && follows && content.epoch.get() == epoch {
            content.withdraw();
            content.epoch.set(epoch + 1);
            self.write_pages(offset, data, before.size);
            content.stamp.set(Stamp::of(after));
        } else {
            content.outdate(self.host());
        }
        self.written_to(is_known, after, asked, number);
    }

    /// Whether attributes around a write are this file's.
    fn is_of(&self, [before, after]: &[NodeAttr; 2]) -> bool {
        Key::of(before) == Key::of(after) && Key::of(after) == Key::of(&self.attr_cached())
    }

    /// Follows the attributes that a write brought, or a change of them, the request `number`. The host carries these requests
    /// out in their order, so they are newer than those of an earlier one, although that was not answered when this one was sent.
    pub(in super::super) fn written_to(&self, is_known: bool, after: &NodeAttr, asked: Asked, number: u64) {
        let content = self.content();
        if !is_known {
            self.stale();
            return;
        }
        let (change, last) = content.written.get();
        let follows = self.changed.get() == change && last < number;
        let changes = if follows { asked.changes.max(change) } else { asked.changes };
        let at = if follows { asked.at.max(self.fetched.get()) } else { asked.at };
        let mode = if content.changing.get() > 0 { self.attr_cached().mode } else { after.mode };
        self.changed_to(&NodeAttr { mode, ..*after }, Asked { at, changes });
        content.written.set((self.changed.get(), number));
    }

    /// Follows a gathered write that the host has: [`Self::gathers`] changed what is cached before.
    pub(in super::super) fn follow_gathered(&self, around: &[NodeAttr; 2], asked: Asked, number: u64) {
        let content = self.content();
        let is_known = self.is_of(around);
        let is_unseen = content.unseen.take() == Some(around[0].size);
        if is_known && (is_unseen || content.stamp.get() == Stamp::of(&around[0])) {
            content.stamp.set(Stamp::of(&around[1]));
        } else {
            content.outdate(self.host());
        }
        self.written_to(is_known, &around[1], asked, number);
    }

    /// Follows a change of attributes, the request `number`. `after`, `before`: attributes around it. The content stays as it is,
    /// unless the size changed.
    pub(in super::super) fn follow_change(&self, [after, before]: &[NodeAttr; 2], asked: Asked, number: u64) {
        let (content, is_known) = (self.content(), self.is_of(&[*before, *after]));
        if is_known && content.stamp.get() == Stamp::of(before) && before.size == after.size {
            content.stamp.set(Stamp::of(after));
        }
        self.written_to(is_known, after, asked, number);
    }

    /// Changes the size on the host.
    pub(in super::super) fn truncate_content(&self, size: u64) -> Result<()> {
        self.on_handle(true, |handle| self.host().call(Truncate { handle, size }, &(), &mut ()))?;
        self.content().outdate(self.host());
        self.stale();
        // Until the attributes are asked for: a write that follows at once is probably to a file of this size.
        self.attr.set(NodeAttr { size, ..self.attr.get() });
        Ok(())
    }

    /// fallocate(2) on the host.
    pub(in super::super) fn fallocate_content(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        let mode = u64::from(mode);
        self.on_handle(true, |handle| self.host().call(Fallocate { handle, mode, offset, len }, &(), &mut ()))?;
        self.content().outdate(self.host());
        self.stale();
        Ok(())
    }

    /// Next data or hole of the host's file. ENXIO.
    pub(crate) fn seek_content(&self, offset: u64, hole: bool) -> Result<u64> {
        self.on_handle(false, |handle| self.host().call(Seek { handle, offset, hole }, &(), &mut ()))
    }

    /// fsync(2) on the host.
    pub(in super::super) fn sync_content(&self, data_only: bool) -> Result<()> {
        // What was never opened was never written here.
        // Gathered writes are sent before any request.
        let Some(handle) = self.content.get().and_then(|c| c.handle()) else { return self.settle_content() };
        self.host().call(Sync { handle, data_only }, &(), &mut ())
    }
}

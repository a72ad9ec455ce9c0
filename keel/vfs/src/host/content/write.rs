//! Changes of a host file's content: they go to the host, small writes together with others.

use super::super::gather::{End, SMALL};
use super::super::order::Asked;
use super::super::{Host, HostNode, Key};
use super::{Content, MAX_WRITE, PAGE, Stamp};
use crate::Src;
use crate::memory::chunk;
use abi::request::{Fallocate, NodeAttr, Seek, Sync, Truncate, Write};
use hal::frame::FRAME_SIZE;
use uapi::Result;

impl Content {
    /// A write of `data` was gathered: pages that are being read are old when they come. Those that are cached follow;
    /// where an append will land is not sure, so its pages are read again.
    pub(in super::super) fn gathers(&self, host: &Host, at: Option<u64>, start: u64, data: &[u8]) {
        self.withdraw();
        self.epoch.set(self.epoch.get() + 1);
        if self.pages.borrow().is_empty() {
            return;
        }
        let (mut at_byte, mut rest) = (start, data);
        while !rest.is_empty() {
            let in_page = (at_byte % PAGE) as usize;
            let n = (FRAME_SIZE - in_page).min(rest.len());
            let mut pages = self.pages.borrow_mut();
            if at.is_some() {
                if let Some(frame) = pages.get(at_byte / PAGE) {
                    frame.write(in_page, &rest[..n]);
                }
            } else if let Some(frame) = pages.remove(at_byte / PAGE) {
                drop(pages);
                drop(frame);
                host.cache.pages_dropped(1);
            }
            at_byte += n as u64;
            rest = &rest[n..];
        }
    }
}

impl HostNode {
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
        if is_known && content.stamp.get() == Stamp::of(before) && content.epoch.get() == epoch {
            content.withdraw();
            content.epoch.set(epoch + 1);
            let (mut at, mut rest) = (offset, data);
            while !rest.is_empty() {
                let in_page = (at % PAGE) as usize;
                let n = (FRAME_SIZE - in_page).min(rest.len());
                if let Some(frame) = content.pages.borrow().get(at / PAGE) {
                    frame.write(in_page, &rest[..n]);
                }
                at += n as u64;
                rest = &rest[n..];
            }
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

    /// Follows a gathered write that the host has: [`Content::gathers`] changed what is cached before.
    pub(in super::super) fn follow_gathered(&self, around: &[NodeAttr; 2], asked: Asked, number: u64) {
        let content = self.content();
        let is_known = self.is_of(around);
        if is_known && content.stamp.get() == Stamp::of(&around[0]) {
            content.stamp.set(Stamp::of(&around[1]));
        } else {
            content.outdate(self.host());
        }
        self.written_to(is_known, &around[1], asked, number);
    }

    /// Follows a gathered change of attributes that the host has.
    pub(in super::super) fn follow_change(&self, attr: &NodeAttr, asked: Asked, number: u64) {
        self.written_to(Key::of(attr) == Key::of(&self.attr_cached()), attr, asked, number);
    }

    /// Changes the size on the host.
    pub(in super::super) fn truncate_content(&self, size: u64) -> Result<()> {
        self.on_handle(true, |handle| self.host().call(Truncate { handle, size }, &(), &mut ()))?;
        self.content().outdate(self.host());
        self.stale();
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

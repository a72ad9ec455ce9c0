//! Changes of a host file's content: they go to the host at once.

use super::super::order::Asked;
use super::super::{HostNode, Key};
use super::{MAX_WRITE, PAGE, Stamp};
use crate::Src;
use abi::request::{NodeAttr, Op};
use hal::frame::FRAME_SIZE;
use uapi::Result;

impl HostNode {
    /// Writes through to the host: bytes and the offset after them. `None`: at the end.
    pub(in super::super) fn write_content(&self, offset: Option<u64>, src: &mut dyn Src) -> Result<(usize, u64)> {
        let (mut at, mut done) = (offset, 0);
        let mut end = offset.unwrap_or(0);
        while src.remaining() > 0 {
            let len = src.remaining().min(MAX_WRITE);
            let step = self.host().with_buffer(len, |buffer| {
                let got = src.get(buffer)?;
                let data = &buffer[..got];
                let offset = at.unwrap_or(u64::MAX);
                let mut around = [NodeAttr::default(); 2];
                let reply = self.on_handle(true, |id| {
                    let (asked, epoch) = (self.host().ask(), self.content().epoch.get());
                    let room = bytemuck::cast_slice_mut(&mut around);
                    let reply = self.host().io.call(Op::Write, [id, offset, 0, 0, 0, 0], data, room)?;
                    Ok((reply, asked, epoch))
                });
                let (reply, asked, epoch) = reply.inspect_err(|_| {
                    // A disk that fails may have taken a part.
                    self.content().outdate(self.host());
                    self.stale();
                })?;
                let written = (reply.result as usize).min(got);
                let after = if at.is_some() { offset + written as u64 } else { reply.extra[0] };
                let start = after - (written as u64).min(after);
                self.written(start, &data[..written], &around, (asked, epoch));
                Ok((written, after, written < len))
            });
            match step {
                Ok((written, after, short)) => {
                    done += written;
                    end = after;
                    at = at.map(|_| after);
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
    fn written(&self, offset: u64, data: &[u8], around: &[NodeAttr; 2], (asked, epoch): (Asked, u64)) {
        let content = self.content();
        let [before, after] = around;
        let is_known = Key::of(before) == Key::of(after) && Key::of(after) == Key::of(&self.attr_cached());
        if is_known && content.stamp.get() == Stamp::of(before) && content.epoch.get() == epoch {
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
        if is_known {
            self.changed_to(after, asked);
        } else {
            self.stale();
        }
    }

    /// Changes the size on the host.
    pub(in super::super) fn truncate_content(&self, size: u64) -> Result<()> {
        self.on_handle(true, |id| self.host().io.call(Op::Truncate, [id, size, 0, 0, 0, 0], &[], &mut []))?;
        self.content().outdate(self.host());
        self.stale();
        Ok(())
    }

    /// fallocate(2) on the host.
    pub(in super::super) fn fallocate_content(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        let mode = u64::from(mode);
        self.on_handle(true, |id| self.host().io.call(Op::Fallocate, [id, mode, offset, len, 0, 0], &[], &mut []))?;
        self.content().outdate(self.host());
        self.stale();
        Ok(())
    }

    /// fsync(2) on the host.
    pub(in super::super) fn sync_content(&self, data_only: bool) -> Result<()> {
        // What was never opened was never written here.
        let Some(id) = self.content.get().and_then(|c| c.handle()) else { return Ok(()) };
        self.host().io.call(Op::Sync, [id, u64::from(data_only), 0, 0, 0, 0], &[], &mut []).map(drop)
    }
}

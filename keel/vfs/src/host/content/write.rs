//! Changes of a host file's content: they go to the host at once.

use super::super::HostNode;
use super::{MAX_WRITE, PAGE};
use crate::Src;
use abi::request::Op;
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
                let args = [at.unwrap_or(u64::MAX), 0, 0, 0, 0];
                let reply = self
                    .on_handle(true, |id| self.host().io.call(Op::Write, [id, args[0], 0, 0, 0, 0], data, &mut []))?;
                let written = (reply.result as usize).min(got);
                let after = if at.is_some() { args[0] + written as u64 } else { reply.extra[0] };
                self.written(after - (written as u64).min(after), &data[..written]);
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

    /// Follows a write of ours in the cache.
    fn written(&self, offset: u64, data: &[u8]) {
        let content = self.content();
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
        content.own_write.set(hal::clock::realtime_ns());
        self.stale();
    }

    /// Changes the size on the host.
    pub(in super::super) fn truncate_content(&self, size: u64) -> Result<()> {
        self.on_handle(true, |id| self.host().io.call(Op::Truncate, [id, size, 0, 0, 0, 0], &[], &mut []))?;
        self.content().drop_pages(self.host());
        self.stale();
        Ok(())
    }

    /// fallocate(2) on the host.
    pub(in super::super) fn fallocate_content(&self, mode: u32, offset: u64, len: u64) -> Result<()> {
        let mode = u64::from(mode);
        self.on_handle(true, |id| self.host().io.call(Op::Fallocate, [id, mode, offset, len, 0, 0], &[], &mut []))?;
        self.content().drop_pages(self.host());
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

//! What a sender has on its way: `SO_SNDBUF` limits it, and readers give it back.

use super::Unix;
use alloc::rc::Weak;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Bytes that Linux counts for one block of memory with so many bytes of a message: its allocator's
/// sizes and two structures.
const fn block(bytes: usize) -> usize {
    const SHARED: usize = 320;
    const BUFFER: usize = 256;
    let size = (bytes + SHARED).next_power_of_two();
    (if size < 512 { 512 } else { size }) + BUFFER
}

const PAGE: usize = 4096;
/// Most bytes of a stream that are in one block; the rest is in pages.
const STREAM_BLOCK: usize = 3776;
/// Most bytes of a packet that are in one block.
const PACKET_BLOCK: usize = 16_064;
/// Most bytes of a stream that are queued at a time.
const STREAM_PIECE: usize = STREAM_BLOCK + 32_768;
/// Most bytes of a packet that are in pages.
const PACKET_PAGES: usize = 17 * PAGE;

/// Bytes of a stream that are queued at a time by a sender with this `SO_SNDBUF`.
pub fn stream_piece(send_buffer: usize) -> usize {
    (send_buffer / 2 - 64).min(STREAM_PIECE)
}

/// What so many bytes of a stream, queued together, count.
pub fn stream_charge(bytes: usize) -> usize {
    let paged = bytes.saturating_sub(STREAM_BLOCK).next_multiple_of(PAGE).min(bytes);
    block(bytes - paged) + paged.next_multiple_of(PAGE)
}

/// What a packet counts.
pub fn packet_charge(bytes: usize) -> usize {
    let paged = bytes.saturating_sub(PACKET_BLOCK).min(PACKET_PAGES).next_multiple_of(PAGE).min(bytes);
    block(bytes - paged) + paged.next_multiple_of(PAGE)
}

/// What one queued message counts, until it is dropped.
#[derive(Debug)]
pub struct Charge {
    sender: Weak<Unix>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.upgrade() {
            sender.sent.set(sender.sent.get().saturating_sub(self.bytes));
            sender.tell_of_room();
        }
    }
}

impl Unix {
    /// Counts a message of this sender.
    pub(super) fn charge(&self, bytes: usize) -> Charge {
        self.sent.set(self.sent.get() + bytes);
        Charge { sender: self.me.clone(), bytes }
    }

    /// Another message may be queued.
    pub(super) fn may_send(&self) -> bool {
        self.sent.get() < self.options.send_buffer.get() as usize
    }

    /// poll(2) reports POLLOUT only when three quarters have been read: fewer wake-ups.
    pub(super) fn has_much_room(&self) -> bool {
        self.sent.get() * 4 <= self.options.send_buffer.get() as usize
    }

    pub(super) fn tell_of_room(&self) {
        if self.has_much_room() {
            self.writable.wake_all();
        }
    }

    /// Waits until another message may be queued, or the stream has ended. EAGAIN.
    pub(super) fn wait_to_send(&self, deadline: Option<u64>, flags: u32) -> Result<()> {
        let check = || (self.may_send() || self.write_ended.get() || self.error.get().is_some()).then_some(());
        match check() {
            Some(()) => Ok(()),
            None if flags & net::MSG_DONTWAIT != 0 => Err(Errno::EAGAIN),
            None => super::wait(&self.writable, deadline, check),
        }
    }
}

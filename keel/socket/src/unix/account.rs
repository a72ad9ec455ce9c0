//! Accounting of sent, unread data: `SO_SNDBUF` limits it, and receives release it.

use super::Unix;
use alloc::rc::Rc;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use hal::cell::Global;
use hal::sync::Sum;
use sched::wait::WaitQueue;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Size that Linux accounts for one skb with this many bytes: with the allocator's rounding and two structures.
const fn block(bytes: usize) -> usize {
    const SHARED: usize = 320;
    const BUFFER: usize = 256;
    let size = (bytes + SHARED).next_power_of_two();
    (if size < 512 { 512 } else { size }) + BUFFER
}

const PAGE: usize = 4096;
/// Maximum bytes of a stream in the linear part of an skb; the rest is in pages.
const STREAM_BLOCK: usize = 3776;
/// Maximum bytes of a packet in the linear part of an skb.
const PACKET_BLOCK: usize = 16_064;
/// Maximum bytes of a stream per skb.
const STREAM_PIECE: usize = STREAM_BLOCK + 32_768;
/// Maximum charge of a message, so that sums stay below 2^32.
pub const MOST: usize = 1 << 30;
/// Maximum bytes of a packet in pages.
const PACKET_PAGES: usize = 17 * PAGE;

/// Bytes of a stream that are queued at a time by a sender with this `SO_SNDBUF`.
pub fn stream_piece(send_buffer: usize) -> usize {
    (send_buffer / 2 - 64).min(STREAM_PIECE)
}

/// Charge of this many bytes of a stream, queued together.
pub fn stream_charge(bytes: usize) -> usize {
    let paged = bytes.saturating_sub(STREAM_BLOCK).next_multiple_of(PAGE).min(bytes);
    block(bytes - paged) + paged.next_multiple_of(PAGE)
}

/// Charge of a packet.
pub fn packet_charge(bytes: usize) -> usize {
    let paged = bytes.saturating_sub(PACKET_BLOCK).min(PACKET_PAGES).next_multiple_of(PAGE).min(bytes);
    block(bytes - paged) + paged.next_multiple_of(PAGE)
}

/// Account of a sender.
#[derive(Debug)]
pub struct Account {
    /// Its number; changes when it is bound.
    id: AtomicU64,
    /// Charge of sent, unread data, against `SO_SNDBUF`.
    pub sent: Sum,
    /// `SO_SNDBUF`.
    limit: AtomicU32,
    /// Waiters for room.
    pub writable: Rc<WaitQueue>,
}

impl Account {
    /// For a new socket.
    pub fn new(limit: u32) -> Rc<Self> {
        let account = Self {
            id: AtomicU64::new(0),
            sent: Sum::default(),
            limit: AtomicU32::new(limit),
            writable: WaitQueue::for_unlocked(),
        };
        account.renew();
        Rc::new(account)
    }

    /// Gives it a new number.
    pub fn renew(&self) {
        static LAST: Global<Cell<u64>> = Global::new(Cell::new(0));
        LAST.set(LAST.get() + 1);
        self.id.store(LAST.get(), Relaxed);
    }

    /// Its number, never 0.
    #[inline(always)]
    pub fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    /// `SO_SNDBUF`.
    #[inline(always)]
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed) as usize
    }

    /// `SO_SNDBUF` was set.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Relaxed);
    }

    /// Another message may be queued.
    #[inline(always)]
    pub fn may_send(&self) -> bool {
        (self.sent.get() as usize) < self.limit()
    }

    /// poll(2) reports POLLOUT only when three quarters have been read: fewer wake-ups.
    #[inline(always)]
    pub fn has_much_room(&self) -> bool {
        self.sent.get() as usize * 4 <= self.limit()
    }

    /// Wakes senders that wait for room, if there is enough.
    pub fn tell_of_room(&self) {
        if self.has_much_room() {
            self.writable.wake_all();
        }
    }
}

impl Unix {
    /// Waits until another message may be queued, or the stream has ended. EAGAIN.
    pub(super) fn wait_to_send(&self, deadline: Option<u64>, flags: u32) -> Result<()> {
        let check = || (self.account.may_send() || self.write_ended.get() || self.error.get().is_some()).then_some(());
        match check() {
            Some(()) => Ok(()),
            None if flags & net::MSG_DONTWAIT != 0 => Err(Errno::EAGAIN),
            None => super::wait(&self.account.writable, deadline, check),
        }
    }
}

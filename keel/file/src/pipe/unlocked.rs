//! Bytes through a pipe without the big lock.
//!
//! The pipe's lock is held while the bytes are copied: the copy is short, ends at a missing page, and the lock's holder
//! never waits for a call without the big lock. If the copy fails, or the call would wait, fail or allocate, there are
//! no side effects and the call is left to its handler.

use super::{PAGE, Piece, Pipe, State};
use crate::unlocked::Moved;
use hal::user as raw;
use sched::wait::WaitQueue;
use uapi::raw::general as g;

/// Maximum number of bytes moved under the lock.
const MOST: usize = 4 * PAGE;

impl Pipe {
    /// read(2). `None`: left to the handler.
    pub fn read_unlocked(&self, address: usize, room: usize) -> Option<Moved> {
        let mut state = self.state.lock();
        let bytes = room.min(state.ring.bytes());
        if state.busy || bytes == 0 || bytes > MOST {
            return None;
        }
        let (mut done, mut index) = (0, 0);
        while done < bytes {
            let piece = state.ring.get(index).filter(|piece| !piece.packet)?;
            let len = piece.len.min(bytes - done);
            raw::copy_frame_out(address + done, &piece.page, piece.start, len).ok()?;
            done += len;
            index += 1;
        }
        if hal::ring::has_losses() {
            return None;
        }
        let was_full = state.ring.is_full();
        let mut left = bytes;
        while left > 0 {
            let len = state.ring.front()?.len.min(left);
            left -= len;
            if let Some(page) = state.ring.consume(len)
                && page.refs() == 1
            {
                state.spare = Some(page);
            }
        }
        // A pipe with room has no waiting writer.
        Some(Moved { bytes, wakes: was_full })
    }

    /// write(2). `None`: left to the handler.
    pub fn write_unlocked(&self, address: usize, bytes: usize) -> Option<Moved> {
        if bytes == 0 || bytes > PAGE {
            return None;
        }
        let mut state = self.state.lock();
        // Without writers this descriptor was closed meanwhile: readers may have seen the end.
        if state.busy || self.readers() == 0 || self.writers() == 0 {
            return None;
        }
        let joined = if bytes < PAGE { state.ring.merge_room(bytes) } else { None };
        if let Some((page, end)) = joined {
            raw::copy_frame_in(page, end, address, bytes).ok()?;
            if hal::ring::has_losses() {
                return None;
            }
            state.ring.merged(bytes);
        } else {
            add_piece(&mut state, address, bytes)?;
        }
        Some(Moved { bytes, wakes: true })
    }

    /// Waiters for a write, or for a read.
    pub fn waiters(&self, write: bool) -> &WaitQueue {
        if write { &self.big.readable } else { &self.big.writable }
    }

    /// poll(2) events of an end, as long as the pipe has both.
    pub fn poll_unlocked(&self, reads: bool, writes: bool) -> Option<u32> {
        let state = self.state.lock();
        if reads && self.writers() == 0 || writes && self.readers() == 0 {
            return None;
        }
        let mut events = 0;
        if reads && !state.ring.is_empty() {
            events |= g::POLLIN | g::POLLRDNORM;
        }
        if writes && !state.ring.is_full() {
            events |= g::POLLOUT | g::POLLWRNORM;
        }
        Some(events)
    }
}

/// Adds a piece of the page that was kept.
fn add_piece(state: &mut State, address: usize, bytes: usize) -> Option<()> {
    if state.ring.is_full() {
        return None;
    }
    let page = state.spare.take()?;
    if raw::copy_frame_in(&page, 0, address, bytes).is_err() || hal::ring::has_losses() {
        state.spare = Some(page);
        return None;
    }
    let piece = Piece { page, start: 0, len: bytes, mergeable: true, packet: false };
    // There is a slot.
    state.ring.push(piece).ok()
}

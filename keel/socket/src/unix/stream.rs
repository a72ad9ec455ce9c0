//! Bytes of connected streams.

use super::super::message::{Control, Received};
use super::super::wait;
use super::urgent::{Piece, Place};
use super::{Role, Unix, account, queue};
use alloc::rc::Rc;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::{Dst, Src};

impl Unix {
    pub(super) fn send_stream(&self, src: &mut dyn Src, mut control: Control, flags: u32) -> Result<usize> {
        let mut done = 0;
        let end = |done: usize, errno: Errno| if done > 0 { Ok(done) } else { Err(errno) };
        let deadline = self.options.send_deadline();
        // The last byte of an urgent message is sent separately.
        let urgent = usize::from(flags & net::MSG_OOB != 0);
        if src.remaining() < urgent {
            return Err(Errno::EOPNOTSUPP);
        }
        loop {
            let peer = match self.writable_peer(flags) {
                Ok(peer) => peer,
                Err(errno) => return end(done, errno),
            };
            if src.remaining() == 0 {
                return Ok(done);
            }
            if !self.account.may_send() {
                if let Err(errno) = self.wait_to_send(deadline, flags) {
                    return end(done, errno);
                }
                continue;
            }
            let ordinary = src.remaining() - urgent;
            let piece = account::stream_piece(self.options.send_buffer.get() as usize).min(ordinary.max(urgent));
            let mut data = match queue::buffer(piece) {
                Ok(data) => data,
                Err(errno) => return end(done, errno),
            };
            let got = match src.get(&mut data) {
                Ok(0) => return Ok(done),
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            data.truncate(got);
            let is_urgent = ordinary == 0 && urgent > 0;
            let packet = match self.packet(&peer, data, account::stream_charge(got), &mut control, is_urgent) {
                Ok(packet) => packet,
                Err(errno) => return end(done, errno),
            };
            let newest = is_urgent.then(|| Rc::downgrade(&packet));
            peer.end.inbox.push(packet);
            if let Some(newest) = newest {
                peer.urgent_came(newest);
            }
            peer.readable.wake_for_data();
            done += got;
        }
    }

    pub(super) fn receive_stream(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        if self.role.get() != Role::Connected {
            return Err(Errno::EINVAL);
        }
        let peek = flags & net::MSG_PEEK != 0;
        let waits_for_all = flags & net::MSG_WAITALL != 0;
        let want = dst.remaining();
        let target = if waits_for_all { want } else { want.min(self.options.low_water.get() as usize) }.max(1);
        let deadline = self.options.receive_deadline();
        let mut received = Received::default();
        let mut place = Place { index: 0, skip: self.peek_start(flags) };
        let (mut sender, mut process) = (None, None);
        // Even an empty read waits for data.
        loop {
            let seen = self.end.inbox.pushed();
            let turn = self.end.inbox.turn();
            let packet = match self.find_piece(&mut place, received.len > 0, peek, &turn) {
                Piece::Packet(packet) => packet,
                Piece::Mark => break,
                Piece::Nothing => {
                    drop(turn);
                    match self.wait_for_more(received.len >= target, seen, deadline, flags) {
                        Ok(true) => continue,
                        Ok(false) => break,
                        Err(_) if received.len > 0 => break,
                        Err(errno) => return Err(errno),
                    }
                }
            };
            // Bytes of different senders, or beyond descriptors, are not joined.
            let other_sender = self.options.wants_sender() && sender.is_some_and(|one| one != packet.credentials);
            if other_sender {
                break;
            }
            let rest = packet.rest().get(place.skip..).unwrap_or_default();
            let n = rest.len().min(dst.remaining());
            match dst.put_all(&rest[..n]) {
                Ok(()) => {}
                Err(_) if received.len > 0 => break,
                Err(errno) => return Err(errno),
            }
            received.len += n;
            sender = Some(packet.credentials);
            process.clone_from(&packet.process);
            if received.from.is_none() && packet.from.len() > 2 {
                received.from = Some(packet.from.clone());
            }
            self.move_peek(n, peek);
            let over = if peek {
                received.rights.extend(packet.rights.borrow().files().iter().cloned());
                place = Place { index: place.index + 1, skip: 0 };
                // A peek does not wait for more.
                place.index >= self.end.inbox.len()
            } else {
                received.rights.append(&mut packet.rights.borrow_mut().take());
                self.end.inbox.consume(n);
                packet.left() > 0
            };
            drop(packet);
            drop(turn);
            if over || !received.rights.is_empty() || dst.remaining() == 0 {
                break;
            }
        }
        self.tell_sender(&mut received, sender.flatten(), process);
        received.left = self.tells_left.get().then(|| self.end.inbox.bytes().min(i32::MAX as usize) as i32);
        Ok(received)
    }

    /// Nothing (more) is there: waits for it, unless there is enough. `false` at the end. EAGAIN, the pending error.
    fn wait_for_more(&self, enough: bool, seen: u64, deadline: Option<u64>, flags: u32) -> Result<bool> {
        if enough {
            return Ok(false);
        }
        if let Some(errno) = self.take_failure() {
            return Err(errno);
        }
        if self.at_end() {
            return Ok(false);
        }
        if flags & net::MSG_DONTWAIT != 0 {
            return Err(Errno::EAGAIN);
        }
        let check = || (self.end.inbox.pushed() != seen || self.error.get().is_some() || self.at_end()).then_some(());
        wait(&self.readable, deadline, check)?;
        Ok(true)
    }
}

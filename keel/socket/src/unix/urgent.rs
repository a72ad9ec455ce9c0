//! The urgent byte of a stream, `MSG_OOB`: a separate packet, at which receives stop.

use super::super::message::Received;
use super::queue::{Packet, Turn};
use super::{Kind, Unix};
use alloc::rc::{Rc, Weak};
use file::sigio;
use uapi::raw::net;
use uapi::{Errno, Result};
use vfs::Dst;

/// Position of a receive in the inbox: peeks advance, others stay at the start.
pub struct Place {
    /// Packet.
    pub index: usize,
    /// Bytes before that are passed over, `SO_PEEK_OFF`.
    pub skip: usize,
}

/// Next piece for a receive.
pub enum Piece {
    /// Bytes.
    Packet(Rc<Packet>),
    /// The urgent byte: bytes on both its sides are not joined.
    Mark,
    /// Nothing yet.
    Nothing,
}

impl Unix {
    fn is_urgent(&self, packet: &Rc<Packet>) -> bool {
        Weak::as_ptr(&self.urgent.borrow()) == Rc::as_ptr(packet)
    }

    fn urgent_packet(&self) -> Option<Rc<Packet>> {
        self.urgent.borrow().upgrade()
    }

    fn urgent_inline(&self) -> bool {
        self.options.is_on(net::SO_OOBINLINE)
    }

    /// An urgent byte that was not received.
    pub(super) fn has_urgent(&self) -> bool {
        self.urgent_packet().is_some()
    }

    /// The newest packet is an urgent byte: an older one becomes part of the stream.
    pub(super) fn urgent_came(&self, newest: Weak<Packet>) {
        *self.urgent.borrow_mut() = newest;
        self.review();
        let file = self.file.borrow().upgrade();
        if let Some(file) = file {
            sigio::urgent(&file);
        }
    }

    /// Finds the next piece for a receive. `some`: bytes were received already. Skips the urgent byte unless
    /// `SO_OOBINLINE`.
    pub(super) fn find_piece(&self, place: &mut Place, some: bool, peek: bool, turn: &Turn<'_>) -> Piece {
        loop {
            let Some(packet) = self.end.inbox.get(place.index, turn) else { return Piece::Nothing };
            let urgent = self.is_urgent(&packet);
            if packet.left() == 0 {
                // An urgent byte that was received out of turn.
                if some && !self.has_urgent() {
                    return Piece::Mark;
                }
                self.pass(place, peek);
                continue;
            }
            if urgent {
                if some {
                    return Piece::Mark;
                }
                if !peek {
                    *self.urgent.borrow_mut() = Weak::new();
                }
                if !self.urgent_inline() {
                    self.pass(place, peek);
                    continue;
                }
            }
            if place.skip < packet.left() {
                return Piece::Packet(packet);
            }
            place.skip -= packet.left();
            place.index += 1;
        }
    }

    fn pass(&self, place: &mut Place, peek: bool) {
        if peek {
            place.index += 1;
        } else {
            self.end.inbox.drop_front();
        }
    }

    /// `SIOCATMARK`. EOPNOTSUPP but for streams.
    pub(super) fn at_mark(&self) -> Result<bool> {
        if self.kind != Kind::Stream {
            return Err(Errno::EOPNOTSUPP);
        }
        if !self.backlog.borrow().is_empty() {
            // Connections wait like packets without bytes.
            return Ok(true);
        }
        let first = self.end.inbox.with(0, |first| (self.is_urgent(first), first.left()));
        let Some((is_urgent, left)) = first else { return Ok(false) };
        let next_is_urgent = || self.end.inbox.with(1, |next| self.is_urgent(next)) == Some(true);
        Ok(is_urgent || left == 0 && (!self.has_urgent() || next_is_urgent()))
    }

    /// recv(2) with `MSG_OOB`. EINVAL.
    pub(super) fn receive_urgent(&self, dst: &mut dyn Dst, flags: u32) -> Result<Received> {
        let _turn = self.end.inbox.turn();
        let packet = self.urgent_packet().filter(|_| !self.urgent_inline()).ok_or(Errno::EINVAL)?;
        let shown = packet.data.get(packet.taken.get()..).unwrap_or_default();
        let n = shown.len().min(1).min(dst.remaining());
        if flags & net::MSG_PEEK == 0 {
            *self.urgent.borrow_mut() = Weak::new();
            self.end.inbox.take_from(&packet, 1);
        }
        let len = if n > 0 { dst.put(&packet.data[packet.data.len() - n..])? } else { 0 };
        Ok(Received { len, flags: net::MSG_OOB, ..Received::default() })
    }
}

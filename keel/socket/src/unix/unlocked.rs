//! Bytes and messages between connected local sockets without the big lock.
//!
//! The lock of the receiver's inbox is held while the bytes are copied, as that of a [pipe](file::pipe). A
//! message reuses the memory of a received one, so there is no allocation. Calls that need more than bytes (names,
//! descriptors, credentials, urgent bytes, options), wait or fail are left to the handler, without side effects.

use super::super::IN;
use super::account::{self, Account};
use super::queue::{Inbox, Packet};
use super::{Kind, MAX_DATAGRAMS, OUT};
use alloc::rc::Rc;
use alloc::sync::Arc;
use file::unlocked::{Buffers, LocalSocket, Moved, announce};
use hal::cell::Global;
use hal::sync::grace::{self, Published};
use sched::wait::Told;

/// Maximum bytes per receive.
const MOST: usize = 16384;
/// Maximum bytes per send: larger message buffers are not cached.
const MOST_SENT: usize = 4096;

/// State of a local socket for calls without the big lock.
// No cache line is shared with other objects, which other virtual CPUs use.
#[repr(align(64))]
pub struct End {
    kind: Kind,
    pub(super) inbox: Inbox,
    account: Global<Rc<Account>>,
    /// The connected peer, until one of the two sockets is closed.
    peer: Published<End>,
}

impl End {
    pub(super) fn new(kind: Kind, inbox: Inbox, account: Rc<Account>) -> Self {
        Self { kind, inbox, account: Global::new(account), peer: Published::empty() }
    }

    pub(super) fn set_peer(&self, peer: Option<Arc<Self>>) {
        self.peer.replace(peer);
    }

    fn put(&self, from: &Buffers<'_>, peer: &Inbox) -> Option<usize> {
        let bytes = from.bytes();
        let account: &Account = &self.account;
        if bytes == 0 || bytes > MOST_SENT || self.inbox.is_special() || peer.is_special() || !account.may_send() {
            return None;
        }
        let (most, charge) = match self.kind {
            Kind::Stream => (account::stream_piece(account.limit()), account::stream_charge(bytes)),
            Kind::Datagram | Kind::SeqPacket => (account.limit() - 32, account::packet_charge(bytes)),
        };
        if bytes > most {
            return None;
        }
        let mut guard = peer.queue();
        let queue = &mut **guard;
        let is_full = self.kind == Kind::Datagram && queue.packets.len() > MAX_DATAGRAMS;
        let accepts = queue.accepts == 0 || queue.accepts == account.id();
        if !queue.open || is_full || !accepts || !queue.packets.has_room() {
            return None;
        }
        let fits = |packet: &Packet| packet.sender == account.id() && packet.data.capacity() >= bytes;
        let at = queue.spare.iter().rposition(|packet| fits(packet))?;
        // Nobody else has it: no handler receives a packet that was received.
        let packet = queue.spare.get_mut(at).and_then(Rc::get_mut)?;
        packet.data.clear();
        packet.data.resize(bytes, 0);
        from.fill(&mut packet.data)?;
        packet.taken.set(0);
        packet.charge.set(charge as u32);
        packet.credentials = None;
        let packet = queue.take_spare(at);
        account.sent.add(charge as u32);
        queue.bytes += bytes;
        queue.pushed += 1;
        queue.packets.push_back(packet);
        Some(bytes)
    }

    /// Moves received bytes to the program, as [`LocalSocket::receive`]; nobody is told.
    #[inline]
    fn take(&self, into: &Buffers<'_>, finish: Option<&mut dyn FnMut() -> Option<()>>) -> Option<Moved> {
        let room = into.bytes();
        if room == 0 || self.inbox.is_special() {
            return None;
        }
        let mut guard = self.inbox.queue();
        let queue = &mut **guard;
        let bytes = room.min(queue.bytes);
        if queue.busy || bytes == 0 {
            return None;
        }
        // Packets that end, and bytes of the next one.
        let (mut done, mut over, mut part) = (0, 0, 0);
        if self.kind == Kind::Stream {
            if bytes > MOST {
                return None;
            }
            while done < bytes {
                let packet = queue.packets.get(over).filter(|packet| packet.plain)?;
                let rest = packet.rest();
                part = rest.len().min(bytes - done);
                into.store(done, rest.get(..part)?)?;
                done += part;
                if part == rest.len() {
                    (over, part) = (over + 1, 0);
                }
            }
        } else {
            let packet = queue.packets.front().filter(|packet| packet.plain)?;
            let (data, crowded) = (&packet.data, queue.packets.len() > MAX_DATAGRAMS);
            if data.is_empty() || data.len() > bytes || self.kind == Kind::Datagram && crowded {
                return None;
            }
            into.store(0, data)?;
            (done, over) = (data.len(), 1);
        }
        // The handle of a sender is counted under the big lock only: a packet that has one must be kept.
        let has_own = |packet: &Rc<Packet>| packet.account.is_some();
        if queue.packets.front().is_some_and(|packet| has_own(packet) && !queue.keeps(packet)) {
            return None;
        }
        if let Some(finish) = finish {
            finish()?;
        }
        if hal::ring::has_losses() {
            return None;
        }
        let mut wakes = false;
        for _ in 0..over {
            let packet = queue.pop()?;
            let sender = queue.settle(&packet);
            wakes |= sender.is_some_and(|sender| sender.has_much_room() && sender.writable.is_of_interest());
            drop(queue.keep(packet));
        }
        if let Some(packet) = queue.packets.front()
            && part > 0
        {
            packet.taken.set(packet.taken.get() + part);
            queue.bytes -= part;
        }
        Some(Moved { bytes: done, wakes })
    }

    /// Notifies the sender, and pollers, of new room.
    fn tell_sender(&self) -> Told {
        if self.kind == Kind::Datagram {
            // The sender is unknown.
            return Told::Waiters;
        }
        grace::read(|reading| self.peer.get(reading).map_or(Told::All, |peer| peer.account.writable.tell()))
    }
}

impl LocalSocket for End {
    fn send(&self, from: &Buffers<'_>, enter: &mut dyn FnMut()) -> Option<Moved> {
        grace::read(|reading| {
            let peer = &self.peer.get(reading)?.inbox;
            let bytes = self.put(from, peer)?;
            Some(Moved { bytes, wakes: announce(peer.readable(), true, enter) })
        })
    }

    fn receive(
        &self,
        into: &Buffers<'_>,
        finish: Option<&mut dyn FnMut() -> Option<()>>,
        enter: &mut dyn FnMut(),
    ) -> Option<Moved> {
        let moved = self.take(into, finish)?;
        let wakes = moved.wakes
            && match self.tell_sender() {
                Told::All => false,
                Told::Sleepers | Told::Waiters => {
                    enter();
                    self.inbox.tell_senders();
                    true
                }
            };
        Some(Moved { wakes, ..moved })
    }

    fn poll(&self) -> Option<u32> {
        if self.kind == Kind::Datagram || self.inbox.is_special() {
            return None;
        }
        grace::read(|reading| self.peer.get(reading).map(drop))?;
        let received = {
            let queue = self.inbox.queue();
            if !queue.open {
                return None;
            }
            !queue.packets.is_empty()
        };
        let room = if self.account.has_much_room() { OUT } else { 0 };
        Some(if received { IN | room } else { room })
    }
}

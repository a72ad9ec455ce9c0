//! What waits in a local socket to be received.

use super::super::Address;
use super::super::message::Credentials;
use super::account::Charge;
use super::rights::Rights;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;

/// Bytes that were sent together, and what goes with them.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub data: Vec<u8>,
    /// Bytes at the beginning that were received already (streams).
    pub taken: Cell<usize>,
    /// Name of the sender.
    pub from: Address,
    /// The sender's credentials, if SO_PASSCRED was set at either end when it was sent.
    pub credentials: Option<Credentials>,
    /// Descriptions that travel along.
    pub rights: RefCell<Rights>,
    /// What it counts against the sender's buffer.
    pub _charge: Charge,
}

impl Packet {
    /// Bytes left.
    pub fn left(&self) -> usize {
        self.data.len() - self.taken.get()
    }
}

/// Packets in order.
#[derive(Debug, Default)]
pub struct Inbox {
    packets: RefCell<Pieces<Rc<Packet>>>,
    bytes: Cell<usize>,
    pushed: Cell<u64>,
}

impl Inbox {
    /// Packets that ever came.
    pub fn pushed(&self) -> u64 {
        self.pushed.get()
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Packets waiting.
    pub fn len(&self) -> usize {
        self.packets.borrow().len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.borrow().is_empty()
    }

    /// The packet number `index`, oldest first.
    pub fn get(&self, index: usize) -> Option<Rc<Packet>> {
        self.packets.borrow().get(index).cloned()
    }

    /// Adds a packet.
    pub fn push(&self, packet: Packet) {
        self.bytes.set(self.bytes.get() + packet.left());
        self.pushed.set(self.pushed.get() + 1);
        self.packets.borrow_mut().push_back(Rc::new(packet));
    }

    /// Takes `n` bytes of a packet, which stays in the queue.
    pub fn take_from(&self, packet: &Packet, n: usize) {
        let n = n.min(packet.left());
        packet.taken.set(packet.taken.get() + n);
        self.bytes.set(self.bytes.get() - n);
    }

    /// Takes `n` bytes of the oldest packet, and the packet itself if no byte is left.
    pub fn consume(&self, n: usize) {
        let Some(front) = self.get(0) else { return };
        self.take_from(&front, n);
        if front.left() == 0 {
            let _gone = self.packets.borrow_mut().pop_front();
        }
    }

    /// Drops the oldest packet.
    pub fn drop_front(&self) {
        if let Some(front) = self.get(0) {
            self.bytes.set(self.bytes.get() - front.left());
            let _gone = self.packets.borrow_mut().pop_front();
        }
    }

    /// Forgets everything; returns whether there was something, but for an urgent byte that was received.
    pub fn clear(&self) -> bool {
        let gone = self.packets.take();
        self.bytes.set(0);
        let read = gone.front().is_some_and(|first| first.left() == 0 && first.taken.get() > 0);
        gone.len() > usize::from(read)
    }
}

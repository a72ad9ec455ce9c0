//! What waits in a local socket to be received.

use super::super::Address;
use super::super::message::Credentials;
use crate::file::File;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

/// Bytes that were sent together, and what goes with them.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub data: Vec<u8>,
    /// Bytes at the beginning that were received already (streams).
    pub taken: Cell<usize>,
    /// Name of the sender.
    pub from: Address,
    /// The sender.
    pub credentials: Credentials,
    /// Descriptions that travel along.
    pub rights: RefCell<Vec<Rc<File>>>,
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
    packets: RefCell<VecDeque<Rc<Packet>>>,
    bytes: Cell<usize>,
}

impl Inbox {
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
        self.packets.borrow_mut().push_back(Rc::new(packet));
    }

    /// Takes `n` bytes of the oldest packet, and the packet itself if no byte is left.
    pub fn consume(&self, n: usize) {
        let Some(front) = self.get(0) else { return };
        let n = n.min(front.left());
        front.taken.set(front.taken.get() + n);
        self.bytes.set(self.bytes.get() - n);
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

    /// Forgets everything; returns whether there was something.
    pub fn clear(&self) -> bool {
        let gone = self.packets.take();
        self.bytes.set(0);
        !gone.is_empty()
    }
}

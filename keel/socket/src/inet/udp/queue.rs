//! Datagrams that wait to be received, and reports of those that did not arrive.

use super::super::Endpoint;
use super::super::control::Facts;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use keel_core::pieces::Pieces;

#[cfg(test)]
mod tests;

/// A datagram.
#[derive(Debug)]
pub struct Datagram {
    /// The bytes.
    pub data: Rc<Vec<u8>>,
    /// The sender.
    pub from: Endpoint,
    /// Its source, destination and delivery data.
    pub facts: Facts,
    /// Datagrams that were lost before it, if the receiver counted them then.
    pub drops: u32,
}

/// Size that counts against `SO_RCVBUF`, including Linux's overhead.
pub fn charge(len: usize) -> usize {
    if len < 4096 { (len + 384).next_power_of_two().max(512) + 256 } else { len + 1280 }
}

/// Datagrams in order.
#[derive(Debug, Default)]
pub struct Inbox {
    datagrams: RefCell<Pieces<Rc<Datagram>>>,
    charged: Cell<usize>,
    drops: Cell<u64>,
}

impl Inbox {
    /// Datagrams that were lost.
    pub fn drops(&self) -> u64 {
        self.drops.get()
    }

    /// Adds a datagram, unless those that wait fill `limit` already: then it is lost.
    pub fn push(&self, datagram: Datagram, limit: usize) -> bool {
        let fits = self.charged.get() <= limit;
        if fits {
            self.charged.set(self.charged.get() + charge(datagram.data.len()));
            self.datagrams.borrow_mut().push_back(Rc::new(datagram));
        } else {
            self.drops.set(self.drops.get() + 1);
        }
        fits
    }

    /// The oldest.
    pub fn front(&self) -> Option<Rc<Datagram>> {
        self.datagrams.borrow().front().cloned()
    }

    /// The datagram at offset `skip`, and the offset within it.
    pub fn behind(&self, mut skip: usize) -> Option<(Rc<Datagram>, usize)> {
        for datagram in self.datagrams.borrow().iter() {
            if skip < datagram.data.len() || skip == 0 {
                return Some((datagram.clone(), skip));
            }
            skip -= datagram.data.len();
        }
        None
    }

    /// Takes the oldest.
    pub fn pop(&self) -> Option<Rc<Datagram>> {
        let front = self.datagrams.borrow_mut().pop_front()?;
        self.charged.set(self.charged.get().saturating_sub(charge(front.data.len())));
        Some(front)
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.datagrams.borrow().is_empty()
    }

    /// Bytes that wait with their overhead, and datagrams that were lost.
    pub fn usage(&self) -> (usize, u64) {
        (self.charged.get(), self.drops.get())
    }

    /// Discards all datagrams.
    pub fn clear(&self) {
        let old = self.datagrams.take();
        self.charged.set(0);
        drop(old);
    }
}

/// A datagram that had no receiver (`IP_RECVERR`).
#[derive(Debug)]
pub struct Report {
    /// Its destination.
    pub to: Endpoint,
    /// The bytes.
    pub data: Rc<Vec<u8>>,
}

/// Maximum number of queued reports.
const MAX_REPORTS: usize = 64;

/// Reports in order.
#[derive(Debug, Default)]
pub struct Reports(RefCell<VecDeque<Report>>);

impl Reports {
    /// Adds one, unless there are many.
    pub fn push(&self, report: Report) {
        let mut reports = self.0.borrow_mut();
        if reports.len() < MAX_REPORTS {
            reports.push_back(report);
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        let old = self.0.take();
        drop(old);
    }

    /// Takes the oldest.
    pub fn pop(&self) -> Option<Report> {
        self.0.borrow_mut().pop_front()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

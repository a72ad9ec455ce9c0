//! Completions of sends with `MSG_ZEROCOPY`, `SO_ZEROCOPY`.
//!
//! The bytes are always copied, as Linux does with those that stay on the machine, and the completion says so.

use super::super::message::{Part, Received};
use super::super::options::Options;
use super::Base;
use super::ip_options::{SOL_IP, SOL_IPV6};
use core::cell::Cell;
use smallvec::SmallVec;
use uapi::raw::net;

/// Flag of a send whose bytes need not be copied.
const MSG_ZEROCOPY: u32 = 0x0400_0000;
/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED`.
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;
/// Bytes of `struct sockaddr_in` and `struct sockaddr_in6`.
const ADDRESS4: usize = 16;
const ADDRESS6: usize = 28;

/// Sends that were completed and not reported.
#[derive(Clone, Debug, Default)]
pub struct Completions {
    /// Number of the next send.
    next: Cell<u32>,
    /// How many of the last ones are not reported.
    waiting: Cell<u32>,
}

impl Completions {
    /// Bytes were sent with these flags: returns whether that will be reported.
    pub fn sent(&self, options: &Options, bytes: usize, flags: u32) -> bool {
        if bytes == 0 || flags & MSG_ZEROCOPY == 0 || !options.is_on(net::SO_ZEROCOPY) {
            return false;
        }
        self.next.set(self.next.get().wrapping_add(1));
        self.waiting.set(self.waiting.get().saturating_add(1));
        true
    }

    /// Whether there is something to report.
    pub fn is_empty(&self) -> bool {
        self.waiting.get() == 0
    }

    /// recv(2) with `MSG_ERRQUEUE`.
    pub fn report(&self, base: &Base) -> Option<Received> {
        let waiting = self.waiting.take();
        if waiting == 0 {
            return None;
        }
        let (first, last) = (self.next.get().wrapping_sub(waiting), self.next.get().wrapping_sub(1));
        let (level, kind, address) = match base.family {
            net::AF_INET => (SOL_IP, net::IP_RECVERR, ADDRESS4),
            _ => (SOL_IPV6, net::IPV6_RECVERR, ADDRESS6),
        };
        let mut data: SmallVec<[u8; 32]> = SmallVec::from_slice(&[0, 0, 0, 0, ORIGIN, 0, COPIED, 0]);
        data.extend_from_slice(&first.to_ne_bytes());
        data.extend_from_slice(&last.to_ne_bytes());
        data.resize(data.len() + address, 0);
        let mut received = Received { flags: net::MSG_ERRQUEUE, ..Received::default() };
        received.parts.push(Part { level, kind, data });
        Some(received)
    }
}

//! Statistics of the loopback device, and lists of sockets, for `/proc/net`.

use super::super::netns::NetNs;
use super::tcp::{self, State};
use super::{Endpoint, udp};
use alloc::rc::Rc;
use core::cell::Cell;

/// Events that are counted.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Count {
    /// Transfers (each counts as a packet), and their bytes.
    Packets,
    /// Bytes of those.
    Bytes,
    /// Transfers of TCP.
    TcpSegments,
    /// Active opens.
    TcpActiveOpens,
    /// Connections that were let in.
    TcpPassiveOpens,
    /// Connections that were refused.
    TcpAttemptFails,
    /// Connections that were broken off.
    TcpResets,
    /// Datagrams that were sent.
    UdpSent,
    /// Received datagrams.
    UdpReceived,
    /// Datagrams without a receiver (`NoPorts`).
    UdpNoPorts,
    /// Datagrams that found their queue full.
    UdpDropped,
}

const COUNTS: usize = Count::UdpDropped as usize + 1;

/// The numbers of a namespace.
pub type Counted = [Cell<u64>; COUNTS];

impl Count {
    /// Counts `n` more.
    #[inline]
    pub fn add(self, ns: &NetNs, n: u64) {
        let cell = &ns.counted[self as usize];
        cell.set(cell.get().wrapping_add(n));
    }

    /// The number so far.
    pub fn get(self, ns: &NetNs) -> u64 {
        ns.counted[self as usize].get()
    }
}

/// A socket in the tables.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// `AF_INET` or `AF_INET6`.
    pub family: u32,
    /// Own address.
    pub local: Endpoint,
    /// The peer's.
    pub remote: Option<Endpoint>,
    /// Number of the state.
    pub state: u8,
    /// Bytes (or connections) that wait to be received.
    pub received: usize,
    /// Bytes that wait to be sent.
    pub sent: usize,
    /// Maximum backlog.
    pub backlog: usize,
    /// User id of its creator.
    pub uid: u32,
    /// Inode number.
    pub ino: u64,
    /// Datagrams that were lost.
    pub drops: u64,
}

/// TCP sockets with a port, listening ones first.
pub fn tcp(ns: &NetNs) -> impl Iterator<Item = Row> {
    let row = |tcp: Rc<tcp::Tcp>| {
        let base = tcp.base();
        let (received, sent) = tcp.waiting();
        // The end of the peer's stream has a place in it.
        let received = received + usize::from(tcp.state() == State::CloseWait);
        Row {
            family: base.family,
            local: base.local.get(),
            remote: base.remote.get(),
            state: tcp.state() as u8,
            received,
            sent,
            backlog: tcp.backlog().1,
            uid: base.uid,
            ino: base.ino.get(),
            drops: 0,
        }
    };
    let listening = ns.tcp.all().filter(|tcp| tcp.state() == State::Listen);
    let others = ns.tcp.all().filter(|tcp| !matches!(tcp.state(), State::Listen | State::Close));
    listening.chain(others).map(row)
}

/// UDP sockets with a port, or `echoes`: those of ICMP with an identifier.
pub fn datagrams(ns: &NetNs, echoes: bool) -> impl Iterator<Item = Row> {
    let row = |udp: Rc<udp::Udp>| {
        let base = udp.base();
        let (received, drops) = udp.usage();
        let remote = base.remote.get();
        let state = if remote.is_some() { State::Established } else { State::Close };
        Row {
            family: base.family,
            local: base.local.get(),
            remote,
            state: state as u8,
            received,
            sent: 0,
            backlog: 0,
            uid: base.uid,
            ino: base.ino.get(),
            drops,
        }
    };
    let ports = if echoes { &ns.echoes } else { &ns.udp };
    ports.all().map(row)
}

//! Messages between a pod's monitor and its broker, over a pair of `SOCK_SEQPACKET` sockets.
//!
//! Each message has one encoding of bounded size. The broker treats requests as hostile input: the monitor may be taken
//! over. Requests have ids that the monitor chooses; replies come in any order, each request has one.
//!
//! | request | reply |
//! |---|---|
//! | [`Request::Connect`] | [`Reply::Opened`] with a socket, or [`Reply::Refused`] |
//! | [`Request::Listen`] | [`Reply::Listening`] with a socket for each published port of the host, or [`Reply::Refused`] |
//! | [`Request::Bind`] | [`Reply::Bound`], or [`Reply::Refused`] |
//! | [`Request::Close`] | none |
//! | [`Request::Spare`] | [`Reply::Spare`] |
//! | [`Request::Settle`] | [`Reply::Settled`] |
//! | none: the user changed the policy | [`Reply::Revoked`] for each peer that it does not allow any more |
//!
//! A monitor that connects to the same peer again need not ask: the broker may write the peer's address to the table of
//! [prepared peers](crate::prepared) and name the entry in [`Reply::Opened`].
//!
//! `Bind` is for pods with the host's network. The broker keeps the socket until `Connect` or `Listen` with the same id, or `Close`. In such
//! pods [`Reply::Bound`] with the socket's name precedes [`Reply::Opened`], too.
//!
//! All sockets are non-blocking. After `Listen` of a UDP port the broker keeps the published socket, and sends
//! [`Reply::Flow`] with a connected socket for each peer that sends something, and [`Reply::Datagram`] for datagrams that
//! arrived before the socket was connected; they precede those in the socket.

use crate::facts::{self, Facts};
use crate::prepared::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Maximum size of a datagram's payload.
pub const MAX_DATAGRAM: usize = 65_535;
/// Size of a request.
pub const REQUEST_BYTES: usize = 16 + 2 * ADDRESS_BYTES;
/// Size of a reply without payload.
pub const REPLY_BYTES: usize = 16 + ADDRESS_BYTES + 8 + facts::BYTES;
/// Maximum size of a message.
pub const MAX_MESSAGE: usize = REPLY_BYTES + MAX_DATAGRAM;
/// Maximum number of descriptors with a message: that of Linux (`SCM_MAX_FD`, unix(7)).
pub const MAX_DESCRIPTORS: usize = 253;
/// Flag of [`Request::Bind`]: `SO_REUSEADDR` is set.
pub const BIND_SHARED: u32 = 1;
/// Flag of [`Request::Bind`]: `SO_REUSEPORT` is set.
pub const BIND_GROUPED: u32 = 2;
/// Flag of [`Request::Bind`]: `IPV6_V6ONLY` is set.
pub const BIND_ONLY_V6: u32 = 4;
/// Bit of the ids of flows, which the broker chooses; ids of the monitor lack it.
pub const FLOW: u64 = 1 << 63;

const ADDRESS_BYTES: usize = 24;
/// Where the facts are in a reply.
const FACTS: usize = 24 + ADDRESS_BYTES;

/// Identifies a request, a listener or a flow.
pub type Id = u64;

/// Kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
    /// Echo requests (`SOCK_DGRAM`, `IPPROTO_ICMP` or `IPPROTO_ICMPV6`).
    Icmp,
}

/// What the monitor asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A socket connected to a peer.
    Connect {
        /// Chosen by the monitor.
        id: Id,
        /// Kind of the socket.
        transport: Transport,
        /// The socket's address as the pod sees it, if it is bound.
        local: Option<SocketAddr>,
        /// The peer. Port 0 for ICMP.
        peer: SocketAddr,
    },
    /// The host's ports that are published for one of the pod. The id stays in use until it is closed.
    Listen {
        /// Chosen by the monitor.
        id: Id,
        /// TCP or UDP.
        transport: Transport,
        /// The listener's address as the pod sees it.
        address: SocketAddr,
        /// Length of the queue (TCP).
        backlog: u32,
    },
    /// The pod closed a listener, or the monitor closed a flow's socket: the host's port is not served any more.
    Close {
        /// Of the `Listen`, or of the flow.
        id: Id,
    },
    /// Unconnected TCP sockets for prepared peers.
    Spare {
        /// For IPv6.
        v6: bool,
    },
    /// What has arrived at bound UDP ports is to be passed now.
    Settle {
        /// Chosen by the monitor.
        id: Id,
    },
    /// A socket that is bound to an address of the host.
    Bind {
        /// Chosen by the monitor. It stays in use until the socket is connected or closed.
        id: Id,
        /// Kind of the socket.
        transport: Transport,
        /// The address; port 0: any.
        address: SocketAddr,
        /// [`BIND_SHARED`], [`BIND_GROUPED`], [`BIND_ONLY_V6`].
        flags: u32,
    },
}

/// Why a request was refused: an errno of Linux, greater than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u16);

/// What the broker replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// One descriptor: a socket that is connected, or (TCP) whose connection is under way as after `connect` with
    /// EINPROGRESS.
    Opened {
        /// Of the request.
        id: Id,
        /// The peer's entry among the prepared ones, if the monitor may connect to it again.
        entry: Option<Entry>,
    },
    /// No socket.
    Refused {
        /// Of the request.
        id: Id,
        /// The error.
        error: Refused,
    },
    /// TCP: a listening socket for each published port of the host, none if the port is not published. UDP: none; flows
    /// follow if the port is published.
    Listening {
        /// Of the request.
        id: Id,
    },
    /// One descriptor: a UDP socket that is connected to a peer of a published port. The monitor closes idle flows, and
    /// sends [`Request::Close`] for each.
    Flow {
        /// Id of the `Listen`.
        listener: Id,
        /// Id of the flow.
        flow: Id,
        /// The peer.
        peer: SocketAddr,
        /// What the host tells of the datagram.
        facts: Facts,
        /// The datagram.
        datagram: &'a [u8],
    },
    /// A further datagram of a flow's peer, which precedes those in the flow's socket.
    Datagram {
        /// Id of the flow.
        flow: Id,
        /// What the host tells of the datagram.
        facts: Facts,
        /// The datagram.
        datagram: &'a [u8],
    },
    /// No answer: the policy does not allow a peer any more. The monitor breaks off what it has connected to it with
    /// [`Request::Connect`] so far.
    Revoked {
        /// Kind of the sockets.
        transport: Transport,
        /// The peer as the pod sees it, with an IPv4 address in that form. Port 0 for ICMP. The unspecified IPv4 address: all
        /// peers.
        peer: SocketAddr,
    },
    /// Unconnected TCP sockets; none if there are none.
    Spare {
        /// For IPv6.
        v6: bool,
    },
    /// What had arrived at bound UDP ports precedes this.
    Settled {
        /// Of the request.
        id: Id,
    },
    /// The name of a socket of [`Request::Bind`], or of one that [`Reply::Opened`] passes next.
    Bound {
        /// Id of the request.
        id: Id,
        /// The socket's name.
        name: SocketAddr,
    },
}

fn put_address(address: Option<SocketAddr>, bytes: &mut [u8]) {
    let Some(address) = address else { return };
    bytes[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[8..12].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[4..8].copy_from_slice(&v6.scope_id().to_le_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// `None`: malformed; `Some(None)`: absent.
fn take_address(bytes: &[u8], at: usize) -> Option<Option<SocketAddr>> {
    let bytes = bytes.get(at..at.checked_add(ADDRESS_BYTES)?)?;
    let port = u16::from_le_bytes(array(bytes, 2)?);
    let address = match bytes.first()? {
        0 => return bytes.iter().all(|byte| *byte == 0).then_some(None),
        4 => SocketAddr::new(IpAddr::V4(Ipv4Addr::from(array::<4>(bytes, 8)?)), port),
        6 => {
            let scope = u32::from_le_bytes(array(bytes, 4)?);
            SocketAddrV6::new(Ipv6Addr::from(array::<16>(bytes, 8)?), port, 0, scope).into()
        }
        _ => return None,
    };
    Some(Some(address))
}

impl Transport {
    fn number(self) -> u8 {
        match self {
            Self::Tcp => 1,
            Self::Udp => 2,
            Self::Icmp => 3,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Icmp].into_iter().find(|transport| transport.number() == number)
    }
}

impl Request {
    /// The message.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let (kind, transport, value, id, first, second) = match *self {
            Self::Connect { id, transport, local, peer } => (1, Some(transport), 0, id, local, Some(peer)),
            Self::Listen { id, transport, address, backlog } => (2, Some(transport), backlog, id, Some(address), None),
            Self::Close { id } => (3, None, 0, id, None, None),
            Self::Spare { v6 } => (4, None, u32::from(v6), 0, None, None),
            Self::Bind { id, transport, address, flags } => (5, Some(transport), flags, id, Some(address), None),
            Self::Settle { id } => (6, None, 0, id, None, None),
        };
        bytes[0] = kind;
        bytes[1] = transport.map_or(0, Transport::number);
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(value));
        bytes[8..16].copy_from_slice(&id.to_le_bytes());
        put_address(first, &mut bytes[16..16 + ADDRESS_BYTES]);
        put_address(second, &mut bytes[16 + ADDRESS_BYTES..]);
        bytes
    }

    /// Reads a message; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != REQUEST_BYTES {
            return None;
        }
        let transport = Transport::from_number(bytes[1]);
        let value = u32::from_le_bytes(array(bytes, 4)?);
        let id = number(bytes, 8)?;
        let first = take_address(bytes, 16)?;
        let second = take_address(bytes, 16 + ADDRESS_BYTES)?;
        let request = match bytes[0] {
            1 => Self::Connect { id, transport: transport?, local: first, peer: second? },
            2 => Self::Listen { id, transport: transport?, address: first?, backlog: value },
            3 => return Some(Self::Close { id }),
            4 => Self::Spare { v6: value != 0 },
            5 => Self::Bind { id, transport: transport?, address: first?, flags: value },
            6 => Self::Settle { id },
            _ => return None,
        };
        (id & FLOW == 0).then_some(request)
    }
}

impl<'a> Reply<'a> {
    /// Writes the message to a buffer; returns its length. Longer datagrams than [`MAX_DATAGRAM`] are cut.
    pub fn encode(&self, buffer: &mut [u8; MAX_MESSAGE]) -> usize {
        let (kind, error, id, other, address, payload): (u8, u16, Id, Id, _, &[u8]) = match *self {
            Self::Opened { id, entry } => (1, 0, id, entry.map_or(0, Entry::encode), None, &[]),
            Self::Refused { id, error } => (2, error.0, id, 0, None, &[]),
            Self::Listening { id } => (3, 0, id, 0, None, &[]),
            Self::Flow { listener, flow, peer, datagram, .. } => (4, 0, flow, listener, Some(peer), datagram),
            Self::Datagram { flow, datagram, .. } => (5, 0, flow, 0, None, datagram),
            Self::Revoked { transport, peer } => (6, 0, 0, transport.number().into(), Some(peer), &[]),
            Self::Spare { v6 } => (7, 0, 0, v6.into(), None, &[]),
            Self::Bound { id, name } => (8, 0, id, 0, Some(name), &[]),
            Self::Settled { id } => (9, 0, id, 0, None, &[]),
        };
        let payload = &payload[..payload.len().min(MAX_DATAGRAM)];
        let (head, rest) = buffer.split_at_mut(REPLY_BYTES);
        head.fill(0);
        head[0] = kind;
        head[2..4].copy_from_slice(&error.to_le_bytes());
        head[8..16].copy_from_slice(&id.to_le_bytes());
        head[16..24].copy_from_slice(&other.to_le_bytes());
        put_address(address, &mut head[24..FACTS]);
        if let Self::Flow { facts, .. } | Self::Datagram { facts, .. } = self
            && let Some(bytes) = head.last_chunk_mut()
        {
            facts.encode(bytes);
        }
        rest[..payload.len()].copy_from_slice(payload);
        REPLY_BYTES + payload.len()
    }

    /// Reads a message; `None` if it is malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, payload) = bytes.split_at_checked(REPLY_BYTES)?;
        let (id, other) = (number(head, 8)?, number(head, 16)?);
        let facts = Facts::decode(&array(head, FACTS)?)?;
        let reply = match head[0] {
            4 => {
                let peer = take_address(head, 24)??;
                return Some(Self::Flow { listener: other, flow: id, peer, facts, datagram: payload });
            }
            5 => return Some(Self::Datagram { flow: id, facts, datagram: payload }),
            1 => Self::Opened { id, entry: Entry::decode(other) },
            2 => Self::Refused { id, error: Refused(u16::from_le_bytes(array(head, 2)?)) },
            3 => Self::Listening { id },
            6 => {
                let transport = Transport::from_number(u8::try_from(other).ok()?)?;
                Self::Revoked { transport, peer: take_address(head, 24)?? }
            }
            7 => Self::Spare { v6: other != 0 },
            8 => Self::Bound { id, name: take_address(head, 24)?? },
            9 => Self::Settled { id },
            _ => return None,
        };
        payload.is_empty().then_some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn requests_survive_the_wire() {
        let (id, transport) = (7, Transport::Udp);
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 3).into();
        for request in [
            Request::Connect { id, transport, local: Some(address("10.0.2.15:9")), peer: scoped },
            Request::Connect { id, transport: Transport::Icmp, local: None, peer: address("[::ffff:1.2.3.4]:0") },
            Request::Listen { id, transport: Transport::Tcp, address: address("0.0.0.0:80"), backlog: 128 },
            Request::Close { id: FLOW | 9 },
            Request::Spare { v6: false },
            Request::Bind { id, transport: Transport::Tcp, address: address("[::]:0"), flags: 5 },
            Request::Spare { v6: true },
            Request::Settle { id },
        ] {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Some(request));
            assert_eq!(Request::decode(&bytes[..bytes.len() - 1]), None);
        }
        let own = Request::Connect { id: FLOW, transport, local: None, peer: scoped };
        assert_eq!(Request::decode(&own.encode()), None, "an id of the broker");
    }

    #[test]
    fn replies_survive_the_wire() {
        let mut buffer = [0; MAX_MESSAGE];
        let datagram = &vec![5; MAX_DATAGRAM][..];
        let facts = Facts { to: Some((address("[::1]:0").ip(), 1)), hops: Some(64), class: Some(8) };
        for reply in [
            Reply::Opened { id: 1, entry: None },
            Reply::Opened { id: 1, entry: Some(Entry { index: 0, v6: false }) },
            Reply::Opened { id: 1, entry: Some(Entry { index: u16::MAX, v6: true }) },
            Reply::Spare { v6: true },
            Reply::Bound { id: 6, name: address("127.0.0.1:80") },
            Reply::Settled { id: 8 },
            Reply::Refused { id: 2, error: Refused(111) },
            Reply::Listening { id: 3 },
            Reply::Flow { listener: 4, flow: FLOW | 5, peer: address("[2001:db8::1]:53"), facts, datagram },
            Reply::Datagram { flow: FLOW | 5, facts: Facts::default(), datagram: b"" },
            Reply::Revoked { transport: Transport::Icmp, peer: address("10.0.2.2:0") },
        ] {
            let length = reply.encode(&mut buffer);
            assert_eq!(Reply::decode(&buffer[..length]), Some(reply));
        }
    }

    proptest! {
        /// What is accepted has one encoding, as far as it is used.
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), REQUEST_BYTES), kind in 0_u8..6) {
            bytes[0] = kind;
            bytes[1] %= 4;
            bytes[16] %= 7;
            bytes[40] %= 7;
            if let Some(request) = Request::decode(&bytes) {
                prop_assert_eq!(Request::decode(&request.encode()), Some(request));
            }
            let _ = Reply::decode(&bytes);
        }
    }
}

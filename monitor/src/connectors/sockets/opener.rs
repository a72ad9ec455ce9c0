//! Where the sockets of the host come from: a process outside the jail that holds the policy.
//!
//! The monitor itself never opens a socket and never names an address: it asks, and gets descriptors. To peers that were prepared for it
//! it connects again by itself ([`super::prepared`]).

use super::super::{Errno, Result};
use ::broker::Facts;
use ::broker::prepared::Entry;
use abi::request::Transport;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::fmt::Debug;
use std::net::SocketAddr;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A socket that is connected, or about to be. Answered by [`Answer::Opened`] or [`Answer::Refused`].
    Connect {
        /// Number of the question.
        id: u64,
        /// Kind of socket.
        transport: Transport,
        /// Address of the socket in the pod.
        local: SocketAddr,
        /// The peer.
        peer: SocketAddr,
    },
    /// The host's listeners for a listener of the pod. Answered by [`Answer::Listening`] or [`Answer::Refused`].
    Listen {
        /// Number of the question.
        id: u64,
        /// Kind of socket.
        transport: Transport,
        /// Address of the listener in the pod.
        address: SocketAddr,
        /// Most connections that wait.
        backlog: u32,
    },
    /// A socket that is bound to an address of the host. Answered by [`Answer::Bound`] or [`Answer::Refused`]. The number stays that of the
    /// socket: it is connected or listens by a further question with it.
    Bind {
        /// Number of the question.
        id: u64,
        /// Kind of socket.
        transport: Transport,
        /// The address; port 0: any.
        address: SocketAddr,
        /// Flags of [`abi::request::SocketBind`].
        flags: u32,
    },
    /// Unconnected TCP sockets for [prepared peers](::broker::prepared). Answered by [`Answer::Spare`].
    Spare {
        /// For IPv6.
        v6: bool,
    },
    /// What came to bound sockets of datagrams is passed before the answer, [`Answer::Settled`].
    Settle {
        /// Number of the question.
        id: u64,
    },
    /// A listener or a flow is not used any more. Not answered.
    Close {
        /// Number of the question for the listener, or of the flow.
        id: u64,
    },
}

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// A non-blocking socket: one of TCP connects or is connected, others are connected.
    Opened {
        /// Number of the question.
        id: u64,
        /// The socket.
        socket: OwnedFd,
        /// The peer may be connected to again without a question.
        entry: Option<Entry>,
    },
    /// There is none.
    Refused {
        /// Number of the question.
        id: u64,
        /// Why.
        errno: Errno,
    },
    /// The listener is there.
    Listening {
        /// Number of the question.
        id: u64,
        /// Non-blocking listeners of the host. Without one a listener for connections is not published; peers of one for
        /// datagrams come as [`Answer::Flow`].
        listeners: Vec<OwnedFd>,
    },
    /// A new peer of a published port for datagrams.
    Flow {
        /// Number of the question for the listener.
        listener: u64,
        /// Number of the flow, for [`Ask::Close`]; differs from those of questions.
        flow: u64,
        /// The peer.
        peer: SocketAddr,
        /// A non-blocking socket that is connected to it.
        socket: OwnedFd,
        /// What the host tells of its first datagram.
        facts: Facts,
        /// Its first datagram.
        first: Vec<u8>,
    },
    /// A datagram of a flow's peer that came before those in the flow's socket.
    Datagram {
        /// Number of the flow.
        flow: u64,
        /// What the host tells of it.
        facts: Facts,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The name of a socket that is bound, or that is opened next.
    Bound {
        /// Number of the question.
        id: u64,
        /// The name.
        name: SocketAddr,
    },
    /// All that came to bound sockets of datagrams was passed.
    Settled {
        /// Number of the question.
        id: u64,
    },
    /// Unconnected TCP sockets; none if there are none.
    Spare {
        /// For IPv6.
        v6: bool,
        /// The sockets.
        sockets: Vec<OwnedFd>,
    },
    /// The policy does not allow a peer any more: connections to it must end.
    Revoked {
        /// Kind of socket.
        transport: Transport,
        /// The peer, with an IPv4 address in that form; port 0 for ICMP. The unspecified IPv4 address: all peers.
        peer: SocketAddr,
    },
}

/// Asks questions and gets answers, neither of which blocks.
pub trait Opener: Debug + Send {
    /// Readable when there are answers, writable when there is room for questions.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Asks. EAGAIN: no room; anything else: nobody will answer any more.
    fn ask(&mut self, question: &Ask) -> Result<()>;
    /// The next answer. EAGAIN: none yet; anything else: there will be none any more.
    fn take(&mut self) -> Result<Answer>;
}

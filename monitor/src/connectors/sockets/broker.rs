//! The broker as the [`Opener`].

use super::super::{Errno, Result};
use super::opener::{Answer, Ask, Opener};
use ::broker::client::ClientError;
use ::broker::{Client, Event, Refused, Request, protocol};
use abi::request::Transport;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// The monitor's end of the connection to the broker.
#[derive(Debug)]
pub struct Broker(Client);

impl Broker {
    /// With one end of the pair of sockets.
    pub fn new(socket: OwnedFd) -> Self {
        Self(Client::new(socket))
    }
}

// Flags of a bind request go to the broker as keel wrote them.
const _: () = assert!(
    abi::request::BIND_SHARED == protocol::BIND_SHARED
        && abi::request::BIND_GROUPED == protocol::BIND_GROUPED
        && abi::request::BIND_ONLY_V6 == protocol::BIND_ONLY_V6
);

fn transport(of: Transport) -> ::broker::Transport {
    match of {
        Transport::Tcp => ::broker::Transport::Tcp,
        Transport::Udp => ::broker::Transport::Udp,
        Transport::Icmp => ::broker::Transport::Icmp,
    }
}

fn own_transport(of: ::broker::Transport) -> Transport {
    match of {
        ::broker::Transport::Tcp => Transport::Tcp,
        ::broker::Transport::Udp => Transport::Udp,
        ::broker::Transport::Icmp => Transport::Icmp,
    }
}

fn errno(error: ClientError) -> Errno {
    match error {
        ClientError::WouldBlock => Errno::AGAIN,
        ClientError::Gone => Errno::PIPE,
    }
}

impl Opener for Broker {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn ask(&mut self, question: &Ask) -> Result<()> {
        let request = match *question {
            Ask::Connect { id, transport: of, local, peer } => {
                let local = Some(local).filter(|local| !local.ip().is_unspecified() || local.port() != 0);
                Request::Connect { id, transport: transport(of), local, peer }
            }
            Ask::Listen { id, transport: of, address, backlog } => {
                Request::Listen { id, transport: transport(of), address, backlog }
            }
            Ask::Bind { id, transport: of, address, flags } => {
                Request::Bind { id, transport: transport(of), address, flags }
            }
            Ask::Close { id } => Request::Close { id },
            Ask::Spare { v6 } => Request::Spare { v6 },
            Ask::Settle { id } => Request::Settle { id },
        };
        self.0.send(&request).map_err(errno)
    }

    fn take(&mut self) -> Result<Answer> {
        Ok(match self.0.receive().map_err(errno)? {
            Event::Opened(id, socket, entry) => Answer::Opened { id, socket, entry },
            Event::Settled(id) => Answer::Settled { id },
            Event::Bound(id, name) => Answer::Bound { id, name },
            Event::Spare(v6, sockets) => Answer::Spare { v6, sockets },
            Event::Refused(id, Refused(errno)) => {
                Answer::Refused { id, errno: Errno::from_raw_os_error(i32::from(errno)) }
            }
            Event::Listening(id, listeners) => Answer::Listening { id, listeners },
            Event::Flow { listener, flow, peer, socket, facts, datagram } => {
                Answer::Flow { listener, flow, peer, socket, facts, first: datagram.to_vec() }
            }
            Event::Datagram(flow, facts, datagram) => Answer::Datagram { flow, facts, bytes: datagram.to_vec() },
            Event::Revoked(transport, peer) => Answer::Revoked { transport: own_transport(transport), peer },
        })
    }
}
